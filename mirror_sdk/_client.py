# Made from _async_client.py by .ci/make_sync_twins.py: a change belongs there, not here.
"""The synchronous client."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal, NoReturn, Self, Unpack, overload
from weakref import ref

from mirror_sdk._arguments import InstantLike, TableFormat, count, table_module
from mirror_sdk._arguments import instant as instant_like
from mirror_sdk._attribute_suggestions import WithAttributeSuggestions
from mirror_sdk._fork import cannot_be_sent, import_locked, lazy_property
from mirror_sdk._protocol import operations as _operations
from mirror_sdk._protocol.deadline import wait_of
from mirror_sdk._protocol.defaults import (
    DEFAULT_IDLE_SECONDS,
    DEFAULT_MAX_RETRIES,
    DEFAULT_MAX_SNAPSHOT_BYTES,
    DEFAULT_ROTATE_BYTES,
    DEFAULT_ROTATE_SECONDS,
    DEFAULT_TIMEOUT_SECONDS,
)
from mirror_sdk._protocol.log_consumers import Events, Watch
from mirror_sdk._protocol.request_options import to_execute, to_write
from mirror_sdk._session.client_session import ClientSession
from mirror_sdk._session.table_reader import TableReader
from mirror_sdk._table_arguments import DeviceTable, is_table
from mirror_sdk._warnings import calling_line
from mirror_sdk.config import ClientSettings
from mirror_sdk.device import DeviceObject
from mirror_sdk.device_lookup import DeviceLike, DevicesLike, lookup_failures, require_known, resolve_names
from mirror_sdk.errors import ConfigError
from mirror_sdk.events import Event, event_filter
from mirror_sdk.resource import ExpectedValue
from mirror_sdk.table_formats import convert_tables
from mirror_sdk.values import InstanceValues, PythonValue
from mirror_sdk.wire.snapshot import Compression

if TYPE_CHECKING:
    from os import PathLike

    import httpx
    import pandas as pd
    import polars as pl

    from mirror_sdk._session.table_options import ChangesOptions, HistoryOptions, SnapshotOptions, StateOptions
    from mirror_sdk.arrow_tables.arrow_types import ArrowTable
    from mirror_sdk.cassette import Mode
    from mirror_sdk.client_groups.cassettes import Cassettes
    from mirror_sdk.client_groups.devices import Devices
    from mirror_sdk.client_groups.fleet import Fleet
    from mirror_sdk.client_groups.notifications import Notifications
    from mirror_sdk.client_groups.plans import Plans
    from mirror_sdk.client_groups.requests import Requests
    from mirror_sdk.client_groups.service import MirrorService
    from mirror_sdk.client_groups.subscriptions import Subscriptions
    from mirror_sdk.plan import Plan
    from mirror_sdk.plan.requested_writes import RequestedWrites
    from mirror_sdk.recording import Recorder


class MirrorClient(WithAttributeSuggestions):
    """A client of a device state mirror.

    Any number of threads may use the client at the same time.

    Where to find things::

        read a value from a device     client.read_value(device, path)
        write a value to a device      client.write_value(device, path, value)
        values the mirror has          client.get_device(device), client.state_frame(), client.fleet.snapshot()
        devices with an attribute      client.devices.list(attributes={"site": "Berlin"})
        history of a device            client.history([device])
        subscribe, or add a rule       client.subscribe(device, path), client.subscriptions.rules.add([rule])
        events as they come            client.events(), client.watch(callback)
        many writes at once            client.plan(writes)
        requests without a response    client.requests.frame()
        connection of a device         client.devices.connection(device)
        notification channel           client.notifications.channel
        decoder for a content type     mirror_sdk.register_decoder(content_type, decode)

    All other methods are in groups: :attr:`devices`, :attr:`requests`, :attr:`subscriptions`, :attr:`notifications`,
    :attr:`fleet`, :attr:`plans`, :attr:`cassettes` and :attr:`service`.

    A forked process may use the client too: it opens its own connections, and both processes get the responses to their
    requests. Watches and recorders stay with the parent. Closing the client in one process leaves it open in the other.

    Every method may raise :class:`ConnectionFailed`, :class:`UnexpectedResponse` and these kinds of :class:`APIError`:
    :class:`AuthenticationError`, :class:`AccessDenied` and :class:`ServerError`. Each method lists its other errors. An
    invalid device id or path raises ``ValueError``, and one that is not a ``str`` raises ``TypeError``. Both are
    raised before anything is sent. After :meth:`close`, every call that would send a request raises
    :class:`ClientClosed`.

    ``timeout`` limits a whole call, in seconds: all attempts, the pauses between them, all pages and all responses.
    Each method that sends requests has this argument, which replaces the client's. A call that takes longer raises
    :class:`CallTimeout`. Two kinds of methods are different:

    - Calls about a whole fleet may take long: :meth:`state_frame`, ``client.fleet.snapshot()``,
      ``client.fleet.dataset()``, ``client.fleet.refresh()`` and :meth:`plan` have no limit on the whole call unless
      you pass ``timeout``. By default, the client's limit applies to each request, and in a snapshot to each 64 KiB.
      A plan's ``apply()``, a watch and a recorder run as long as necessary; the client's limit applies to each of their
      requests.
    - In calls that wait for a device or an event, ``timeout`` is the time to wait, and the call takes at most two
      seconds more: :meth:`read_value`, :meth:`write_value`, :meth:`execute`, :meth:`events`,
      ``client.notifications.events_frame()`` and the ``result()`` of a request. The service may delay the
      response to a poll until there is an event. This delay does not count toward the client's limit. An outage of the
      service does not count as waiting for events; see ``outage_timeout`` of :meth:`events`.

    If you pass your own ``transport``, the client checks the limit only between the chunks of a response.

    A method that takes a device accepts a :data:`~mirror_sdk.DeviceLike`: an id, an endpoint name, a :class:`Device`, a
    :class:`DeviceObject`, or a request to the device. A method that takes several devices accepts a list of these, in
    any mixture. It also accepts a table with a column ``device_id``, such as ``snapshot.query(...)``. Each device of a
    table counts once. A table without rows issues an :class:`EmptyTableWarning`.

    A string of 32 hexadecimal digits is an id and needs no request. The client looks up any other string in the
    directory, all names of a list together. An id takes precedence over a name. If several devices have the same name,
    the client uses the registered device. If a call only reads the mirror, the client caches the id for 30 seconds.
    Calls that send a request to a device or subscribe look up the name every time, so that a write never reaches the
    device that had the name before. A string that names no device raises :class:`UnknownDevice`, a :class:`NotFound`
    that lists similar names. If several devices have the name, and none or several of them are registered, the call
    raises :class:`AmbiguousName`, which lists their ids.

    In the examples ``light`` and ``station`` are devices, ``simulator`` is a :class:`Simulator` and ``folder`` a
    ``Path``.

    Args:
        base_url: Address of the service. Without a scheme, the client uses https, or http for a loopback address.
        api_key: Access key of the application.
        timeout: Seconds that each call may take, unless you pass another time to the call; see above.
        transport: Sends the requests instead of the network, such as ``httpx.WSGITransport(app)``.
        max_snapshot_bytes: Maximum size of a snapshot after decompression, in bytes. A larger one raises an error.
        max_retries: How many times the client repeats a request after a lost connection, 429, 502, 503 or 504, if that
            is safe; 0 means one attempt. Repeating a device request is safe because of its async-id. The pauses grow
            and are partly random. If the service sends ``Retry-After``, the client waits that long if there is time.

    Raises:
        ConfigError: The address, the key, the timeout or the limit is invalid.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str,
        *,
        timeout: float = DEFAULT_TIMEOUT_SECONDS,
        transport: httpx.BaseTransport | None = None,
        max_snapshot_bytes: int = DEFAULT_MAX_SNAPSHOT_BYTES,
        max_retries: int = DEFAULT_MAX_RETRIES,
    ) -> None:
        session = ClientSession(
            ClientSettings.of(base_url, api_key),
            timeout_seconds=timeout,
            max_retries=max_retries,
            max_snapshot_bytes=max_snapshot_bytes,
            transport=transport,
        )
        self._hold(session)

    def _hold(self, session: ClientSession) -> None:
        """Store what all methods share. A client for tests passes its own session."""
        self._session = session
        session.client = ref(self)  # a weak one: the client ends when it is no longer used
        self._tables = TableReader(session)

    @classmethod
    def from_env(
        cls,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float = DEFAULT_TIMEOUT_SECONDS,
        transport: httpx.BaseTransport | None = None,
        max_snapshot_bytes: int = DEFAULT_MAX_SNAPSHOT_BYTES,
        max_retries: int = DEFAULT_MAX_RETRIES,
    ) -> Self:
        """Return a client with missing arguments taken from the environment: ``API_HOST`` and ``API_KEY``.

        The default address is that of a local ``mirror-server demo`` or ``run``: ``http://127.0.0.1:8080``.

        Raises:
            ConfigError: There is no key, or a value is invalid.

        >>> MirrorClient.from_env(base_url="https://mirror.example.com", api_key="an-access-key")
        <MirrorClient https://mirror.example.com>
        >>> with MirrorClient.from_env(base_url="mirror.example.com", api_key="an-access-key") as client:
        ...     client.base_url
        'https://mirror.example.com'
        """
        settings = ClientSettings.load(base_url, api_key)
        return cls(
            settings.base_url,
            settings.api_key.get_secret_value(),
            timeout=timeout,
            transport=transport,
            max_snapshot_bytes=max_snapshot_bytes,
            max_retries=max_retries,
        )

    @classmethod
    def from_cassette(
        cls,
        path: str | PathLike[str],
        *,
        mode: Mode = "once",
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float = DEFAULT_TIMEOUT_SECONDS,
        transport: httpx.BaseTransport | None = None,
        max_snapshot_bytes: int = DEFAULT_MAX_SNAPSHOT_BYTES,
        max_retries: int = DEFAULT_MAX_RETRIES,
    ) -> Self:
        """Return a client that uses a cassette until it is closed; see ``client.cassettes.use()``.

        When the client replays, it needs no service, no address and no key. So you can ship a notebook with its
        cassette and run it anywhere. When it records, it is set up like the client of :meth:`from_env`, and the file is
        written when the client is closed.

        Args:
            path: The cassette.
            mode: As for ``client.cassettes.use()``.
            base_url: Address of the service to record, instead of ``API_HOST``.
            api_key: Access key, instead of ``API_KEY``.
            timeout: Seconds that a call may take.
            transport: Sends the requests instead of the network while recording.
            max_snapshot_bytes: Maximum size of a snapshot after decompression, in bytes.
            max_retries: How many times a request is repeated.

        Raises:
            CassetteDamaged: The file is not a cassette, or is a cassette of another version.
            ConfigError: The cassette is to be recorded, and there is no key or a value is invalid.
            FileNotFoundError: The cassette to replay does not exist.
            InvalidValue: The mode does not exist.

        >>> with client.cassettes.use(folder / "lights.zip"):
        ...     count = len(client.devices.list())
        >>> with MirrorClient.from_cassette(folder / "lights.zip", mode="replay") as played:
        ...     len(played.devices.list()) == count
        True
        """
        import_locked("mirror_sdk.cassette")
        from mirror_sdk.cassette import address_of, is_played

        has_it = is_played(path, mode)
        if has_it:
            # A client needs a key, but one that replays a cassette sends none.
            base_url, api_key = address_of(path), api_key or "no-key-is-sent"
        try:
            made = cls.from_env(
                base_url=base_url,
                api_key=api_key,
                timeout=timeout,
                transport=transport,
                max_snapshot_bytes=max_snapshot_bytes,
                max_retries=max_retries,
            )
        except ConfigError as error:
            if has_it or mode != "once":
                raise
            # The user is probably missing the cassette, not a key.
            raise ConfigError(f"there is no cassette {path} to replay, and none can be recorded: {error}") from error
        made._session.cassette = made.cassettes.use(path, mode=mode)
        made._session.cassette.insert(made._session.cassette.open())
        return made

    def close(self) -> None:
        """Stop all watches and recorders and close the connections. The client cannot be used after this.

        Raises:
            Exception: The failure that ended a recording earlier, if it was not raised yet.
            OSError: A recorder or a cassette could not write its last part.

        >>> client.close()
        """
        self._session.end(is_saved=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._session.end(is_saved=kind is None)

    def __repr__(self) -> str:
        return f"<MirrorClient {self.base_url}>"

    def __reduce__(self) -> NoReturn:
        """Raise an error, because a client cannot be pickled."""
        raise cannot_be_sent(self)

    def get_device(self, device_id: DeviceLike, *, timeout: float | None = None) -> DeviceObject:
        """Return the device object: reported and desired values of every resource, with their times.

        ``client.devices.get()`` returns its entry in the directory instead: names, type, state and attributes.

        Raises:
            NotFound: The device does not exist.

        >>> client.get_device("station-01")["/3303/0/5700"].label
        'Temperature · Sensor Value'
        """
        found = self._session.send_for(device_id, _operations.get_device_object, timeout=timeout)
        return DeviceObject.from_wire(found, self)

    def read_value(
        self,
        device_id: DeviceLike,
        path: str,
        *,
        accept: str | None = None,
        expiry_seconds: int | None = None,
        timeout: float | None = None,
    ) -> PythonValue | InstanceValues | None:
        """Read a value from a device, wait for the response and return it as a Python value.

        The value of a resource with several instances, such as ``/3/0/7``, is a mapping from the id of each instance to
        its value: ``{0: 3800, 1: 5000}``.

        Real devices can also send a whole object instance (``/3303/0``). The method then returns the ``bytes`` of the
        response. To decode them, you need their content type: call ``client.requests.begin_read(...)`` and
        ``result()``, and pass both to :func:`mirror_sdk.values.decode_many`.

        Args:
            device_id: The device: its id, its endpoint name, or an object that has its id.
            path: The resource path, such as ``/3303/0/5700``.
            accept: The preferred content type.
            expiry_seconds: Seconds that the request may wait for the device. The default is 2 hours, or 3 days for a
                device in queue mode.
            timeout: Seconds to wait for the response; by default 60, or less if the request expires sooner.

        Raises:
            NotFound: The device does not exist.
            UnknownResource: The device does not have this resource.
            ReadRejected: The device rejects the read.
            DeviceRequestFailed: The request failed for another reason; see its subclass and ``category``.
            WaitTimeout: No response arrived in ``timeout``. The request stays in the queue and may still be executed.
            ValueError: An argument cannot be sent; the message names it.

        For other errors see ``client.requests.begin_read()``.

        >>> client.read_value(station, "/3303/0/5700")
        21.5
        """
        response = self._session.submit_and_wait(
            "GET", device_id, path, wait_of(timeout), expiry_seconds=expiry_seconds, accept=accept
        )
        return response.python

    def write_value(
        self,
        device_id: DeviceLike,
        path: str,
        value: object = None,
        *,
        text: str | None = None,
        content_type: str | None = None,
        expiry_seconds: int | None = None,
        timeout: float | None = None,
        allow_read_only: bool = False,
        if_match: ExpectedValue | None = None,
    ) -> None:
        """Write a value to a device and wait until the device has accepted it.

        Args:
            device_id: The device: its id, its endpoint name, or an object that has its id.
            path: The resource path, such as ``/3311/0/5850``.
            value: The value; see :func:`mirror_sdk.values.encode`.
            text: Text that a person typed, such as ``"off"``, instead of ``value``; see :func:`mirror_sdk.parse_value`.
            content_type: The content type to encode the value in. By default, it depends on the value.
            expiry_seconds: Seconds that the request may wait for the device. The default is 2 hours, or 3 days for a
                device in queue mode.
            timeout: Seconds to wait for the response; by default 60, or less if the request expires sooner.
            allow_read_only: Whether to write to a path that is declared read-only.
            if_match: The resource, desired value or revision that you expect. The service rejects the write if it has
                accepted another write in the meantime, or if the status of the last write has changed.

        Raises:
            InvalidValue: The value does not match the declaration of the path, or another argument cannot be sent.
            NotFound: The device does not exist.
            UnknownResource: The device does not have this resource.
            PreconditionFailed: The desired value differs from ``if_match``. Nothing was sent to the device.
            WriteRejected: The device rejects the write.
            DeviceRequestFailed: The request failed for another reason; see its subclass and ``category``.
            WaitTimeout: No response arrived in ``timeout``. The request stays in the queue and may still be executed.

        For other errors see ``client.requests.begin_write()``.

        >>> client.write_value(light, "/3311/0/5850", True)
        >>> client.write_value(light, "/3311/0/5851", text=" 55 ")
        """
        options = to_write(path, value, text, content_type, allow_read_only=allow_read_only, if_match=if_match)
        self._session.submit_and_wait(
            "PUT", device_id, path, wait_of(timeout), expiry_seconds=expiry_seconds, **options
        )

    def execute(
        self,
        device_id: DeviceLike,
        path: str,
        argument: str | None = None,
        *,
        expiry_seconds: int | None = None,
        timeout: float | None = None,
    ) -> None:
        """Execute a resource of a device, and wait until the device reports that it has done so.

        Args:
            device_id: The device: its id, its endpoint name, or an object that has its id.
            path: The resource path, such as ``/3/0/4``.
            argument: The argument of the execution, if the resource takes one.
            expiry_seconds: Seconds that the request may wait for the device. The default is 2 hours, or 3 days for a
                device in queue mode.
            timeout: Seconds to wait for the response; by default 60, or less if the request expires sooner.

        Raises:
            NotFound: The device does not exist.
            UnknownResource: The device does not have this resource.
            ExecuteRejected: The device rejects the execution.
            DeviceRequestFailed: The request failed for another reason; see its subclass and ``category``.
            WaitTimeout: No response arrived in ``timeout``. The request stays in the queue and may still be executed.
            ValueError: An argument cannot be sent; the message names it.

        For other errors see ``client.requests.begin_execute()``.

        >>> client.execute(light, "/3/0/4")
        """
        options = to_execute(argument)
        self._session.submit_and_wait(
            "POST", device_id, path, wait_of(timeout), expiry_seconds=expiry_seconds, **options
        )

    def subscribe(
        self, device_id: DeviceLike | DeviceTable, path: str | None = None, *, timeout: float | None = None
    ) -> None:
        """Subscribe to a resource, or to the resources in a table. Their values then arrive as events.

        A full registration of the device ends the subscription. A rule lasts; see ``client.subscriptions.rules``.

        Args:
            device_id: The device, or a table with the columns ``device_id`` and ``path``, such as
                ``snapshot.query(...)``.
            path: The resource path. For a table: the path to use for all its devices, instead of the column ``path``.
            timeout: Seconds for the whole call. By default the client's limit applies; for a table, to each row.

        Raises:
            NotFound: The device does not exist. With a table, the call raises the error after it has subscribed to all
                other rows.
            UnknownResource: The device does not have this resource. With a table, this error is also raised only after
                all other rows.
            InvalidValue: The table lacks these columns, or a row has no device or no path.

        >>> client.subscribe(station, "/3303/0/5700")
        >>> found = client.fleet.snapshot().query("path in ['/3311/0/5850', '/3311/0/5851']")
        >>> client.subscribe(found)
        >>> client.subscriptions.list(light)
        ['/3311/0/5850', '/3311/0/5851']
        """
        self._session.act_on(device_id, path, _operations.put_subscription, timeout)

    def unsubscribe(
        self, device_id: DeviceLike | DeviceTable, path: str | None = None, *, timeout: float | None = None
    ) -> None:
        """End the subscription to a resource. A missing subscription or resource is not an error.

        The arguments and the other errors are the same as for :meth:`subscribe`.

        >>> client.subscribe(station, "/3303/0/5700")
        >>> client.unsubscribe(station, "/3303/0/5700")
        """
        self._session.act_on(device_id, path, _operations.delete_subscription, timeout)

    def plan(
        self,
        writes: RequestedWrites,
        *,
        value: object = None,
        path: str | None = None,
        if_match: bool = False,
        read_first: bool = False,
        timeout: float | None = None,
    ) -> Plan:
        """Check many writes against the declarations and the current state, and plan them. This writes nothing.

        ``plan.frame`` shows each write and the result of its checks. ``plan.apply()`` sends the writes, and
        ``plan.undo()`` makes a plan that restores the earlier values.

        Args:
            writes: A table with the columns ``device_id`` (or ``device``, as in the files of ``mirror plan``),
                ``path``, ``value`` and optionally ``content_type``. You can also pass a table with the index
                ``device_id`` and a column per path, as ``state.mirror.wide()`` returns, or a list of
                (device, path, value). All of these name devices by id or endpoint name. Rows without a value are
                ignored. Strings in a table are parsed as in the CSV files of ``mirror plan``; see
                :func:`mirror_sdk.parse_value`. If a string is not a valid value, only its row is rejected. The
                column ``value`` may also be called ``text``. Tables of Polars and pyarrow work too.
            value: What to write to the resources in the rows of a table, such as ``snapshot.query(...)``: one value, or
                a column for the rows, such as ``found["reported_num"] - 1``. Each resource is written once.
            path: With ``value``, the resource of each device to write, instead of the table's ``path``.
            if_match: Whether to write a value only if the desired value has not changed since the table was read. The
                column ``desired_revision`` shows this. If the resource has been written since then, the row is rejected
                with the check ``changed`` and the current value, here or in ``apply()``; the others are written.
            read_first: Whether to read from devices the values that the mirror does not have, so that the writes can be
                undone. Each read waits 20 s for its device; sleeping devices are not read. By default, planning sends
                no request to a device.
            timeout: Seconds for the whole call. By default the client's limit applies to each part.

        Raises:
            AccessDenied: With ``read_first``: the key has no permission to read from devices.
            ImportError: pandas is not installed.
            InvalidValue: ``writes`` is not one of these; the message names a missing column.

        >>> client.plan([(light, "/3311/0/5851", 40), (light, "/3311/0/5850", "on")])
        <Plan: 1 to write, 1 rejected; 1 cannot be undone; nothing was sent, apply() sends>
        >>> client.plan([(light, "/3311/0/5851", 40)], read_first=True)
        <Plan: 1 to write; nothing was sent, apply() sends>
        >>> dim = client.fleet.snapshot().query("path == '/3311/0/5851' and reported_num < 20")
        >>> client.plan(dim, value=40, if_match=True)
        <Plan: 1 to write; nothing was sent, apply() sends>
        """
        import_locked("mirror_sdk.plan", "mirror_sdk.client_groups.planner")
        from mirror_sdk.client_groups.planner import Planner
        from mirror_sdk.plan.requested_writes import names_in, read_requested, with_ids

        # A generator of rows may use objects of this thread.
        rows = writes if isinstance(writes, str) or is_table(writes) else list(writes)
        requested = partial(read_requested, rows, value=value, path=path, if_match=if_match)()
        deadline = self._session.sender.total_deadline(timeout)
        found = self._session.run(resolve_names(self._session.names, names_in(requested)), deadline)
        return Planner(self._session).plan_of(
            with_ids(requested, found.ids),
            self._session.run(lookup_failures(found), deadline),
            deadline,
            read_first=read_first,
        )

    def events(
        self,
        *,
        timeout: float = DEFAULT_IDLE_SECONDS,
        outage_timeout: float | None = None,
        limit: int | None = None,
        after: int | None = None,
        paths: Collection[str] | None = None,
        devices: DevicesLike | None = None,
    ) -> Events:
        """Iterate over events as they arrive, from this call on. Each iterator has its own position in the log.

        Events arrive in the order of the log. The iterator's ``position`` is the number of the last entry that it
        returned. A program can stop at any event and continue later with ``after=events.position``, without loss or
        repetition. If entries were lost, the iterator returns an event of the kind ``gap`` and issues a
        :class:`GapWarning`. While the service is unreachable, the iterator waits.

        Values arrive only for resources that a rule or a subscription of this key covers. Add rules with
        ``client.subscriptions.rules.add()``, with ``apply_now=True`` for devices that are already registered, or call
        :meth:`subscribe`. Registrations, and responses to requests of this key, always arrive.

        Args:
            timeout: Seconds without any event after which the iteration ends. With 0, only events that are already in
                the log are returned. An outage does not count.
            outage_timeout: Seconds that the service may be unreachable before the iterator raises the failure. By
                default there is no limit. With ``timeout=0`` the iterator raises the failure at once.
            limit: The maximum number of events to return.
            after: The number of an entry (``position``, ``Event.seq``) to start after, instead of the end of the log.
            paths: Path patterns (``/3303/*``). Only observations of these paths are returned, plus gaps and unknown
                entries.
            devices: Only events of these devices. Pass ids or endpoint names; the client looks up the names once, now.
                Gaps and unknown entries are always included.

        Raises:
            MirrorError: A request failed for a reason that a retry would not fix, or for longer than
                ``outage_timeout``. The iterator raises the error, not this call.
            NotFound: A device does not exist.
            TypeError: A single string was passed instead of a list.
            InvalidValue: A time limit, ``limit``, ``after`` or a pattern is not valid.

        >>> events = client.events(limit=1)
        >>> client.subscribe(station, "/3303/0/5700")
        >>> [(event.endpoint_name, event.path, event.value.python) for event in events]
        [('station-01', '/3303/0/5700', 21.5)]
        >>> [event for event in client.events(after=events.position, timeout=0)]
        []
        """
        return self._session.open_events(
            timeout=timeout, outage_timeout=outage_timeout, limit=limit, after=after, paths=paths, devices=devices
        )

    def watch(
        self,
        callback: Callable[[Event], object],
        *,
        paths: Collection[str] | None = None,
        devices: DevicesLike | None = None,
        timeout: float | None = None,
    ) -> Watch:
        """Call a function for each event from now on, in a separate thread, until you stop the watch.

        Values arrive only for resources that a rule or a subscription of this key covers; see :meth:`events`.

        Args:
            callback: Takes an event. Errors that it raises are logged and stored in ``Watch.errors``.
            paths: Path patterns (``/3303/*``). The function is called only for observations of these paths, and for
                gaps and unknown entries.
            devices: Only events of these devices. Pass ids or endpoint names; the client looks up the names once, now.
                Gaps and unknown entries are always included.
            timeout: Seconds within which the watch must start, instead of the client's time limit.

        Raises:
            TypeError: ``callback`` cannot be called, or a single string was passed instead of a list.
            InvalidValue: A pattern is not valid.

        >>> with client.watch(print) as watch:
        ...     print(watch.is_running)
        True
        """
        if not callable(callback):
            raise TypeError(f"callback={callback!r} cannot be called; pass a function that takes an event")
        deadline = self._session.sender.deadline(timeout)
        device_ids = None if devices is None else frozenset(self._session.ids_of(devices, timeout=deadline))
        accepts = event_filter(paths, device_ids)
        reader = self._session.new_reader()
        # Before the watch starts, so that it gets everything that happens after this call.
        reader.go_to_end(deadline)
        watch = Watch(reader, callback, accepts, self._session.sender.clock.now)
        self._session.add_watch(watch)
        return watch

    def record(
        self,
        path: str | PathLike[str],
        *,
        devices: DevicesLike | None = None,
        paths: Sequence[str] | None = None,
        subscribe: bool = False,
        rotate_bytes: int = DEFAULT_ROTATE_BYTES,
        rotate_seconds: float = DEFAULT_ROTATE_SECONDS,
        timeout: float | None = None,
    ) -> Recorder:
        """Start to record the notification log in a separate thread, until you stop the recorder.

        The recording is a folder of Parquet files. pandas, Arrow, DuckDB, Polars and Dask read it as one table at any
        time; at most the last ``rotate_seconds`` are missing. These newest events, and the state tables at the
        beginning and after each loss, are in a second folder (``_run.parquet.mirror``; copy and remove both together).
        :class:`mirror_sdk.recording.Recording` reads both.

        After a recorder was stopped or killed, start another one with the same folder. It continues at the last
        recorded entry. The service usually stores entries for one day. If it has deleted some of them by then, the
        recording has a row with the event ``gap`` in their place.

        Args:
            path: The folder, such as ``run.parquet``.
            devices: Devices, their ids or endpoint names, or a table that names them; ``None`` selects all devices,
                including future devices.
            paths: Path patterns (``/3303/*``). The recording then contains only observations of these paths, gaps and
                unknown entries. ``None`` selects every event. Values arrive only if a rule or a subscription of this
                key covers them. A :class:`NotSubscribedWarning` lists the patterns and devices that are not covered.
            subscribe: Whether to add rules for these devices and paths, apply them now, and remove them when the
                recorder stops; see ``client.subscriptions.rules.add()``. Other rules stay. After the recorder has
                stopped, each device keeps the subscriptions that these rules made until it registers again. If the
                recorder is killed, its rules stay until the next recorder with the same folder stops.
            rotate_bytes: The recorder starts a new file at this size.
            rotate_seconds: The recorder finalizes a file after this many seconds, so that every program can read it.
            timeout: Seconds within which it must start. By default the client's limit applies to each request.

        Raises:
            ImportError: pandas is not installed.
            NotFound: A device does not exist.
            OSError: The folder cannot be written.
            RecordingDamaged: A file of the recording was changed or damaged; the message names it.
            TypeError: A single string was passed instead of a list.
            InvalidValue: The folder contains something else or another recording, or another recorder is using it. An
                argument is not a valid size, time or pattern. ``subscribe`` would exceed the limit of rules for a key.

        >>> with client.record(folder / "run.parquet", paths=["/3303/*"], subscribe=True) as recorder:
        ...     print(client.subscriptions.rules.list())
        [PresubscriptionRule(endpoint_name=None, endpoint_type=None, resource_path=['/3303/*'])]
        >>> recorder.audit().complete
        True
        >>> client.subscriptions.rules.list()
        []
        """
        import_locked("mirror_sdk.recording.recorder")
        from mirror_sdk.recording.recorder import start_recording
        from mirror_sdk.recording.recording_rules import RecordingRules
        from mirror_sdk.recording.writer import RecordingWriter

        deadline = self._session.sender.total_deadline(timeout)
        chosen = None if devices is None else self._session.ids_of(devices, timeout=deadline)
        make_writer = partial(
            RecordingWriter,
            path,
            server=self._session.base_url,
            key=self._session.key_mark,
            devices=chosen,
            paths=paths,
            rotate_bytes=rotate_bytes,
            rotate_seconds=rotate_seconds,
            # Found here: no line of the program calls the task or thread that warns later.
            called_from=calling_line(),
        )
        recorder = start_recording(
            make_writer,
            self._session.new_log_reader,
            lambda within: self._tables.state_to_record(chosen, paths, within),
            self._session.run,
            RecordingRules(chosen, paths, adds_rules=subscribe),
            deadline,
        )
        self._session.add_watch(recorder)
        return recorder

    @overload
    def state_frame(
        self, devices: DevicesLike | None = None, *, as_: Literal["pandas"] = "pandas", **options: Unpack[StateOptions]
    ) -> pd.DataFrame: ...

    @overload
    def state_frame(
        self, devices: DevicesLike | None = None, *, as_: Literal["arrow"], **options: Unpack[StateOptions]
    ) -> ArrowTable: ...

    @overload
    def state_frame(
        self, devices: DevicesLike | None = None, *, as_: Literal["polars"], **options: Unpack[StateOptions]
    ) -> pl.DataFrame: ...

    def state_frame(
        self,
        devices: DevicesLike | None = None,
        *,
        paths: Sequence[str] | None = None,
        raw: bool = False,
        tz: str | None = None,
        timeout: float | None = None,
        as_: TableFormat = "pandas",
    ) -> pd.DataFrame | ArrowTable | pl.DataFrame:
        """Return the state table, one row for each device and resource; see :func:`mirror_sdk.frames.state_frame`.

        The devices are fetched one by one, each at a different instant. ``client.fleet.snapshot()`` returns a whole
        fleet as of one instant. ``attrs["mirror"]["paths_without_rows"]`` lists the ``paths`` that no row matches. If
        no path has a row, an :class:`EmptyTableWarning` is issued.

        Args:
            devices: Devices, their ids or endpoint names, or a table that names them; ``None`` selects the whole
                directory.
            paths: Path patterns (``/3303/*``); ``None`` selects every resource.
            raw: Whether to add columns with the raw payloads.
            tz: Time zone of the time columns, such as ``Europe/Berlin``; UTC by default.
            timeout: Seconds for the whole call. By default the client's limit applies to each part.
            as_: ``pandas``, ``arrow`` or ``polars``: a ``pandas.DataFrame``, ``pyarrow.Table`` or ``polars.DataFrame``.

        Raises:
            ImportError: A package that ``as_`` needs, such as pandas, is not installed.
            NotFound: A device does not exist.
            TypeError: A single string was passed instead of a list of devices.
            InvalidValue: A pattern is not valid, or ``tz`` is not a time zone.

        >>> client.state_frame(paths=["/3311/*"])["path"].tolist()
        ['/3311/0/5850', '/3311/0/5851']
        >>> client.state_frame(paths=["/3311/*"], as_="polars").height
        2
        """
        import_locked(table_module(as_))
        deadline = self._session.sender.total_deadline(timeout)
        tables, metadata = self._tables.state_of(devices, paths, deadline, raw=raw)
        metadata = self._tables.with_paths_without_rows(metadata, tables, paths)
        return convert_tables(tables, metadata, as_=as_, tz=tz)

    @overload
    def history(
        self,
        devices: DevicesLike | None = None,
        paths: Sequence[str] | None = None,
        *,
        as_: Literal["pandas"] = "pandas",
        **options: Unpack[HistoryOptions],
    ) -> pd.DataFrame: ...

    @overload
    def history(
        self,
        devices: DevicesLike | None = None,
        paths: Sequence[str] | None = None,
        *,
        as_: Literal["arrow"],
        **options: Unpack[HistoryOptions],
    ) -> ArrowTable: ...

    @overload
    def history(
        self,
        devices: DevicesLike | None = None,
        paths: Sequence[str] | None = None,
        *,
        as_: Literal["polars"],
        **options: Unpack[HistoryOptions],
    ) -> pl.DataFrame: ...

    def history(
        self,
        devices: DevicesLike | None = None,
        paths: Sequence[str] | None = None,
        *,
        begin: InstantLike | None = None,
        end: InstantLike | None = None,
        state: str | None = None,
        endpoint_type: str | None = None,
        endpoint_name: str | None = None,
        filters: Mapping[str, object] | None = None,
        raw: bool = False,
        tz: str | None = None,
        limit: int | None = None,
        compression: Compression | None = None,
        timeout: float | None = None,
        as_: TableFormat = "pandas",
    ) -> pd.DataFrame | ArrowTable | pl.DataFrame:
        """Return the events of the past as a table, with one row for each event, sorted by device, path and time.

        The columns are those of :func:`mirror_sdk.frames.history_frame`. Each row is a reported value with its origin,
        the result of a write, a registration or its end, or an interval in which the service received nothing. Rows
        without a path, such as registrations, do not depend on ``paths``. Rows without a device, which are gaps of the
        service, do not depend on ``devices``.

        ``attrs["mirror"]`` also contains ``begin``, ``end``, ``taken_at`` and ``oldest_at``, the beginning of the
        stored history. If the connection is lost during the response, the client continues after the last row that it
        received. ``attrs["mirror"]["paths_without_rows"]`` lists the ``paths`` that no row matches. If no path has a
        row and no device has such a resource, an :class:`EmptyTableWarning` is issued.

        Args:
            devices: Devices, their ids or endpoint names, or a table that names them; ``None`` selects all that match
                the conditions.
            paths: Path patterns (``/3303/*``); ``None`` selects every resource.
            begin: Only events at this instant or later: a datetime with a time zone, a string such as
                ``2026-01-31T08:00:00Z``, or how long ago it was, such as ``"2h"``. ``None`` selects the whole stored
                history.
            end: Only events before this instant; ``None`` means now.
            state: The current state of the devices: ``registered`` or ``deregistered``.
            endpoint_type: Endpoint type.
            endpoint_name: Endpoint name.
            filters: Other conditions, as for ``client.devices.list()``.
            raw: Whether to add a column with the raw payloads.
            tz: Time zone of the time columns, such as ``Europe/Berlin``; UTC by default.
            limit: The maximum number of rows, counted from the first; ``None`` returns all.
            compression: Compression in transit: ``none``, ``lz4`` or ``zstd``. The default is ``lz4``, or ``none`` if
                the service runs on this machine.
            timeout: Seconds for the whole call. By default the client's limit applies to each part.
            as_: ``pandas``, ``arrow`` or ``polars``: a ``pandas.DataFrame``, ``pyarrow.Table`` or ``polars.DataFrame``.

        Raises:
            BadRequest: A filter does not exist. The message lists the supported filters.
            BeforeHistory: ``begin`` is before the stored history; ``oldest_at`` is the oldest possible instant.
            ImportError: A package that ``as_`` needs, such as pandas, is not installed.
            NoHistory: The service stores no history, or its version does not support it.
            NotFound: One of the ``devices`` does not exist.
            TypeError: A single string was passed instead of a list of devices.
            ValueError: A time in ``filters`` has no zone, or several values are passed without ``in``.
            InvalidValue: An instant has no time zone, the end is before the beginning, a pattern is not valid,
                ``limit`` is not a number, or ``tz`` is not a time zone.

        >>> client.read_value(station, "/3303/0/5700")
        21.5
        >>> found = client.history(["station-01"], ["/3303/*"])
        >>> found[["event", "origin", "value_num"]].values.tolist()
        [['registration', nan, <NA>], ['reported', 'read', 21.5]]
        """
        import_locked(table_module(as_), "mirror_sdk.history.history_reader")
        from mirror_sdk.arrow_tables.history import HistoryTableBuilder
        from mirror_sdk.history.history_reader import history_metadata
        from mirror_sdk.history.history_request import HistoryRequest, check_interval

        deadline = self._session.sender.total_deadline(timeout)
        begin, end = check_interval(begin, end, self._tables.clock_of(begin, end, timeout=deadline))
        request = HistoryRequest(
            selection=self._tables.select(devices, deadline, paths, state, endpoint_type, endpoint_name, filters),
            server=self._session.base_url,
            begin=begin,
            end=end,
            limit=count("limit", limit),
            compression=compression,
        )
        parts = HistoryTableBuilder(raw=raw)
        result = self._tables.read_history(request, parts.add, deadline, raw=raw)
        # A device without rows may not exist, which an empty table would not show.
        if limit is None and (unheard := parts.without_rows(request.selection.device_ids or ())):
            self._session.run(require_known(unheard), deadline)
        units = self._tables.units_over_time(parts.unitless(), request, result)
        tables, metadata = parts.finish(history_metadata(request, result), units=units)
        # With a limit, a path without rows may have some after it.
        if limit is None:
            metadata = self._tables.with_paths_without_rows(metadata, tables, paths, request.selection, deadline)
        return convert_tables(tables, metadata, as_=as_, tz=tz)

    @overload
    def as_of(
        self,
        instant: InstantLike,
        devices: DevicesLike | None = None,
        *,
        as_: Literal["pandas"] = "pandas",
        **options: Unpack[SnapshotOptions],
    ) -> pd.DataFrame: ...

    @overload
    def as_of(
        self,
        instant: InstantLike,
        devices: DevicesLike | None = None,
        *,
        as_: Literal["arrow"],
        **options: Unpack[SnapshotOptions],
    ) -> ArrowTable: ...

    @overload
    def as_of(
        self,
        instant: InstantLike,
        devices: DevicesLike | None = None,
        *,
        as_: Literal["polars"],
        **options: Unpack[SnapshotOptions],
    ) -> pl.DataFrame: ...

    def as_of(
        self,
        instant: InstantLike,
        devices: DevicesLike | None = None,
        *,
        paths: Sequence[str] | None = None,
        state: str | None = None,
        endpoint_type: str | None = None,
        endpoint_name: str | None = None,
        filters: Mapping[str, object] | None = None,
        raw: bool = False,
        tz: str | None = None,
        compression: Compression | None = None,
        timeout: float | None = None,
        as_: TableFormat = "pandas",
    ) -> pd.DataFrame | ArrowTable | pl.DataFrame:
        """Return the state table of many devices as of an instant in the past, according to the stored history.

        Each row has the last value and the last write before the instant. For a write that ended later, the status is
        ``pending``. A resource that had not been reported yet has no row. ``reported_at`` contains the time of the
        change (``changed_at``), so it is never after the instant. The history does not store subscriptions, so
        ``subscribed`` is empty. The filters apply to the directory as it is now. ``attrs`` and warnings report paths
        without rows in the same way as :meth:`history`.

        Args:
            instant: A datetime with a time zone, a string such as ``attrs["mirror"]["oldest_at"]``, or how long ago it
                was: ``"2h"`` or a timedelta.
            devices: See ``client.fleet.snapshot()`` for this argument and the arguments below.
            paths: Path patterns (``/3303/*``); ``None`` selects every resource.
            state: The current state of the devices: ``registered`` or ``deregistered``.
            endpoint_type: Endpoint type.
            endpoint_name: Endpoint name.
            filters: Other conditions, as for ``client.devices.list()``.
            raw: Whether to add columns with the raw payloads.
            tz: Time zone of the time columns, such as ``Europe/Berlin``; UTC by default.
            compression: ``none``, ``lz4`` or ``zstd`` in transit.
            timeout: Seconds for the whole call. By default the client's limit applies to each part.
            as_: ``pandas``, ``arrow`` or ``polars``: a ``pandas.DataFrame``, ``pyarrow.Table`` or ``polars.DataFrame``.

        Raises:
            BadRequest: A filter does not exist, or the instant is in the future.
            BeforeHistory: The instant is before the stored history; ``oldest_at`` is the oldest possible one.
            ConnectionFailed: The connection was lost before the response was complete.
            ImportError: A package that ``as_`` needs, such as pandas, is not installed.
            NoHistory: The service stores no history, or its version does not support it.
            NotFound: One of the ``devices`` does not exist.
            TypeError: A single string was passed instead of a list of devices.
            ValueError: A time in ``filters`` has no zone, or several values are passed without ``in``.
            InvalidValue: The instant has no time zone, a pattern is not valid, or ``tz`` is not a time zone.

        >>> client.subscribe(station, "/3303/0/5700")
        >>> before = simulator.get_clock()
        >>> simulator.advance(60)
        datetime.datetime(...)
        >>> simulator.set_value(station, "/3303/0/5700", 22.5)
        >>> client.as_of(before, ["station-01"], paths=["/3303/*"])["reported_num"].tolist()
        [21.5]
        """
        import_locked(table_module(as_), "mirror_sdk.snapshot.snapshot_request")
        from mirror_sdk.snapshot.snapshot_request import SnapshotRequest

        deadline = self._session.sender.total_deadline(timeout)
        as_of = instant_like("instant", instant, self._tables.clock_of(instant, timeout=deadline))
        selection = self._tables.select(devices, deadline, paths, state, endpoint_type, endpoint_name, filters)
        request = SnapshotRequest(
            selection=selection, server=self._session.base_url, raw=raw, tz=tz, compression=compression, as_of=as_of
        )
        tables, metadata = self._tables.tables_of(request, deadline)
        metadata = self._tables.with_paths_without_rows(metadata, tables, paths, selection, deadline)
        return convert_tables(tables, metadata, as_=as_, tz=tz)

    @overload
    def changes(
        self,
        begin: InstantLike,
        end: InstantLike | None = None,
        devices: DevicesLike | None = None,
        *,
        as_: Literal["pandas"] = "pandas",
        **options: Unpack[ChangesOptions],
    ) -> pd.DataFrame: ...

    @overload
    def changes(
        self,
        begin: InstantLike,
        end: InstantLike | None = None,
        devices: DevicesLike | None = None,
        *,
        as_: Literal["arrow"],
        **options: Unpack[ChangesOptions],
    ) -> ArrowTable: ...

    @overload
    def changes(
        self,
        begin: InstantLike,
        end: InstantLike | None = None,
        devices: DevicesLike | None = None,
        *,
        as_: Literal["polars"],
        **options: Unpack[ChangesOptions],
    ) -> pl.DataFrame: ...

    def changes(
        self,
        begin: InstantLike,
        end: InstantLike | None = None,
        devices: DevicesLike | None = None,
        *,
        paths: Sequence[str] | None = None,
        state: str | None = None,
        endpoint_type: str | None = None,
        endpoint_name: str | None = None,
        filters: Mapping[str, object] | None = None,
        tz: str | None = None,
        timeout: float | None = None,
        as_: TableFormat = "pandas",
    ) -> pd.DataFrame | ArrowTable | pl.DataFrame:
        """Return the changes between two instants: a row for each resource reported in between, with both values.

        The columns are those of :meth:`mirror_sdk.recording.Recording.changes`. ``attrs["mirror"]["complete"]`` is
        false if there is a gap in between. The call sends several requests. A value that arrives between them may be
        counted in ``observations`` but missing in the ``after`` columns, or the reverse.

        Args:
            begin: Only changes after this instant. See :meth:`history` for the accepted forms.
            end: Only changes up to this instant; ``None`` means now.
            devices: See :meth:`history` for this argument and the arguments below.
            paths: Path patterns (``/3303/*``); ``None`` selects every resource.
            state: The current state of the devices: ``registered`` or ``deregistered``.
            endpoint_type: Endpoint type.
            endpoint_name: Endpoint name.
            filters: Other conditions, as for ``client.devices.list()``.
            tz: Time zone of the time columns, such as ``Europe/Berlin``; UTC by default.
            timeout: Seconds for the whole call. By default the client's limit applies to each part.
            as_: ``pandas``, ``arrow`` or ``polars``: a ``pandas.DataFrame``, ``pyarrow.Table`` or ``polars.DataFrame``.

        Raises:
            BadRequest: A filter does not exist, or the end is in the future.
            BeforeHistory: ``begin`` is before the stored history; ``oldest_at`` is the oldest possible instant.
            ImportError: A package that ``as_`` needs, such as pandas, is not installed.
            NoHistory: The service stores no history, or its version does not support it.
            NotFound: One of the ``devices`` does not exist.
            TypeError: A single string was passed instead of a list of devices.
            ValueError: A time in ``filters`` has no zone, or several values are passed without ``in``.
            InvalidValue: An instant has no time zone, the end is before the beginning, a pattern is not valid, or
                ``tz`` is not a time zone.

        >>> client.subscribe(station, "/3303/0/5700")
        >>> begin, end = simulator.get_clock(), simulator.advance(60)
        >>> simulator.set_value(station, "/3303/0/5700", 22.5)
        >>> client.changes(begin, end)[["path", "before_num", "after_num"]].values.tolist()
        [['/3303/0/5700', 21.5, 22.5]]
        """
        import_locked(table_module(as_), "mirror_sdk.history.history_reader", "mirror_sdk.history.changes")
        from mirror_sdk.arrow_tables.columns import metadata_of_table
        from mirror_sdk.history.changes import ReportCounts, changes_tables
        from mirror_sdk.history.history_request import HistoryRequest, check_interval, just_after

        deadline = self._session.sender.total_deadline(timeout)
        now = self._tables.clock_of(begin, end, timeout=deadline)
        first = instant_like("begin", begin, now)
        _, last = check_interval(first, end, now)
        selection = self._tables.select(devices, deadline, paths, state, endpoint_type, endpoint_name, filters)
        counts = ReportCounts()
        before = self._tables.state_at(first, selection, deadline)
        if last is None:
            # Until now, by the service's clock.
            after = self._tables.state_at(None, selection, deadline)
            last = instant_like("taken_at", metadata_of_table(after)["taken_at"], self._session.sender.clock.now)
        between = HistoryRequest(
            selection=selection, server=self._session.base_url, begin=just_after(first), end=just_after(last)
        )
        self._tables.read_history(between, counts.add, deadline)
        if end is not None:
            after = self._tables.state_at(last, selection, deadline)
        tables, metadata = changes_tables(counts.finish(), before, after, first, last)
        return convert_tables(tables, metadata, as_=as_, tz=tz)

    @property
    def base_url(self) -> str:
        """The address of the service.

        >>> client.base_url.startswith("http")
        True
        """
        return self._session.base_url

    @lazy_property
    def devices(self) -> Devices:
        """The devices of the directory, with their descriptions, connections and resources."""
        import_locked("mirror_sdk.client_groups.devices")
        from mirror_sdk.client_groups.devices import Devices

        return Devices(self._session)

    @lazy_property
    def requests(self) -> Requests:
        """The device requests of this application."""
        import_locked("mirror_sdk.client_groups.requests")
        from mirror_sdk.client_groups.requests import Requests

        return Requests(self._session)

    @lazy_property
    def subscriptions(self) -> Subscriptions:
        """The subscriptions of this application, and its presubscription rules."""
        import_locked("mirror_sdk.client_groups.subscriptions")
        from mirror_sdk.client_groups.subscriptions import Subscriptions

        return Subscriptions(self._session)

    @lazy_property
    def notifications(self) -> Notifications:
        """The notification channel, its status and its received events."""
        import_locked("mirror_sdk.client_groups.notifications")
        from mirror_sdk.client_groups.notifications import Notifications

        return Notifications(self._session)

    @lazy_property
    def fleet(self) -> Fleet:
        """Tables of a whole fleet at one instant."""
        import_locked("mirror_sdk.client_groups.fleet")
        from mirror_sdk.client_groups.fleet import Fleet

        return Fleet(self._session)

    @lazy_property
    def plans(self) -> Plans:
        """Saved plans, which you can load and continue."""
        import_locked("mirror_sdk.client_groups.plans")
        from mirror_sdk.client_groups.plans import Plans

        return Plans(self._session)

    @lazy_property
    def cassettes(self) -> Cassettes:
        """Cassettes, which record the responses of a service and replay them."""
        import_locked("mirror_sdk.client_groups.cassettes")
        from mirror_sdk.client_groups.cassettes import Cassettes

        return Cassettes(self._session)

    @lazy_property
    def service(self) -> MirrorService:
        """The service itself: its health and its web page."""
        import_locked("mirror_sdk.client_groups.service")
        from mirror_sdk.client_groups.service import MirrorService

        return MirrorService(self._session)
