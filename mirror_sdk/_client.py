# Made from _async_client.py by .ci/make_sync_twins.py: a change belongs there, not here.
"""The synchronous client of a device state mirror."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal, NoReturn, Self, Unpack, overload
from weakref import ref

from mirror_sdk._arguments import InstantLike, SqlFormat, TableFormat, count, seconds, table_module
from mirror_sdk._arguments import instant as instant_like
from mirror_sdk._attribute_suggestions import WithAttributeSuggestions
from mirror_sdk._fork import cannot_be_sent, import_locked, lazy_property
from mirror_sdk._protocol import operations as _operations
from mirror_sdk._protocol.deadline import wait_of
from mirror_sdk._protocol.defaults import (
    DEFAULT_IDLE_SECONDS,
    DEFAULT_MAX_RETRIES,
    DEFAULT_MAX_ROWS,
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

    import duckdb
    import httpx
    import pandas as pd
    import polars as pl

    from mirror_sdk._session.table_options import (
        ChangesOptions,
        HistoryOptions,
        QueryOptions,
        SnapshotOptions,
        StateOptions,
    )
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
    from mirror_sdk.conditions.alarms import Alarms
    from mirror_sdk.conditions.condition import Condition
    from mirror_sdk.plan import Plan
    from mirror_sdk.plan.requested_writes import RequestedWrites
    from mirror_sdk.recording import Recorder


class MirrorClient(WithAttributeSuggestions):
    """A client of a device state mirror. Any number of threads may use one client at once.

    Where to find things::

        read a value from a device     client.read_value(device, path)
        write a value to a device      client.write_value(device, path, value)
        values the mirror has          client.get_device(device), client.state_frame(), client.fleet.snapshot()
        devices with an attribute      client.devices.list(attributes={"site": "Berlin"})
        history of a device            client.history([device])
        SQL on all tables              client.sql("select ... from history where ...")
        subscribe, or add a rule       client.subscribe(device, path), client.subscriptions.rules.add([rule])
        events as they come            client.events(), client.watch(callback)
        many writes at once            client.plan(writes)
        requests without a response    client.requests.frame()
        connection of a device         client.devices.connection(device)
        notification channel           client.notifications.channel
        decoder for a content type     mirror_sdk.register_decoder(content_type, decode)

    All other methods are in groups: :attr:`devices`, :attr:`requests`, :attr:`subscriptions`, :attr:`notifications`,
    :attr:`fleet`, :attr:`plans`, :attr:`cassettes` and :attr:`service`.

    A forked process can use the client, too. It opens its own connections, and each process receives the responses to
    its own requests. Watches and recorders stay with the parent process. Closing the client in one process leaves it
    open in the other.

    Every method may raise :class:`ConnectionFailed`, :class:`UnexpectedResponse` and these kinds of :class:`APIError`:
    :class:`AuthenticationError`, :class:`AccessDenied` and :class:`ServerError`. Each method lists its other errors. An
    invalid device id or path raises ``ValueError``, and one that is not a ``str`` raises ``TypeError``. Both are raised
    before a request is sent. After :meth:`close`, every call that would send a request raises :class:`ClientClosed`.

    ``timeout`` is the maximum duration of a whole call in seconds, including retries and the pauses between them, all
    pages and all responses. Each method that sends requests has this argument, which replaces the timeout of the
    client. A call that takes longer raises :class:`CallTimeout`. Two kinds of methods are different:

    - Calls that concern a whole fleet can take long. :meth:`state_frame`, ``client.fleet.snapshot()``,
      ``client.fleet.dataset()``, ``client.fleet.refresh()`` and :meth:`plan` have no timeout for the whole call unless
      you pass ``timeout``. By default, the client's timeout applies to each request, and in a snapshot to each 64 KiB.
      A plan's ``apply()``, a watch and a recorder run as long as necessary. The client's timeout then applies to each
      request.
    - In calls that wait for a device or an event, ``timeout`` is the time to wait, and the call takes at most two
      seconds longer. These are :meth:`read_value`, :meth:`write_value`, :meth:`execute`, :meth:`events`,
      ``client.notifications.events_frame()`` and the ``result()`` of a request. The service may delay the response to a
      poll until there is an event. This delay does not count toward the client's timeout. An outage of the service does
      not count as waiting for events; see ``outage_timeout`` of :meth:`events`.

    If you pass your own ``transport``, the client checks the timeout only between the chunks of a response.

    A method that takes a device accepts a :data:`~mirror_sdk.DeviceLike`: an id, an endpoint name, a :class:`Device`, a
    :class:`DeviceObject`, or a request to the device. A method that takes several devices accepts a list of these, and
    you can mix them. It also accepts a table with a column ``device_id``, such as ``snapshot.query(...)``. A device
    that occurs in several rows counts once. A table without rows issues an :class:`EmptyTableWarning`.

    A string of 32 hexadecimal digits is an id, which the client uses directly. The client looks up any other string as
    a name in the directory, and all names of a list in one step. If several devices have the same name, the client uses
    the one that is registered. If none or several of them are registered, the call raises :class:`AmbiguousName`, which
    lists their ids. A string that is not the name of a device raises :class:`UnknownDevice`, a :class:`NotFound` that
    lists similar names.

    Calls that only read the mirror cache the id of a name for 30 seconds. Calls that send a request to a device, and
    calls that subscribe, look up the name every time. Otherwise, a write could reach a device that had this name
    earlier.

    In the examples, ``light`` and ``station`` are devices, ``simulator`` is an :class:`Simulator` and ``folder``
    is a ``Path``.

    Args:
        base_url: The address of the service. Without a scheme, the client uses https, or http for a loopback address.
        api_key: The access key of the application.
        timeout: The default timeout of each call in seconds; see above.
        transport: The transport that sends the requests instead of the network, such as ``httpx.WSGITransport(app)``.
        max_snapshot_bytes: The maximum size of a snapshot after decompression, in bytes. A larger snapshot raises an
            error.
        max_retries: How many times the client repeats a request after a lost connection or a response with the status
            429, 502, 503 or 504. With 0, there is only one attempt. The client repeats a request only if that is safe.
            A device request is safe to repeat because of its async-id. The pauses between attempts grow and are partly
            random. If the service sends ``Retry-After``, the client waits that long, provided that the timeout allows
            it.

    Raises:
        ConfigError: The address, the key, the timeout or the maximum size is not valid.
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
        """Store the session and the other objects that all methods share.

        Clients for tests pass a session of their own.
        """
        self._session = session
        session.client = ref(self)  # weak, so that a client that is no longer used can be deleted
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
        """Return a client whose address and key come from the environment, unless you pass them.

        The environment variables are ``API_HOST`` and ``API_KEY``. The default address is that of a local mirror, which
        ``mirror-server demo`` or ``run`` starts: ``http://127.0.0.1:8080``.

        Raises:
            ConfigError: There is no access key, or a value is not valid.

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
        """Return a client that records or replays a cassette until it is closed; see ``client.cassettes.use()``.

        To replay a cassette, the client needs no service, address or access key. You can therefore distribute a
        notebook with its cassette and run it anywhere. To record, the client reads its address and key from the
        environment, like :meth:`from_env`. The file is written when the client is closed.

        Args:
            path: The file of the cassette.
            mode: The mode; see ``client.cassettes.use()``.
            base_url: The address of the service to record. The default is ``API_HOST``.
            api_key: The access key. The default is ``API_KEY``.
            timeout: The timeout of a call in seconds.
            transport: The transport that sends the requests instead of the network during recording.
            max_snapshot_bytes: The maximum size of a snapshot after decompression, in bytes.
            max_retries: How many times the client repeats a request.

        Raises:
            CassetteDamaged: The file is not a cassette, or was written in a format that this version does not support.
            ConfigError: The cassette has to be recorded, and there is no access key or a value is not valid.
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
            # A client always needs a key, but a client that replays a cassette never sends it.
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
            # The user probably expected the cassette to exist, and a message about a missing key would be confusing.
            raise ConfigError(f"there is no cassette {path} to replay, and none can be recorded: {error}") from error
        made._session.cassette = made.cassettes.use(path, mode=mode)
        made._session.cassette.insert(made._session.cassette.open())
        return made

    def close(self) -> None:
        """Stop all watches and recorders and close the connections. The client cannot be used after this call.

        Raises:
            Exception: The error that ended a recording earlier, if it has not been raised yet.
            OSError: A recorder or a cassette could not write its last data.

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
        """Return the reported and desired values of all resources of a device, with their times.

        ``client.devices.get()`` returns the entry of the device in the directory instead: its names, type, state and
        attributes.

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

        The value of a resource with several instances, such as ``/3/0/7``, is a mapping from instance ids to values:
        ``{0: 3800, 1: 5000}``.

        With real devices, ``path`` can also be a whole object instance (``/3303/0``). The method then returns the
        ``bytes`` of the response, which you can decode with :func:`mirror_sdk.values.decode_many`. That function also
        needs the content type, which ``client.requests.begin_read(...)`` and ``result()`` return.

        Args:
            device_id: The id or the endpoint name of the device, or an object that contains its id.
            path: The resource path, such as ``/3303/0/5700``.
            accept: The preferred content type of the response.
            expiry_seconds: How many seconds the request may wait for the device before it expires. The default is 2
                hours, or 3 days for a device in queue mode.
            timeout: How many seconds to wait for the response. The default is 60, or less if the request expires
                sooner.

        Raises:
            NotFound: The device does not exist.
            UnknownResource: The device does not have this resource.
            ReadRejected: The device rejects the read.
            DeviceRequestFailed: The request failed for another reason. The subclass and ``category`` of the error
                contain the reason.
            WaitTimeout: No response arrived within ``timeout``. The request stays in the queue, so the device may still
                execute it.
            ValueError: An argument is not valid and cannot be sent. The message contains its name.

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
            device_id: The id or the endpoint name of the device, or an object that contains its id.
            path: The resource path, such as ``/3311/0/5850``.
            value: The value; see :func:`mirror_sdk.values.encode`.
            text: A string that a person typed, such as ``"off"``, instead of ``value``. It is parsed with
                :func:`mirror_sdk.parse_value`.
            content_type: The content type in which the value is encoded. By default, it depends on the value.
            expiry_seconds: How many seconds the request may wait for the device before it expires. The default is 2
                hours, or 3 days for a device in queue mode.
            timeout: How many seconds to wait for the response. The default is 60, or less if the request expires
                sooner.
            allow_read_only: Whether to write to a path that is declared read-only.
            if_match: The resource, desired value or revision that you expect. The service rejects the write if it has
                accepted another write in the meantime, or if the status of the last write has changed.

        Raises:
            InvalidValue: The value does not match the declaration of the path, or another argument is not valid.
            NotFound: The device does not exist.
            UnknownResource: The device does not have this resource.
            PreconditionFailed: The desired value is not the one in ``if_match``. Nothing was sent to the device.
            WriteRejected: The device rejects the write.
            DeviceRequestFailed: The request failed for another reason. The subclass and ``category`` of the error
                contain the reason.
            WaitTimeout: No response arrived within ``timeout``. The request stays in the queue, so the device may still
                execute it.

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
            device_id: The id or the endpoint name of the device, or an object that contains its id.
            path: The resource path, such as ``/3/0/4``.
            argument: The argument of the execution, if the resource takes one.
            expiry_seconds: How many seconds the request may wait for the device before it expires. The default is 2
                hours, or 3 days for a device in queue mode.
            timeout: How many seconds to wait for the response. The default is 60, or less if the request expires
                sooner.

        Raises:
            NotFound: The device does not exist.
            UnknownResource: The device does not have this resource.
            ExecuteRejected: The device rejects the execution.
            DeviceRequestFailed: The request failed for another reason. The subclass and ``category`` of the error
                contain the reason.
            WaitTimeout: No response arrived within ``timeout``. The request stays in the queue, so the device may still
                execute it.
            ValueError: An argument is not valid and cannot be sent. The message contains its name.

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
        """Subscribe to a resource, or to all resources in a table, so that their values arrive as events.

        A new registration of the device ends the subscription. Add a rule to subscribe again automatically; see
        ``client.subscriptions.rules``.

        Args:
            device_id: The device, or a table with the columns ``device_id`` and ``path``, such as
                ``snapshot.query(...)``.
            path: The resource path. With a table, this path is used for all rows instead of the column ``path``.
            timeout: The timeout of the call in seconds. By default, the client's timeout applies to the call or, with a
                table, to each row.

        Raises:
            NotFound: The device does not exist. With a table, the call raises this error after it has subscribed to all
                other rows.
            UnknownResource: The device does not have this resource. With a table, the call raises this error after it
                has subscribed to all other rows.
            InvalidValue: The table does not have these columns, or a row has no device or no path.

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
        """End the subscription to a resource. It is not an error if the subscription or the resource does not exist.

        The arguments and all other errors are the same as for :meth:`subscribe`.

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
        """Check many writes against the declarations and the current state, and return a plan. This sends no writes.

        ``plan.frame`` contains each write and the results of its checks. ``plan.apply()`` sends the writes, and
        ``plan.undo()`` makes a plan that restores the earlier values.

        Args:
            writes: A table with the columns ``device_id`` (or ``device``, as in the files of ``mirror plan``),
                ``path``, ``value`` and optionally ``content_type``. The column ``value`` may also be called ``text``.
                You can also pass a table with the index ``device_id`` and a column for each path, as
                ``state.mirror.wide()`` returns, or a list of (device, path, value). Tables of Polars and pyarrow work
                too. Devices are ids or endpoint names. Rows without a value are ignored. Strings in a table are parsed
                like those in the CSV files of ``mirror plan``; see :func:`mirror_sdk.parse_value`. If a string is not a
                valid value, only its row is rejected.
            value: The value to write to the resources in the rows of a table, such as ``snapshot.query(...)``. It is
                one value, or a column with a value for each row, such as ``found["reported_num"] - 1``. Each resource
                is written once.
            path: The resource to write on each device of the table, instead of its column ``path``. This argument needs
                ``value``.
            if_match: Whether to write a value only if the desired value has not changed since the table was made. The
                column ``desired_revision`` of the table is compared. If the resource has been written since then, the
                row is rejected with the check ``changed`` and the current value, either here or in ``apply()``. The
                other rows are written.
            read_first: Whether to read the values that the mirror does not have from the devices, so that the writes
                can be undone. Each read waits 20 s for its device. Sleeping devices are not read. By default, planning
                sends no request to a device.
            timeout: The timeout of the whole call in seconds. By default, the client's timeout applies to each request.

        Raises:
            AccessDenied: ``read_first`` is set, and the access key has no permission to read from devices.
            ImportError: pandas is not installed.
            InvalidValue: ``writes`` has none of the accepted forms. If a column is missing, the message contains its
                name.

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

        # Read here and not in the thread, because a generator of rows may use objects that belong to this thread.
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
        """Iterate over events as they arrive, starting now. Each iterator has its own position in the notification log.

        Events arrive in the order of the log. The iterator's ``position`` is the number of the last entry that it
        returned. A program can stop at any event and continue later with ``after=events.position``, without loss or
        repetition. If entries were lost, the iterator returns an event of the kind ``gap`` and issues a
        :class:`GapWarning`. While the service is unreachable, the iterator waits.

        Values arrive only for resources that a rule or a subscription of this access key covers. Add rules with
        ``client.subscriptions.rules.add()``, or call :meth:`subscribe`. Rules apply to devices that are already
        registered only with ``apply_now=True``. Registrations of devices and responses to requests of this key always
        arrive.

        Args:
            timeout: The iteration ends after this many seconds without an event. With 0, only events that are already
                in the log are returned. An outage of the service does not count as time without an event.
            outage_timeout: The iterator raises an error if the service is unreachable for more than this many seconds.
                By default, there is no limit. With ``timeout=0``, the iterator raises the error at once.
            limit: The maximum number of events to return.
            after: The number of the entry after which the iteration starts, such as ``position`` or ``Event.seq``. The
                default is the end of the log.
            paths: Patterns for the resource paths, such as ``/3303/*``. Only observations of these paths are returned,
                plus gaps and unknown entries.
            devices: Return only events of these devices, plus gaps and unknown entries. Pass ids or endpoint names. The
                client looks up the names once, when you call this method.

        Raises:
            MirrorError: A request failed for a reason that a retry would not fix, or failed for longer than
                ``outage_timeout``. The iterator raises the error, not this call.
            NotFound: A device does not exist.
            TypeError: A string was passed instead of a list of strings.
            InvalidValue: ``timeout``, ``outage_timeout``, ``limit``, ``after`` or a pattern is not valid.

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
        """Call a function for each new event, in a separate thread, until you stop the watch.

        Values arrive only for resources that a rule or a subscription of this access key covers; see :meth:`events`.

        Args:
            callback: The function, which receives an event. Errors that it raises are logged and stored in
                ``Watch.errors``.
            paths: Patterns for the resource paths, such as ``/3303/*``. The function is called only for observations of
                these paths, and for gaps and unknown entries.
            devices: Call the function only for events of these devices, and for gaps and unknown entries. Pass ids or
                endpoint names. The client looks up the names once, when you call this method.
            timeout: The timeout for the start of the watch in seconds. The default is the timeout of the client.

        Raises:
            TypeError: ``callback`` cannot be called, or a string was passed instead of a list of strings.
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
        # Before the watch starts, so that it receives all events after this call.
        reader.go_to_end(deadline)
        watch = Watch(reader, callback, accepts, self._session.sender.clock.now)
        self._session.add_watch(watch)
        return watch

    def watch_conditions(
        self,
        conditions: Sequence[Condition | str],
        *,
        devices: DevicesLike | None = None,
        subscribe: bool = False,
        state_file: str | PathLike[str] | None = None,
        timeout: float = math.inf,
        outage_timeout: float | None = None,
    ) -> Alarms:
        """Iterate over alarms, which report that a condition has started or ended for a device.

        The current values of registered devices count from the start of the iteration. After that, values count in the
        order in which the service received them, from the time of their receipt by the service's clock. A value that
        arrives late therefore does not change an earlier alarm, and the clocks of devices have no effect.
        ``Condition.intervals`` returns the same intervals for a recording of the same events.

        While the service is unreachable, the iterator waits. Afterwards, it evaluates the events in between at their
        own times. If entries of the log were lost, it issues a :class:`GapWarning`, the conditions are unknown during
        the gap, and the current state is read again.

        With a state file, a program continues after a restart at the event at which it stopped. It reports what started
        and ended in the meantime. Each alarm is delivered at least once: the file records that an alarm was processed
        when the program requests the next one, or when a ``with`` block around the iteration ends without an error. If
        the program crashes before that, the alarm is repeated with the same ``id`` and ``kind``.

        Args:
            conditions: The conditions or their texts, for example ``["/3303/*/5700 > 25 for 10min"]``.
            devices: Evaluate only these devices. Pass ids or endpoint names. The client looks up the names once, when
                the iteration starts. The default is all devices, including those that register later.
            subscribe: Whether to add presubscription rules for the paths of the conditions, apply them now, and leave
                them in force. By default, values arrive only for resources that a rule or a subscription of this access
                key covers. A :class:`NotSubscribedWarning` lists the paths that are not covered.
            state_file: The path of a JSON file that stores the state between two runs. One program can use a file at a
                time. It belongs to these conditions and devices, and to this service and access key. By default,
                nothing is stored.
            timeout: The iteration ends after this many seconds without an alarm. With 0, only events that are already
                in the log are evaluated. By default, it does not end.
            outage_timeout: The iterator raises an error if the service is unreachable for more than this many seconds.
                By default, there is no limit. With ``timeout=0``, the iterator raises the error at once.

        Raises:
            ImportError: There is a state file, and filelock is not installed.
            MirrorError: A request failed for a reason that a retry would not fix, or failed for longer than
                ``outage_timeout``. The iterator raises the error, not this call.
            NotFound: A device does not exist.
            OSError: The state file cannot be read or written.
            TypeError: ``conditions`` is not a list of conditions.
            InvalidValue: There are no conditions, or ``timeout`` or ``outage_timeout`` is not valid. The error is also
                raised if another program uses the state file, or if the file belongs to other conditions.

        Warns:
            ConditionWarning: A test does not apply to the type of a value, or no registered device has a path.
            GapWarning: Entries of the log were lost.
            NotSubscribedWarning: No rule or subscription covers a path.

        >>> from mirror_sdk import Condition
        >>> client.subscribe(station, "/3303/0/5700")
        >>> warm = Condition("/3303/0/5700", above=21)
        >>> [(alarm.kind.value, alarm.value) for alarm in client.watch_conditions([warm], timeout=0)]
        [('started', 21.5)]
        """
        import_locked("mirror_sdk.conditions.alarms")
        from mirror_sdk.conditions.alarms import Alarms
        from mirror_sdk.conditions.coverage import watched_conditions

        return Alarms(
            self._session,
            watched_conditions(conditions),
            devices=devices,
            state_file=state_file,
            subscribe=subscribe,
            timeout_seconds=seconds("timeout", timeout),
            outage_seconds=None if outage_timeout is None else seconds("outage_timeout", outage_timeout),
            called_from=calling_line(),
        )

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
        """Record the notification log in a separate thread, until you stop the recorder.

        The recording is a folder of Parquet files. pandas, Arrow, DuckDB, Polars and Dask can read it as one table at
        any time. This table does not contain the newest events, from at most the last ``rotate_seconds``. A second
        folder (``_run.parquet.mirror``) contains them, and the state tables at the beginning and after each loss of
        events. Copy and remove both folders together. :class:`mirror_sdk.recording.Recording` reads both.

        If a recorder was stopped or killed, start another one with the same folder. It continues after the last
        recorded entry. The service usually stores entries for one day. If it has already deleted some entries, the
        recording contains a row with the event ``gap`` instead of them.

        Args:
            path: The folder, such as ``run.parquet``.
            devices: The devices, as a list of ids, endpoint names or device objects, or as a table with a column
                ``device_id``. ``None`` selects all devices, including those that register later.
            paths: Patterns for the resource paths, such as ``/3303/*``. The recording then contains only observations
                of these paths, gaps and unknown entries. ``None`` selects every event. Values arrive only if a rule or
                a subscription of this access key covers them. A :class:`NotSubscribedWarning` lists the patterns and
                devices that are not covered.
            subscribe: Whether to add rules for these devices and paths, apply them now, and remove them when the
                recorder stops; see ``client.subscriptions.rules.add()``. Other rules stay. After the recorder has
                stopped, each device keeps the subscriptions that these rules made until it registers again. If the
                recorder is killed, its rules stay until the next recorder with the same folder stops.
            rotate_bytes: The size in bytes at which the recorder starts a new file.
            rotate_seconds: The time in seconds after which the recorder finalizes a file, so that other programs can
                read it.
            timeout: The timeout for the start in seconds. By default, the client's timeout applies to each request.

        Raises:
            ImportError: pandas is not installed.
            NotFound: A device does not exist.
            OSError: The folder cannot be written.
            RecordingDamaged: A file of the recording was changed or damaged. The message contains its name.
            TypeError: A string was passed instead of a list of strings.
            InvalidValue: The folder contains another recording or other files, or another recorder is using it. The
                error is also raised if a size, a time or a pattern is not valid, or if the key would have too many
                rules because of ``subscribe``.

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
            # Found here, because the task or thread that warns later has no line of the program in its stack.
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
        """Return the state table, with one row for each resource; see :func:`mirror_sdk.frames.state_frame`.

        The devices are fetched one by one, so their states are from different instants. ``client.fleet.snapshot()``
        returns the state of a whole fleet at one instant. ``attrs["mirror"]["paths_without_rows"]`` lists the ``paths``
        that match no row. If none of the paths matches a row, an :class:`EmptyTableWarning` is issued.

        Args:
            devices: The devices, as a list of ids, endpoint names or device objects, or as a table with a column
                ``device_id``. ``None`` selects all devices of the directory.
            paths: Patterns for the resource paths, such as ``/3303/*``. ``None`` selects every resource.
            raw: Whether to add columns with the raw payloads.
            tz: The time zone of the time columns, such as ``Europe/Berlin``. The default is UTC.
            timeout: The timeout of the whole call in seconds. By default, the client's timeout applies to each request.
            as_: The kind of table to return: ``pandas`` (a ``pandas.DataFrame``), ``arrow`` (a ``pyarrow.Table``) or
                ``polars`` (a ``polars.DataFrame``).

        Raises:
            ImportError: A package that ``as_`` needs, such as pandas, is not installed.
            NotFound: A device does not exist.
            TypeError: A string was passed instead of a list of devices.
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
        """Return the past events of devices as a table with one row for each event, sorted by device, path and time.

        The columns are those of :func:`mirror_sdk.frames.history_frame`. Each row is a reported value with its origin,
        the result of a write, the start or end of a registration, or an interval in which the service received nothing.
        Rows without a path, such as registrations, are included for all ``paths``. Rows without a device, which are
        gaps of the service, are included for all ``devices``.

        ``attrs["mirror"]`` also contains ``begin``, ``end``, ``taken_at``, and the start of the stored history as
        ``oldest_at``. If the connection is lost during the response, the client continues after the last row that it
        received. ``attrs["mirror"]["paths_without_rows"]`` lists the ``paths`` that match no row. If none of the paths
        matches a row and no device has such a resource, an :class:`EmptyTableWarning` is issued.

        Args:
            devices: The devices, as a list of ids, endpoint names or device objects, or as a table with a column
                ``device_id``. ``None`` selects all devices that match the conditions.
            paths: Patterns for the resource paths, such as ``/3303/*``. ``None`` selects every resource.
            begin: Return only events at or after this time. It is a datetime with a time zone, a string such as
                ``2026-01-31T08:00:00Z``, or a duration before the current time, such as ``"2h"``. ``None`` returns the
                whole stored history.
            end: Return only events before this time. The default is the current time.
            state: Select only devices that are in this state now: ``registered`` or ``deregistered``.
            endpoint_type: Select only devices of this endpoint type.
            endpoint_name: Select only the devices with this endpoint name.
            filters: Further conditions, in the form that ``client.devices.list()`` accepts.
            raw: Whether to add a column with the raw payloads.
            tz: The time zone of the time columns, such as ``Europe/Berlin``. The default is UTC.
            limit: The maximum number of rows. The table then contains the first rows. ``None`` returns all of them.
            compression: The compression in transit: ``none``, ``lz4`` or ``zstd``. The default is ``lz4``, or ``none``
                if the service runs on this machine.
            timeout: The timeout of the whole call in seconds. By default, the client's timeout applies to each request.
            as_: The kind of table to return: ``pandas`` (a ``pandas.DataFrame``), ``arrow`` (a ``pyarrow.Table``) or
                ``polars`` (a ``polars.DataFrame``).

        Raises:
            BadRequest: A filter does not exist. The message lists the supported filters.
            BeforeHistory: ``begin`` is before the start of the stored history, which ``oldest_at`` of the error
                contains.
            ImportError: A package that ``as_`` needs, such as pandas, is not installed.
            NoHistory: The service stores no history, or is too old to have one.
            NotFound: One of the ``devices`` does not exist.
            TypeError: A string was passed instead of a list of devices.
            ValueError: A time in ``filters`` has no time zone, or a list of values is passed for an operator other than
                ``in`` or ``nin``.
            InvalidValue: A time has no time zone, the end is before the beginning, a pattern is not valid, ``limit`` is
                not a number, or ``tz`` is not a time zone.

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
        # A device without rows may not exist. An empty table would hide this error.
        if limit is None and (unheard := parts.without_rows(request.selection.device_ids or ())):
            self._session.run(require_known(unheard), deadline)
        units = self._tables.units_over_time(parts.unitless(), request, result)
        tables, metadata = parts.finish(history_metadata(request, result), units=units)
        # With a limit, the rows of a path may be after the last row of the table.
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
        """Return the state of many devices at a time in the past as a table, according to the stored history.

        Each row has the last value and the last write before that time. For a write that ended later, the status is
        ``pending``. A resource that had not been reported yet has no row. ``reported_at`` contains the time of the
        change (``changed_at``), so it is never after the requested time. ``subscribed`` is empty, because the history
        does not store subscriptions. The filters apply to the current directory. ``attrs`` and warnings report paths
        without rows in the same way as :meth:`history`.

        Args:
            instant: The time: a datetime with a time zone, a string such as ``attrs["mirror"]["oldest_at"]``, or a
                duration before the current time, such as ``"2h"`` or a timedelta.
            devices: The devices. This argument and the following ones have the same meaning as in
                ``client.fleet.snapshot()``.
            paths: Patterns for the resource paths, such as ``/3303/*``. ``None`` selects every resource.
            state: Select only devices that are in this state now: ``registered`` or ``deregistered``.
            endpoint_type: Select only devices of this endpoint type.
            endpoint_name: Select only the devices with this endpoint name.
            filters: Further conditions, in the form that ``client.devices.list()`` accepts.
            raw: Whether to add columns with the raw payloads.
            tz: The time zone of the time columns, such as ``Europe/Berlin``. The default is UTC.
            compression: The compression in transit: ``none``, ``lz4`` or ``zstd``.
            timeout: The timeout of the whole call in seconds. By default, the client's timeout applies to each request.
            as_: The kind of table to return: ``pandas`` (a ``pandas.DataFrame``), ``arrow`` (a ``pyarrow.Table``) or
                ``polars`` (a ``polars.DataFrame``).

        Raises:
            BadRequest: A filter does not exist, or ``instant`` is in the future.
            BeforeHistory: ``instant`` is before the start of the stored history, which ``oldest_at`` of the error
                contains.
            ConnectionFailed: The connection was lost before the response was complete.
            ImportError: A package that ``as_`` needs, such as pandas, is not installed.
            NoHistory: The service stores no history, or is too old to have one.
            NotFound: One of the ``devices`` does not exist.
            TypeError: A string was passed instead of a list of devices.
            ValueError: A time in ``filters`` has no time zone, or a list of values is passed for an operator other than
                ``in`` or ``nin``.
            InvalidValue: ``instant`` has no time zone, a pattern is not valid, or ``tz`` is not a time zone.

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
        """Return the values before and after an interval, in one row for each resource reported in the interval.

        The columns are those of :meth:`mirror_sdk.recording.Recording.changes`. ``attrs["mirror"]["complete"]`` is
        false if the interval contains a gap. The call sends several requests. A value that arrives between two of them
        might be counted in ``observations`` but be missing from the ``after`` columns, or vice versa.

        Args:
            begin: Return only changes after this time. See :meth:`history` for the accepted forms.
            end: Return only changes up to this time. The default is the current time.
            devices: The devices. This argument and the following ones have the same meaning as in :meth:`history`.
            paths: Patterns for the resource paths, such as ``/3303/*``. ``None`` selects every resource.
            state: Select only devices that are in this state now: ``registered`` or ``deregistered``.
            endpoint_type: Select only devices of this endpoint type.
            endpoint_name: Select only the devices with this endpoint name.
            filters: Further conditions, in the form that ``client.devices.list()`` accepts.
            tz: The time zone of the time columns, such as ``Europe/Berlin``. The default is UTC.
            timeout: The timeout of the whole call in seconds. By default, the client's timeout applies to each request.
            as_: The kind of table to return: ``pandas`` (a ``pandas.DataFrame``), ``arrow`` (a ``pyarrow.Table``) or
                ``polars`` (a ``polars.DataFrame``).

        Raises:
            BadRequest: A filter does not exist, or ``end`` is in the future.
            BeforeHistory: ``begin`` is before the start of the stored history, which ``oldest_at`` of the error
                contains.
            ImportError: A package that ``as_`` needs, such as pandas, is not installed.
            NoHistory: The service stores no history, or is too old to have one.
            NotFound: One of the ``devices`` does not exist.
            TypeError: A string was passed instead of a list of devices.
            ValueError: A time in ``filters`` has no time zone, or a list of values is passed for an operator other than
                ``in`` or ``nin``.
            InvalidValue: A time has no time zone, the end is before the beginning, a pattern is not valid, or ``tz`` is
                not a time zone.

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
            # The current time according to the service's clock.
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

    @overload
    def sql(
        self, query: str, *, as_: Literal["pandas"] = "pandas", **options: Unpack[QueryOptions]
    ) -> pd.DataFrame: ...

    @overload
    def sql(self, query: str, *, as_: Literal["arrow"], **options: Unpack[QueryOptions]) -> ArrowTable: ...

    @overload
    def sql(self, query: str, *, as_: Literal["polars"], **options: Unpack[QueryOptions]) -> pl.DataFrame: ...

    @overload
    def sql(
        self, query: str, *, as_: Literal["duckdb"], **options: Unpack[QueryOptions]
    ) -> duckdb.DuckDBPyRelation: ...

    def sql(
        self,
        query: str,
        *,
        explain: bool = False,
        max_rows: int = DEFAULT_MAX_ROWS,
        timeout: float | None = None,
        as_: SqlFormat = "pandas",
    ) -> pd.DataFrame | ArrowTable | pl.DataFrame | duckdb.DuckDBPyRelation:
        """Return the result of a SQL query on the tables of the mirror; see ``mirror help sql``.

        DuckDB runs the query in this process. Only the rows that the query needs are fetched: conditions on
        ``device_id``, ``endpoint_name``, ``path`` and ``changed_at`` are sent to the service.

        The views are ``devices``, ``state``, ``drift``, ``requests``, ``events``, ``history`` and ``device_events``.
        Their columns are those of the tables that the other methods return. ``devices`` also has the map
        ``attributes``. ``as_of(instant)`` and ``changes(begin, end)`` are table functions, whose arguments are
        constants. ``now()`` is the current time of the service, and all times are in UTC.

        Args:
            query: One statement that only reads. It cannot write, read files or load extensions.
            explain: Whether to return what the query would fetch, instead of its result. The table has a row for each
                view that the query reads, with the conditions that are sent to the service.
            max_rows: The maximum number of rows to fetch. If the service can say in advance that there are more, the
                query fails before it starts. Otherwise, it fails as soon as more rows arrive.
            timeout: The timeout of the whole call in seconds. By default, the client's timeout applies to each request.
            as_: The kind of result to return: ``pandas`` (a ``pandas.DataFrame``), ``arrow`` (a ``pyarrow.Table``),
                ``polars`` (a ``polars.DataFrame``) or ``duckdb`` (a ``duckdb.DuckDBPyRelation`` of the result). The
                relation uses the connection of the module ``duckdb``, which can also write and read files.

        Raises:
            CallTimeout: The query took longer than ``timeout``.
            ImportError: DuckDB, or a package that ``as_`` needs, is not installed.
            InvalidValue: The query is not valid, does more than read, or would fetch more than ``max_rows`` rows. The
                message shows the position in the query, and names similar columns or conditions that would help.
            NoHistory: The query reads the history, and the service stores none.
            TypeError: The query is not a string.

        >>> client.sql("select endpoint_name, count(*) as n from state group by all order by all")
          endpoint_name  n
        0      light-01  3
        1    station-01  1
        >>> client.sql("from state where path = '/3303/0/5700'", explain=True)["fetched"].tolist()
        ['path=/3303/0/5700']
        """
        import_locked("mirror_sdk.sql.query", "mirror_sdk.client_groups.service_views")
        from mirror_sdk.client_groups.service_views import ServiceViews, service_now
        from mirror_sdk.sql.query import start_query
        from mirror_sdk.sql.streams import thread_functions

        deadline = self._session.sender.total_deadline(timeout)
        now = service_now(self._session, deadline)
        views = ServiceViews(self._session, self.changes, now, deadline, *thread_functions())
        running = start_query(query, views, as_=as_, explain=explain, max_rows=max_rows, deadline=deadline)
        return running.result()

    @property
    def base_url(self) -> str:
        """The address of the service, such as ``https://mirror.example.com``.

        >>> client.base_url.startswith("http")
        True
        """
        return self._session.base_url

    @lazy_property
    def devices(self) -> Devices:
        """The methods for the devices in the directory, with their attributes, connections and resources."""
        import_locked("mirror_sdk.client_groups.devices")
        from mirror_sdk.client_groups.devices import Devices

        return Devices(self._session)

    @lazy_property
    def requests(self) -> Requests:
        """The methods for the requests that this application has sent to devices."""
        import_locked("mirror_sdk.client_groups.requests")
        from mirror_sdk.client_groups.requests import Requests

        return Requests(self._session)

    @lazy_property
    def subscriptions(self) -> Subscriptions:
        """The methods for the subscriptions of this application and its presubscription rules."""
        import_locked("mirror_sdk.client_groups.subscriptions")
        from mirror_sdk.client_groups.subscriptions import Subscriptions

        return Subscriptions(self._session)

    @lazy_property
    def notifications(self) -> Notifications:
        """The methods for the notification channel, its status and the received events."""
        import_locked("mirror_sdk.client_groups.notifications")
        from mirror_sdk.client_groups.notifications import Notifications

        return Notifications(self._session)

    @lazy_property
    def fleet(self) -> Fleet:
        """The methods that return the state of a whole fleet at one instant as a table."""
        import_locked("mirror_sdk.client_groups.fleet")
        from mirror_sdk.client_groups.fleet import Fleet

        return Fleet(self._session)

    @lazy_property
    def plans(self) -> Plans:
        """The methods for saved plans, which you can load and apply."""
        import_locked("mirror_sdk.client_groups.plans")
        from mirror_sdk.client_groups.plans import Plans

        return Plans(self._session)

    @lazy_property
    def cassettes(self) -> Cassettes:
        """The methods for cassettes, which record the responses of a service and replay them."""
        import_locked("mirror_sdk.client_groups.cassettes")
        from mirror_sdk.client_groups.cassettes import Cassettes

        return Cassettes(self._session)

    @lazy_property
    def service(self) -> MirrorService:
        """The methods for the health and the web page of the service."""
        import_locked("mirror_sdk.client_groups.service")
        from mirror_sdk.client_groups.service import MirrorService

        return MirrorService(self._session)
