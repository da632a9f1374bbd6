# Made from _async_client.py by .ci/make_sync_twins.py: a change belongs there, not here.
"""The synchronous client: it sends operations and waits for answers, and knows nothing else of the interface."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Literal, NoReturn, ParamSpec, Self, TypeVar, overload

from mirror_sdk._arguments import Form, InstantLike, count, module_for, place, seconds
from mirror_sdk._arguments import instant as instant_like
from mirror_sdk._caller import calling_line
from mirror_sdk._fork import cannot_be_sent, import_whole
from mirror_sdk._service import operations as _operations
from mirror_sdk._service.asked import expected_revision, to_execute, to_write
from mirror_sdk._service.channels import AnswerPump, Events, Watch
from mirror_sdk._service.deadline import wait_of
from mirror_sdk._service.defaults import (
    DEFAULT_IDLE_SECONDS,
    DEFAULT_MAX_RETRIES,
    DEFAULT_MAX_SNAPSHOT_BYTES,
    DEFAULT_ROTATE_BYTES,
    DEFAULT_ROTATE_SECONDS,
    DEFAULT_TIMEOUT_SECONDS,
)
from mirror_sdk._service.device_request import DeviceRequest, look_for_answers, wait_for_answer
from mirror_sdk._service.each import ask_each
from mirror_sdk._service.inbox import Inbox
from mirror_sdk._service.log_reader import LogReader
from mirror_sdk._service.placed_request import PlacedRequest, UnplacedRequest
from mirror_sdk._service.rules import add_rules, remove_rules
from mirror_sdk._service.status import ClientStatus, status_of
from mirror_sdk._session.client_session import ClientSession
from mirror_sdk._session.table_reader import TableReader
from mirror_sdk._tables import DeviceTable, Place, is_table, seen_revisions
from mirror_sdk.config import Settings, page_address
from mirror_sdk.device import DeviceObject
from mirror_sdk.errors import (
    BadRequest,
    ClientClosed,
    ConfigError,
    InvalidValue,
    MirrorError,
)
from mirror_sdk.events import Event, event_filter, utc_now
from mirror_sdk.forms import given
from mirror_sdk.naming import (
    DeviceLike,
    DevicesLike,
    id_of,
    look_up,
    require_known,
    unclear,
)
from mirror_sdk.progress import progress_bar
from mirror_sdk.resource import ExpectedValue
from mirror_sdk.values import InstanceValues, PythonValue, encode
from mirror_sdk.wire.device_requests import Method
from mirror_sdk.wire.snapshot import DEFAULT_DEVICES_PER_RANGE, Compression
from mirror_sdk.wire.subscriptions import PresubscriptionRule, SubscriptionState

if TYPE_CHECKING:
    from os import PathLike

    import httpx
    import pandas as pd
    import polars as pl

    from mirror_sdk.cassette import Cassette, Mode
    from mirror_sdk.plan import Plan
    from mirror_sdk.plan.checks import KnownDevice, Place, Seen
    from mirror_sdk.plan.wanted import Want, Wanted
    from mirror_sdk.recording import Recorder
    from mirror_sdk.resources.devices import Devices
    from mirror_sdk.resources.requests import Requests
    from mirror_sdk.snapshot.dataset import SnapshotDataset
    from mirror_sdk.tables.arrow_types import ArrowTable
    from mirror_sdk.webhook import CallbackInbox

P = ParamSpec("P")
T = TypeVar("T")


class MirrorClient:
    """A device state mirror, as one application sees it. Any number of threads may use one client at once.

    A process that is forked may use it too: it has connections of its own there, and its requests are answered in both
    processes. Watches and recorders stay with the parent, and closing it in one process leaves the other's open.

    Every method may raise :class:`ConnectionFailed`, :class:`UnexpectedAnswer`, and of :class:`APIError` at least
    :class:`AuthenticationError`, :class:`AccessDenied` and :class:`ServerError`; those named below come on top.
    A device id or a path that cannot be one is a ``ValueError`` before anything is sent, and what is no text a
    ``TypeError``. After :meth:`close` all that would be sent is refused with :class:`ClientClosed`.

    ``timeout`` is how many seconds a call may take as a whole: all its attempts, the pauses between them, every page
    and all of each answer. Each method that asks the service takes one in the place of the client's. What has not ended
    by then is a :class:`CallTimeout`, whatever the service still sends. Two kinds of methods are different:

    - What is asked of a whole fleet may rightly take long: :meth:`state_frame`, :meth:`snapshot`,
      :meth:`snapshot_dataset`, :meth:`refresh` and :meth:`plan` have only the limit they are given. Without one, the
      client's is for each request, and of a snapshot for each 64 KiB. A plan's ``apply()``, a watch and a recorder go
      on as long as they have to; each of their requests has the client's.
    - Where a device or an event is waited for, ``timeout`` is that wait, and two seconds more at most:
      :meth:`read_value`, :meth:`write_value`, :meth:`execute`, :meth:`events`, :meth:`events_frame` and the
      ``result()`` of a request. A poll is held by the service for a while, which comes on top of the client's. An
      outage of the service does not count as a wait for events; see ``outage_timeout`` of :meth:`events`.

    A ``transport`` of your own is held to it between the pieces of an answer.

    Wherever a method takes a device, that is a :data:`~mirror_sdk.DeviceLike`: its id, its endpoint name, a
    :class:`Device`, a :class:`DeviceObject`, or the handle of a request to it; where it takes several, these in a list,
    mixed as one likes, or a table whose rows name them in a column ``device_id``, such as ``snapshot.query(...)``,
    where each device counts once and one without rows is an :class:`EmptyTableWarning`. A text of 32 hexadecimal digits
    is an id, which costs no question. Any other is looked up in the directory, names of a list together: an id goes
    before a name, and of several devices with a name the one that is registered is meant. What only looks at the mirror
    remembers for half a minute what a name led to; what asks or writes to a device, or subscribes, looks the name up
    each time, so that a write never goes to the device that had the name before. Where a text names no device that is
    :class:`UnknownDevice`, which is a :class:`NotFound` and lists close names; where it names several,
    :class:`AmbiguousName`, which lists their ids.

    In the examples ``light`` and ``station`` are devices, ``simulator`` is a :class:`Simulator` and ``folder`` a
    ``Path``.

    Args:
        base_url: Address of the service; without a scheme it is https, and http for a loopback address.
        api_key: Access key of the application.
        timeout: Seconds a call may take as a whole, unless it is given its own; see above.
        transport: Carries the requests instead of the network, such as ``httpx.WSGITransport(app)``.
        max_snapshot_bytes: How many bytes a snapshot may have after decompression; one with more is refused.
        max_retries: How often a request is sent again when there was no answer, or it was 429, 502, 503 or 504, if it
            means the same twice as once; 0 is one attempt. A device request does, by its async-id. The pauses grow and
            are partly left to chance; they are as long as ``Retry-After`` says, if there is time for that.

    Raises:
        ConfigError: The address, the key, the time-out or the limit cannot be used.
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
            Settings.of(base_url, api_key),
            timeout_seconds=timeout,
            max_retries=max_retries,
            max_snapshot_bytes=max_snapshot_bytes,
            transport=transport,
        )
        self._hold(session)

    def _hold(self, session: ClientSession) -> None:
        """Take what the methods share; a client for tests has a session of its own."""
        self._session = session
        self._tables = TableReader(session)
        self.base_url: str = session.base_url

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
        """A client with what is not given taken from the environment: ``API_HOST`` and ``API_KEY``.

        Without an address it is that of a local ``mirror-server demo`` or ``run``: ``http://127.0.0.1:8080``.

        Raises:
            ConfigError: There is no key, or something cannot be used.

        Source: specification 5.2.

        >>> MirrorClient.from_env(base_url="https://mirror.example.com", api_key="an-access-key")
        <MirrorClient https://mirror.example.com>
        >>> with MirrorClient.from_env(base_url="mirror.example.com", api_key="an-access-key") as client:
        ...     client.base_url
        'https://mirror.example.com'
        """
        settings = Settings.load(base_url, api_key)
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
        """A client with a cassette in it until it is closed; see :meth:`cassette`.

        Played, it needs no service, no address and no key, so that a notebook can be shipped with its cassette and run
        anywhere. Recorded, it is the client of :meth:`from_env`, and the file is there when it is closed.

        Args:
            path: The cassette.
            mode: As for :meth:`cassette`.
            base_url: Address of the service to record, instead of ``API_HOST``.
            api_key: Access key, instead of ``API_KEY``.
            timeout: Seconds a call may take as a whole.
            transport: Carries the requests instead of the network, while it is recorded.
            max_snapshot_bytes: How many bytes a snapshot may have after decompression.
            max_retries: How often a request is sent again.

        Raises:
            CassetteDamaged: It is no cassette, or one of another version.
            ConfigError: It is to be recorded, and there is no key, or something cannot be used.
            FileNotFoundError: It is to be played, and is not there.
            InvalidValue: There is no such mode.

        >>> with client.cassette(folder / "lights.zip"):
        ...     count = len(client.devices.list())
        >>> with MirrorClient.from_cassette(folder / "lights.zip", mode="replay") as played:
        ...     len(played.devices.list()) == count
        True
        """
        import_whole("mirror_sdk.cassette")
        from mirror_sdk.cassette import address_of, is_played

        has_it = is_played(path, mode)
        if has_it:
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
            # Whoever was given a cassette looks for it, not for a key.
            raise ConfigError(f"there is no cassette {path} to play; to record one, {error}") from error
        made._session.cassette = made.cassette(path, mode=mode)
        made._session.cassette.insert(made._session.cassette.open())
        return made

    def cassette(self, path: str | PathLike[str], *, mode: Mode = "once") -> Cassette:
        """Record what the service says within an ``async with`` block, or have it said again without the service.

        Within the block the client is as new: it knows no names and no position in the notification log. Beside it,
        nothing else may be asked of the client. Where the block ends in an error nothing is recorded. See
        :mod:`mirror_sdk.cassette` for what is in a cassette, and what never is.

        Args:
            path: The file, such as ``run.zip``.
            mode: ``once`` plays a cassette that is there and records one that is not, ``replay`` only plays, ``record``
                records anew, and ``none`` does neither.

        Raises:
            CassetteDamaged: It is no cassette, or one of another version.
            FileNotFoundError: It is to be played, and is not there.
            NotRecorded: Within the block: something is asked that was not asked in the recording.
            InvalidValue: There is no such mode, there is a cassette in the client, or it uses a webhook or a websocket.

        >>> for _ in range(2):
        ...     with client.cassette(folder / "read.zip") as cassette:
        ...         print(cassette.is_playing, client.read_value(station, "/3303/0/5700"))
        False 21.5
        True 21.5
        """
        import_whole("mirror_sdk.cassette")
        from mirror_sdk.cassette import Cassette

        if self._session.channel != "long polling":
            raise InvalidValue(
                f"a {self._session.channel} brings notifications past a cassette; use_long_polling() first"
            )
        return Cassette(path, mode, self._session.sender, self._session.reset)

    def close(self) -> None:
        """Stop all watches and recorders and close the connections; the client cannot be used after this.

        Raises:
            Exception: A recording had ended by itself, for this reason, which was not raised before.
            OSError: A recorder or a cassette could not write the rest.

        >>> client.close()
        """
        self._session.end(is_kept=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._session.end(is_kept=kind is None)

    def __repr__(self) -> str:
        return f"<MirrorClient {self.base_url}>"

    def __dir__(self) -> list[str]:
        # Completion shows what users call.
        return [name for name in super().__dir__() if not name.startswith("_") or name.startswith("__")]

    def __reduce__(self) -> NoReturn:
        raise cannot_be_sent(self)

    def is_healthy(self, *, timeout: float | None = None) -> bool:
        """Whether a mirror is up there and says so.

        Whatever else answers, or does not, is none: this raises nothing but :class:`ClientClosed`.

        >>> client.is_healthy()
        True
        """
        deadline = self._session.sender.deadline(timeout)
        try:
            return self._session.send(_operations.get_health(), deadline)
        except (ClientClosed, ConfigError):
            raise
        except MirrorError:
            return False

    def status(self) -> ClientStatus:
        """How this client stands: whether the service answers, which channel is used, what waits. It asks nobody.

        >>> devices = client.devices.list()
        >>> client.status().channel
        'long polling'
        """
        return status_of(
            self.base_url,
            self._session.sender.contact,
            self._session.pump.reader,
            self._session.pump.inbox,
            channel=self._session.channel,
            is_channel_replaced=self._session.callbacks is not None and self._session.callbacks.is_replaced,
            watches=sum(watch.is_running for watch in self._session.watches),
        )

    @cached_property
    def devices(self) -> Devices:
        """The devices of the directory: :class:`~mirror_sdk.resources.devices.Devices`."""
        import_whole("mirror_sdk.resources.devices")
        from mirror_sdk.resources.devices import Devices

        return Devices(self._session)

    @cached_property
    def requests(self) -> Requests:
        """The device requests of this application: :class:`~mirror_sdk.resources.requests.Requests`."""
        import_whole("mirror_sdk.resources.requests")
        from mirror_sdk.resources.requests import Requests

        return Requests(self._session)

    def get_device(self, device_id: DeviceLike, *, timeout: float | None = None) -> DeviceObject:
        """The device object: reported and desired values of every resource, with their times.

        Raises:
            NotFound: There is no such device.

        Source: specification E1; wire.md 1.

        >>> client.get_device("station-01")["/3303/0/5700"].label
        'Temperature · Sensor Value'
        """
        found = self._session.about(device_id, _operations.get_device_object, timeout=timeout)
        return DeviceObject.from_wire(found, self)

    def browse(self, device_id: DeviceLike | None = None, *, timeout: float | None = None) -> str:
        """Open the page for people that the service has at its address, at a device or at the fleet.

        The page asks for an access key, as none stands in an address. In a notebook of ``mirror lab`` it is opened by
        way of JupyterLab, and asks for none.

        Args:
            device_id: A device, its id or its endpoint name; ``None`` for the fleet.
            timeout: Seconds to find the device in, instead of the client's; see :class:`MirrorClient`.

        Returns:
            The address it was opened at, to be opened by hand where this machine has no browser.

        Raises:
            AmbiguousName: Several devices have this name.
            UnknownDevice: There is no such device.

        >>> client.browse()
        'http://mirror.localhost/'
        """
        found = None if device_id is None else self._session.run(id_of(self._session.names, device_id), timeout)
        address = page_address(self.base_url, found)
        import webbrowser  # seldom needed

        webbrowser.open(address)
        return address

    @overload
    def state_frame(
        self,
        devices: DevicesLike | None = None,
        *,
        paths: Sequence[str] | None = None,
        raw: bool = False,
        tz: str | None = None,
        timeout: float | None = None,
        as_: Literal["pandas"] = "pandas",
    ) -> pd.DataFrame: ...

    @overload
    def state_frame(
        self,
        devices: DevicesLike | None = None,
        *,
        paths: Sequence[str] | None = None,
        raw: bool = False,
        tz: str | None = None,
        timeout: float | None = None,
        as_: Literal["arrow"],
    ) -> ArrowTable: ...

    @overload
    def state_frame(
        self,
        devices: DevicesLike | None = None,
        *,
        paths: Sequence[str] | None = None,
        raw: bool = False,
        tz: str | None = None,
        timeout: float | None = None,
        as_: Literal["polars"],
    ) -> pl.DataFrame: ...

    def state_frame(
        self,
        devices: DevicesLike | None = None,
        *,
        paths: Sequence[str] | None = None,
        raw: bool = False,
        tz: str | None = None,
        timeout: float | None = None,
        as_: Form = "pandas",
    ) -> pd.DataFrame | ArrowTable | pl.DataFrame:
        """The state table, one row for each device and resource; see :func:`mirror_sdk.frames.state_frame`.

        Devices are asked for one by one, each as of its own instant; :meth:`snapshot` gives a whole fleet at once.
        ``attrs["mirror"]["paths_without_rows"]`` names the ``paths`` that no row matches; if no path has a row, there
        is an :class:`EmptyTableWarning`.

        Args:
            devices: Devices, their ids or endpoint names, or a table that names them; ``None`` takes
                all of the directory.
            paths: Path patterns (``/3303/*``); ``None`` takes every resource.
            raw: Whether the raw payloads are columns too.
            tz: Time zone of the time columns, such as ``Europe/Berlin``; UTC by default.
            timeout: Seconds for the whole, instead of the client's for each part; see :class:`MirrorClient`.
            as_: ``pandas``, ``arrow`` or ``polars``: a ``pandas.DataFrame``, ``pyarrow.Table`` or ``polars.DataFrame``.

        Raises:
            ImportError: What the form needs, such as pandas, is not installed.
            NotFound: There is no such device.
            TypeError: A single text was given where a list of device ids belongs.
            InvalidValue: A pattern is not one, or ``tz`` is no time zone.

        >>> client.state_frame(paths=["/3311/*"])["path"].tolist()
        ['/3311/0/5850', '/3311/0/5851']
        >>> client.state_frame(paths=["/3311/*"], as_="polars").height
        2
        """
        import_whole(module_for(as_))
        whole = self._session.sender.whole(timeout)
        tables, about = self._tables.state_of(devices, paths, whole, raw=raw)
        about = self._tables.with_silent_now(about, tables, paths)
        return given(tables, about, as_=as_, tz=tz)

    @overload
    def snapshot(
        self,
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
        as_: Literal["pandas"] = "pandas",
    ) -> pd.DataFrame: ...

    @overload
    def snapshot(
        self,
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
        as_: Literal["arrow"],
    ) -> ArrowTable: ...

    @overload
    def snapshot(
        self,
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
        as_: Literal["polars"],
    ) -> pl.DataFrame: ...

    def snapshot(
        self,
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
        as_: Form = "pandas",
    ) -> pd.DataFrame | ArrowTable | pl.DataFrame:
        """The state table of many devices, all as of one instant, in one answer.

        The columns are those of :func:`mirror_sdk.frames.state_frame`; devices and their resources stand in the order
        of their ids and paths. ``attrs["mirror"]`` also holds what was selected, ``seq``, the number of the last entry
        in the notification log at that instant (``events(after=seq)`` goes on there), and ``revision``, by which
        ``frame.mirror.refresh(client)`` fetches what has changed since. A service that has no snapshots is asked for
        one device after another; a :class:`SnapshotWarning` says so, and ``one_instant`` is false. Paths without
        rows are told as by :meth:`state_frame`.

        Args:
            devices: Devices, their ids or endpoint names, or a table that names them; ``None`` takes
                all that match the conditions.
            paths: Path patterns (``/3303/*``); ``None`` takes every resource.
            state: ``registered`` or ``deregistered``.
            endpoint_type: Endpoint type.
            endpoint_name: Endpoint name.
            filters: Other conditions, as for ``client.devices.list()``.
            raw: Whether the raw payloads are columns too.
            tz: Time zone of the time columns, such as ``Europe/Berlin``; UTC by default.
            compression: ``none``, ``lz4`` or ``zstd`` on the way; by default ``lz4``, and ``none`` from this machine.
            timeout: Seconds for the whole, instead of the client's for each part; see :class:`MirrorClient`.
            as_: ``pandas``, ``arrow`` or ``polars``: a ``pandas.DataFrame``, ``pyarrow.Table`` or ``polars.DataFrame``.

        Raises:
            ConnectionFailed: The answer broke off; a part of it is never a table.
            ImportError: What the form needs, such as pandas, is not installed.
            BadRequest: There is no such filter; the message lists the known ones.
            NotFound: One of the ``devices`` is not there.
            TypeError: A single text was given where a list of device ids belongs.
            ValueError: A time in ``filters`` has no zone, or there are several values without ``in``.
            InvalidValue: A pattern is not one, or ``tz`` is no time zone.

        Source: wire.md 7.

        >>> client.snapshot(endpoint_type="Light", paths=["/3311/*"])["path"].tolist()
        ['/3311/0/5850', '/3311/0/5851']
        >>> client.snapshot(paths=["/3303/*"], as_="arrow")["path"].to_pylist()
        ['/3303/0/5700']
        """
        import_whole(module_for(as_), "mirror_sdk.snapshot.request")
        from mirror_sdk.snapshot.request import SnapshotRequest
        from mirror_sdk.snapshot.selection import Selection

        whole = self._session.sender.whole(timeout)
        selection = Selection.of(
            paths=paths,
            state=state,
            endpoint_type=endpoint_type,
            endpoint_name=endpoint_name,
            filters=filters,
            device_ids=None if devices is None else self._session.ids_of(devices, timeout=whole),
        )
        request = SnapshotRequest(selection=selection, server=self.base_url, raw=raw, tz=tz, compression=compression)
        tables, about = self._tables.parts_of(request, whole)
        about = self._tables.with_silent_now(about, tables, selection.paths)
        return given(tables, about, as_=as_, tz=tz)

    def snapshot_dataset(
        self,
        folder: str | PathLike[str],
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
        devices_per_file: int = DEFAULT_DEVICES_PER_RANGE,
        overwrite: bool = False,
        timeout: float | None = None,
    ) -> SnapshotDataset:
        """The same table as of :meth:`snapshot`, written to a folder while it arrives, for fleets larger than memory.

        The folder has Parquet files, each with a range of device ids. ``pandas.read_parquet(folder)`` reads all of it
        or, with ``columns=`` and ``filters=``, a part; :func:`mirror_sdk.dask.read_dataset` makes a Dask DataFrame.
        Columns, dtypes and what they are based on are those of :meth:`snapshot`, and all rows are of one instant.

        It is written beside its place, as ``.NAME-….partial``, and put there when it is whole and on disk: where
        anything goes wrong, nothing is there. What a killed program leaves beside it may be deleted.

        Args:
            folder: Where it is to be: a folder that is not there, or an empty one.
            devices: As for :meth:`snapshot`, as are the others up to ``compression``.
            paths: Path patterns (``/3303/*``); ``None`` takes every resource.
            state: ``registered`` or ``deregistered``.
            endpoint_type: Endpoint type.
            endpoint_name: Endpoint name.
            filters: Other conditions, as for ``client.devices.list()``.
            raw: Whether the raw payloads are columns too.
            tz: Time zone of the time columns, such as ``Europe/Berlin``; UTC by default.
            compression: ``none``, ``lz4`` or ``zstd`` on the way.
            devices_per_file: How many devices a file has at most.
            overwrite: Whether it may take the place of another dataset. Anything else is never replaced.
            timeout: Seconds for the whole, instead of the client's for each part; see :class:`MirrorClient`.

        Raises:
            ConnectionFailed: The answer broke off.
            ImportError: pandas is not installed.
            BadRequest: There is no such filter; the message lists the known ones.
            NotFound: One of the ``devices`` is not there.
            OSError: The folder cannot be written.
            TypeError: A single text was given where a list of device ids belongs.
            ValueError: A time in ``filters`` has no zone.
            InvalidValue: The folder is not empty, a pattern is not one, ``tz`` is no time zone, or ``devices_per_file``
                is not 1 or more.

        Source: wire.md 7.

        >>> client.snapshot_dataset(folder / "fleet", paths=["/3311/*"])
        <SnapshotDataset .../fleet: 2 rows of 2 devices>
        >>> pd.read_parquet(folder / "fleet", filters=[("resource_id", "==", 5851)])["path"].tolist()
        ['/3311/0/5851']
        """
        import_whole("mirror_sdk.snapshot.dataset", "mirror_sdk.snapshot.table")
        from mirror_sdk.snapshot.dataset import DatasetWriter
        from mirror_sdk.snapshot.request import SnapshotRequest
        from mirror_sdk.snapshot.selection import Selection
        from mirror_sdk.snapshot.table import basis

        whole = self._session.sender.whole(timeout)
        selection = Selection.of(
            paths=paths,
            state=state,
            endpoint_type=endpoint_type,
            endpoint_name=endpoint_name,
            filters=filters,
            device_ids=None if devices is None else self._session.ids_of(devices, timeout=whole),
        )
        request = SnapshotRequest(selection=selection, server=self.base_url, raw=raw, tz=tz, compression=compression)
        writer = DatasetWriter(folder, devices_per_file=devices_per_file, raw=raw, tz=tz, overwrite=overwrite)
        with writer:
            taken = self._tables.take(request, writer.add, whole)
            return writer.finish(basis(request, taken, writer.rows))

    def refresh(self, frame: pd.DataFrame, *, timeout: float | None = None) -> pd.DataFrame:
        """The table of :meth:`snapshot` as it would be now; only the devices that have changed since are fetched.

        Args:
            frame: A table as :meth:`snapshot` gave it.
            timeout: Seconds for the whole, instead of the client's for each part; see :class:`MirrorClient`.

        Returns:
            A new table. Where the service cannot tell what has changed, it is taken as a whole, and a
            :class:`SnapshotWarning` says so.

        Raises:
            ConnectionFailed: The answer broke off; a part of it is never a table.
            NotFound: One of the ``devices`` the table was asked for is gone.
            InvalidValue: It is another table, not all of it, or has a resource of a device twice.

        Source: wire.md 7.

        >>> frame = client.snapshot(paths=["/3303/*"])
        >>> client.read_value(station, "/3303/0/5700")
        21.5
        >>> client.refresh(frame)["reported_num"].tolist()
        [21.5]
        """
        import_whole("mirror_sdk.frames", "mirror_sdk.snapshot.table")
        from mirror_sdk.snapshot.table import refreshed, request_since, whole_request

        whole = self._session.sender.whole(timeout)
        request = request_since(frame, server=self.base_url)
        try:
            taken, tables = self._tables.take_tables(request, whole)
        except BadRequest as error:
            request = whole_request(request, error)
            taken, tables = self._tables.take_tables(request, whole)
        return refreshed(frame, request, taken, tables)

    # The past

    @overload
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
        as_: Literal["pandas"] = "pandas",
    ) -> pd.DataFrame: ...

    @overload
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
        as_: Literal["arrow"],
    ) -> ArrowTable: ...

    @overload
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
        as_: Literal["polars"],
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
        as_: Form = "pandas",
    ) -> pd.DataFrame | ArrowTable | pl.DataFrame:
        """What happened: a row for each thing, by device, path and the time at which it did.

        The columns are those of :func:`mirror_sdk.frames.history_frame`: values that devices told and by what they
        came, ends of writes, registrations, and intervals in which nothing could be heard. Rows without a path, such
        as registrations, are there whatever the ``paths``; those without a device, gaps of the service, whatever the
        devices. ``attrs["mirror"]`` also holds ``begin``, ``end``, ``taken_at`` and ``oldest_at``, from when on the
        service has kept everything. What breaks off on the way goes on behind the last row that came. Where no row
        has a path that one of ``paths`` matches, it stands in ``attrs["mirror"]["paths_without_rows"]``; where none of
        them has a row, and none of the devices such a resource, an :class:`EmptyTableWarning` says so.

        Args:
            devices: Devices, their ids or endpoint names, or a table that names them; ``None`` takes all that match
                the conditions.
            paths: Path patterns (``/3303/*``); ``None`` takes every resource.
            begin: From this instant on: with its time zone, its text, or how long ago it was (``"2h"``); ``None`` for
                all that is kept.
            end: Up to before this instant; ``None`` for the present.
            state: ``registered`` or ``deregistered``, now.
            endpoint_type: Endpoint type.
            endpoint_name: Endpoint name.
            filters: Other conditions, as for ``client.devices.list()``.
            raw: Whether the payloads are a column too.
            tz: Time zone of the time columns, such as ``Europe/Berlin``; UTC by default.
            limit: How many rows at most, the first ones; ``None`` for all.
            compression: ``none``, ``lz4`` or ``zstd`` on the way; by default ``lz4``, and ``none`` from this machine.
            timeout: Seconds for the whole, instead of the client's for each part; see :class:`MirrorClient`.
            as_: ``pandas``, ``arrow`` or ``polars``: a ``pandas.DataFrame``, ``pyarrow.Table`` or ``polars.DataFrame``.

        Raises:
            BadRequest: There is no such filter; the message lists the known ones.
            BeforeHistory: ``begin`` lies before what is kept; ``oldest_at`` is the oldest instant there is.
            ImportError: What the form needs, such as pandas, is not installed.
            NoHistory: The service keeps none, or is of a version that knows none.
            NotFound: One of the ``devices`` is not there.
            TypeError: A single text was given where a list of device ids belongs.
            ValueError: A time in ``filters`` has no zone, or there are several values without ``in``.
            InvalidValue: An instant has no time zone, the end lies before the beginning, a pattern is not one,
                ``limit`` is no number, or ``tz`` is no time zone.

        Source: wire.md 10.

        >>> client.read_value(station, "/3303/0/5700")
        21.5
        >>> found = client.history(["station-01"], ["/3303/*"])
        >>> found[["event", "origin", "value_num"]].values.tolist()
        [['registration', nan, <NA>], ['reported', 'read', 21.5]]
        """
        import_whole(module_for(as_), "mirror_sdk.history.reading")
        from mirror_sdk.history.reading import basis
        from mirror_sdk.history.request import HistoryRequest, check_interval
        from mirror_sdk.snapshot.selection import Selection
        from mirror_sdk.tables.history import HistoryParts

        whole = self._session.sender.whole(timeout)
        begin, end = check_interval(begin, end, self._tables.clock_of(begin, end, timeout=whole))
        chosen = None if devices is None else self._session.ids_of(devices, timeout=whole)
        request = HistoryRequest(
            selection=Selection.of(
                paths=paths,
                state=state,
                endpoint_type=endpoint_type,
                endpoint_name=endpoint_name,
                filters=filters,
                device_ids=chosen,
            ),
            server=self.base_url,
            begin=begin,
            end=end,
            limit=count("limit", limit),
            compression=compression,
        )
        parts = HistoryParts(raw=raw)
        told = self._tables.read_history(request, parts.add, whole, raw=raw)
        if limit is None and (unheard := parts.without_rows(chosen or ())):
            self._session.run(require_known(unheard), whole)
        units = self._tables.units_over_time(parts.unitless(), request, told)
        tables, metadata = parts.finish(basis(request, told), units=units)
        if limit is None:
            metadata = self._tables.with_silent(metadata, tables, request.selection, whole)
        return given(tables, metadata, as_=as_, tz=tz)

    @overload
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
        as_: Literal["pandas"] = "pandas",
    ) -> pd.DataFrame: ...

    @overload
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
        as_: Literal["arrow"],
    ) -> ArrowTable: ...

    @overload
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
        as_: Literal["polars"],
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
        as_: Form = "pandas",
    ) -> pd.DataFrame | ArrowTable | pl.DataFrame:
        """The state table of many devices as it was at an instant of the past, by what is known of it now.

        That is, for each resource, the last value with a time (``changed_at``) up to the instant, and the last write
        that was asked for by then, with what had become of it. A resource of which nothing was told by then has no row,
        and what was ``subscribed`` is not kept. ``reported_at`` is that ``changed_at``, so it is never after the
        instant. Conditions are those of the directory as it is now. Of ``paths`` that no row is of is told as by
        :meth:`history`.

        Args:
            instant: Which instant: with its time zone; its text, as in ``attrs["mirror"]["oldest_at"]``; or how long
                ago it was, ``"2h"`` or a timedelta.
            devices: As for :meth:`snapshot`, as are the others.
            paths: Path patterns (``/3303/*``); ``None`` takes every resource.
            state: ``registered`` or ``deregistered``, now.
            endpoint_type: Endpoint type.
            endpoint_name: Endpoint name.
            filters: Other conditions, as for ``client.devices.list()``.
            raw: Whether the raw payloads are columns too.
            tz: Time zone of the time columns, such as ``Europe/Berlin``; UTC by default.
            compression: ``none``, ``lz4`` or ``zstd`` on the way.
            timeout: Seconds for the whole, instead of the client's for each part; see :class:`MirrorClient`.
            as_: ``pandas``, ``arrow`` or ``polars``: a ``pandas.DataFrame``, ``pyarrow.Table`` or ``polars.DataFrame``.

        Raises:
            BadRequest: There is no such filter, and the message lists the known ones; or the instant is yet to come.
            BeforeHistory: The instant lies before what is kept; ``oldest_at`` is the oldest there is.
            ConnectionFailed: The answer broke off; a part of it is never a table.
            ImportError: What the form needs, such as pandas, is not installed.
            NoHistory: The service keeps none, or is of a version that knows none.
            NotFound: One of the ``devices`` is not there.
            TypeError: A single text was given where a list of device ids belongs.
            ValueError: A time in ``filters`` has no zone, or there are several values without ``in``.
            InvalidValue: The instant has no time zone, a pattern is not one, or ``tz`` is no time zone.

        Source: wire.md 10.

        >>> client.subscribe(station, "/3303/0/5700")
        >>> before = simulator.get_clock()
        >>> simulator.advance(60)
        datetime.datetime(...)
        >>> simulator.set_value(station, "/3303/0/5700", 22.5)
        >>> client.as_of(before, ["station-01"], paths=["/3303/*"])["reported_num"].tolist()
        [21.5]
        """
        import_whole(module_for(as_), "mirror_sdk.snapshot.request")
        from mirror_sdk.snapshot.request import SnapshotRequest
        from mirror_sdk.snapshot.selection import Selection

        whole = self._session.sender.whole(timeout)
        as_of = instant_like("instant", instant, self._tables.clock_of(instant, timeout=whole))
        selection = Selection.of(
            paths=paths,
            state=state,
            endpoint_type=endpoint_type,
            endpoint_name=endpoint_name,
            filters=filters,
            device_ids=None if devices is None else self._session.ids_of(devices, timeout=whole),
        )
        request = SnapshotRequest(
            selection=selection, server=self.base_url, raw=raw, tz=tz, compression=compression, as_of=as_of
        )
        tables, about = self._tables.parts_of(request, whole)
        about = self._tables.with_silent(about, tables, selection, whole)
        return given(tables, about, as_=as_, tz=tz)

    @overload
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
        as_: Literal["pandas"] = "pandas",
    ) -> pd.DataFrame: ...

    @overload
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
        as_: Literal["arrow"],
    ) -> ArrowTable: ...

    @overload
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
        as_: Literal["polars"],
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
        as_: Form = "pandas",
    ) -> pd.DataFrame | ArrowTable | pl.DataFrame:
        """What changed between two instants: one row per resource that was reported then, with both its values.

        The columns are those of :meth:`mirror_sdk.recording.Recording.changes`. ``attrs["mirror"]["complete"]`` is
        false where a gap lies between. What is reported late meanwhile may be in one of the two values only.

        Args:
            begin: From behind this instant on: with its time zone, its text, or how long ago it was (``"2h"``).
            end: Up to this instant; ``None`` for the present.
            devices: As for :meth:`history`, as are the others.
            paths: Path patterns (``/3303/*``); ``None`` takes every resource.
            state: ``registered`` or ``deregistered``, now.
            endpoint_type: Endpoint type.
            endpoint_name: Endpoint name.
            filters: Other conditions, as for ``client.devices.list()``.
            tz: Time zone of the time columns, such as ``Europe/Berlin``; UTC by default.
            timeout: Seconds for the whole, instead of the client's for each part; see :class:`MirrorClient`.
            as_: ``pandas``, ``arrow`` or ``polars``: a ``pandas.DataFrame``, ``pyarrow.Table`` or ``polars.DataFrame``.

        Raises:
            BadRequest: There is no such filter, and the message lists the known ones; or the end is yet to come.
            BeforeHistory: ``begin`` lies before what is kept; ``oldest_at`` is the oldest instant there is.
            ImportError: What the form needs, such as pandas, is not installed.
            NoHistory: The service keeps none, or is of a version that knows none.
            NotFound: One of the ``devices`` is not there.
            TypeError: A single text was given where a list of device ids belongs.
            ValueError: A time in ``filters`` has no zone, or there are several values without ``in``.
            InvalidValue: An instant has no time zone, the end lies before the beginning, a pattern is not one, or
                ``tz`` is no time zone.

        Source: wire.md 10.

        >>> client.subscribe(station, "/3303/0/5700")
        >>> begin, end = simulator.get_clock(), simulator.advance(60)
        >>> simulator.set_value(station, "/3303/0/5700", 22.5)
        >>> client.changes(begin, end)[["path", "before_num", "after_num"]].values.tolist()
        [['/3303/0/5700', 21.5, 22.5]]
        """
        import_whole(module_for(as_), "mirror_sdk.history.reading", "mirror_sdk.history.changes")
        from mirror_sdk.history.changes import Counts, changes_parts
        from mirror_sdk.history.request import HistoryRequest, behind, check_interval
        from mirror_sdk.snapshot.selection import Selection
        from mirror_sdk.tables.columns import basis_of_table

        whole = self._session.sender.whole(timeout)
        now = self._tables.clock_of(begin, end, timeout=whole)
        first = instant_like("begin", begin, now)
        _, last = check_interval(first, end, now)
        selection = Selection.of(
            paths=paths,
            state=state,
            endpoint_type=endpoint_type,
            endpoint_name=endpoint_name,
            filters=filters,
            device_ids=None if devices is None else self._session.ids_of(devices, timeout=whole),
        )
        counts = Counts()
        before = self._tables.state_at(first, selection, whole)
        if last is None:
            # Until now, by the service's clock.
            after = self._tables.state_at(None, selection, whole)
            last = instant_like("taken_at", basis_of_table(after)["taken_at"], self._session.sender.moments.now)
        between = HistoryRequest(selection=selection, server=self.base_url, begin=behind(first), end=behind(last))
        self._tables.read_history(between, counts.add, whole)
        if end is not None:
            after = self._tables.state_at(last, selection, whole)
        tables, about = changes_parts(counts.finish(), before, after, first, last)
        return given(tables, about, as_=as_, tz=tz)

    # Device requests

    def begin_read(
        self,
        device_id: DeviceLike,
        path: str,
        *,
        accept: str | None = None,
        expiry_seconds: int | None = None,
        async_id: str | None = None,
        timeout: float | None = None,
    ) -> DeviceRequest:
        """Ask a device for the value of a resource, without waiting for it.

        Args:
            device_id: The device: its id, its endpoint name, or what has its id.
            path: The resource path, such as ``/3303/0/5700``.
            accept: Content type wished for.
            expiry_seconds: For how long the request may wait for the device; the service's default is 2 hours, and
                3 days for a device in queue mode.
            async_id: Identity of the request, made here by default. The same one may be given again for the same
                request: it is queued once.
            timeout: Seconds the call may take, instead of the client's.

        Raises:
            NotFound: There is no such device.
            BadRequest: The service does not take the request.
            UnknownResource: The device does not have this resource.
            Conflict: ``async_id`` belongs to another request.
            LimitExceeded: Too many requests wait for this device.
            ValueError: An argument cannot be sent; the message names it.

        Source: specification E2; wire.md 2.

        >>> request = client.begin_read(station, "/3303/0/5700")
        >>> request.result().python
        21.5
        """
        return self._session.place(
            "GET", device_id, path, expiry_seconds=expiry_seconds, async_id=async_id, timeout=timeout, accept=accept
        )

    def begin_write(
        self,
        device_id: DeviceLike,
        path: str,
        value: object = None,
        *,
        text: str | None = None,
        content_type: str | None = None,
        expiry_seconds: int | None = None,
        async_id: str | None = None,
        allow_read_only: bool = False,
        if_match: ExpectedValue | None = None,
        timeout: float | None = None,
    ) -> DeviceRequest:
        """Ask a device to take a value, without waiting for it; see :func:`mirror_sdk.values.encode` for values.

        In the place of ``value``, ``text`` is what people typed, such as ``"off"`` or ``" 55 "``; it is read by
        :func:`mirror_sdk.parse_value`. With ``if_match`` the service takes the write only while the desired value of
        the resource is the one that was seen: a :class:`Resource`, a :class:`DesiredValue`, its ``revision``, or 0
        where nothing was ever written. It is another one after each write, and when a write has ended. A service
        without this extension writes in any case. Other arguments and errors as for :meth:`begin_read`, and:

        Raises:
            PreconditionFailed: The desired value is another one by now; ``error.resource`` has it. Nothing was sent
                to the device.
            InvalidValue: The value or the text does not go with what is declared for the path, there are both or
                neither, or it is declared read-only and ``allow_read_only`` is not set.

        Source: specification E2, 3.1; wire.md 2.

        >>> seen = client.get_device(light)["/3311/0/5851"]
        >>> request = client.begin_write(light, "/3311/0/5851", 40, if_match=seen)
        >>> request.exception() is None
        True
        >>> try:
        ...     client.begin_write(light, "/3311/0/5851", 70, if_match=seen)
        ... except PreconditionFailed as error:
        ...     print(error.resource.desired_value)
        40
        """
        asked = to_write(path, value, text, content_type, allow_read_only=allow_read_only, if_match=if_match)
        return self._session.place(
            "PUT", device_id, path, expiry_seconds=expiry_seconds, async_id=async_id, timeout=timeout, **asked
        )

    def begin_execute(
        self,
        device_id: DeviceLike,
        path: str,
        argument: str | None = None,
        *,
        expiry_seconds: int | None = None,
        async_id: str | None = None,
        timeout: float | None = None,
    ) -> DeviceRequest:
        """Ask a device to execute a resource, without waiting for it. Arguments and errors as for :meth:`begin_read`.

        The service never sends an execute again that may have reached the device, because it would run twice. If no
        response comes, also because the service restarted meanwhile, the request fails with
        :class:`DeviceUnavailable` and the category ``TIMEOUT``: whether the device acted is unknown.

        Source: wire.md 2.

        >>> request = client.begin_execute(light, "/3/0/4")
        >>> request.exception() is None
        True
        """
        asked = to_execute(argument)
        return self._session.place(
            "POST", device_id, path, expiry_seconds=expiry_seconds, async_id=async_id, timeout=timeout, **asked
        )

    def resume_request(
        self,
        async_id: str,
        device_id: DeviceLike,
        path: str,
        *,
        method: Method = "GET",
        timeout: float | None = None,
    ) -> DeviceRequest:
        """Take up a request again by its async-id, also in another process than the one that made it.

        Its answer is looked for in all that is kept of the notification log, a day as a rule, and then waited for.

        Args:
            async_id: The request's identity.
            device_id: The device that was asked.
            path: The resource path.
            method: ``GET`` read, ``PUT`` write, ``POST`` execute.
            timeout: Seconds the call may take, instead of the client's.

        Source: specification 6; wire.md 4.

        >>> request = client.begin_read(station, "/3303/0/5700")
        >>> again = client.resume_request(request.async_id, station, "/3303/0/5700")
        >>> again.result().python
        21.5
        """
        pump = self._session.new_pump(self._session.new_log_reader(0))
        return DeviceRequest(
            async_id=async_id,
            device_id=self._session.run(id_of(self._session.names, device_id, anew=True), timeout),
            path=path,
            method=method,
            issued_at=utc_now(),
            expiry_seconds=None,
            _expectation=pump.expect(async_id),
            _pump=pump,
        )

    def requests_frame(
        self, requests: Iterable[PlacedRequest | UnplacedRequest], *, tz: str | None = None
    ) -> pd.DataFrame:
        """The requests table, as the notification log has them now; see :func:`mirror_sdk.frames.requests_frame`.

        Args:
            requests: What ``begin_read``, ``begin_write`` and ``begin_execute`` gave.
            tz: Time zone of the time columns, such as ``Europe/Berlin``; UTC by default.

        Raises:
            ImportError: pandas is not installed.
            InvalidValue: ``tz`` is no time zone.

        >>> request = client.begin_read(station, "/3303/0/5700")
        >>> request.result().python
        21.5
        >>> client.requests_frame([request])["status"].tolist()
        ['success']
        """
        rows = list(requests)
        import_whole("mirror_sdk.frames")
        from mirror_sdk.frames.requests import seen_requests_frame

        look_for_answers(rows)
        return seen_requests_frame(rows, tz=tz, server=self.base_url)

    def read_value(
        self,
        device_id: DeviceLike,
        path: str,
        *,
        accept: str | None = None,
        expiry_seconds: int | None = None,
        timeout: float | None = None,
    ) -> PythonValue | InstanceValues | None:
        """The value a device has now, as a Python value.

        Of a resource with several instances, such as ``/3/0/7``, it is a mapping from the id of each instance to its
        value: ``{0: 3800, 1: 5000}``.

        Of an object instance (``/3303/0``), which real devices answer for as a whole, it is the ``bytes`` of the
        answer; ``begin_read(...)`` and ``result()`` give their content type too, with which
        :func:`mirror_sdk.values.decode_many` reads the value of each resource out of them.

        Arguments and errors as for :meth:`begin_read` and :meth:`DeviceRequest.result`.

        >>> client.read_value(station, "/3303/0/5700")
        21.5
        """
        answer = self._session.place_and_wait(
            "GET", device_id, path, wait_of(timeout), expiry_seconds=expiry_seconds, accept=accept
        )
        return answer.python

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
        """Have a device take a value; returns when it has.

        Arguments and errors as for :meth:`begin_write` and :meth:`DeviceRequest.result`.

        >>> client.write_value(light, "/3311/0/5850", True)
        >>> client.write_value(light, "/3311/0/5851", text=" 55 ")
        """
        asked = to_write(path, value, text, content_type, allow_read_only=allow_read_only, if_match=if_match)
        self._session.place_and_wait("PUT", device_id, path, wait_of(timeout), expiry_seconds=expiry_seconds, **asked)

    def execute(
        self,
        device_id: DeviceLike,
        path: str,
        argument: str | None = None,
        *,
        expiry_seconds: int | None = None,
        timeout: float | None = None,
    ) -> None:
        """Have a device execute a resource; returns when it has.

        Arguments and errors as for :meth:`begin_execute` and :meth:`DeviceRequest.result`.

        >>> client.execute(light, "/3/0/4")
        """
        asked = to_execute(argument)
        self._session.place_and_wait("POST", device_id, path, wait_of(timeout), expiry_seconds=expiry_seconds, **asked)

    def acknowledge_failed_write(
        self,
        device_id: DeviceLike | DeviceTable,
        path: str | None = None,
        *,
        by: str | None = None,
        if_match: ExpectedValue | None = None,
        timeout: float | None = None,
    ) -> None:
        """Acknowledge a write that failed, or those that a table names, so that it does not count as failed any more.

        The drift table, FleetTable and the server's page leave it out. ``desired.acknowledged_at`` and
        ``desired.acknowledged_by`` of the resource show when and by whom, until the next write. A write that was
        acknowledged before stays as it is. A state as of an earlier instant does not tell it.

        Args:
            device_id: The device, or a table with the columns ``device_id`` and ``path``, such as
                ``drift.query("kind == 'failed'")``. With a column ``desired_revision`` it acknowledges only the
                failures that it shows: one of a later write is refused. Without it, the last one of each resource is.
            path: The resource path; of a table that of each of its devices, in the place of its column.
            by: Who acknowledges it; the name of this application's access key by default.
            if_match: What the caller saw: the resource, its desired value or that one's revision. Another write since
                is not acknowledged. A table has it in ``desired_revision``.
            timeout: Seconds the call may take, instead of the client's; of a table, instead of the client's for each.

        Raises:
            AccessDenied: The key may not write.
            BadRequest: The device does not have this resource. Of a table, all others are acknowledged, as a note of
                the error tells.
            Conflict: The last write has not failed, or is another one than the caller saw; the same.
            NotFound: There is no such device; the same.
            InvalidValue: The table has no such columns, its ``desired_revision`` no numbers, or ``if_match`` was given
                with a table.

        >>> simulator.set_answer(light, "reject")
        >>> error = client.begin_write(light, "/3311/0/5851", 40).exception()
        >>> len(client.state_frame().mirror.drift())
        1
        >>> client.acknowledge_failed_write(light, "/3311/0/5851", by="night shift")
        >>> len(client.state_frame().mirror.drift())
        0
        >>> client.get_device(light)["/3311/0/5851"].desired.acknowledged_by
        'night shift'
        """
        if if_match is not None and is_table(device_id):
            raise InvalidValue("if_match= goes with one resource; a table has it in its column desired_revision")
        revision = None if if_match is None else expected_revision(if_match)
        operation = partial(_operations.acknowledge_failed_write, by=by, revision=revision)
        seen = seen_revisions(device_id, path, "device_id") if is_table(device_id) else {}
        self._session.act_on(device_id, path, operation, timeout, seen)

    def plan(
        self,
        wanted: Wanted,
        *,
        value: object = None,
        path: str | None = None,
        if_match: bool = False,
        read_first: bool = False,
        timeout: float | None = None,
    ) -> Plan:
        """Check many writes against what is declared and what is so now, and plan them. Nothing is written by this.

        ``plan.frame`` shows what is wanted and what was found, ``plan.apply()`` sends it, ``plan.undo()`` plans the
        way back.

        Args:
            wanted: A table with the columns ``device_id`` (or ``device``, as the files of ``mirror plan`` have it),
                ``path``, ``value`` and perhaps ``content_type``; or one with the index ``device_id`` and a column per
                path, as ``state.mirror.wide()`` gives; or a list of (device, path, value). Devices stand in all of
                these as ids or names. A missing value is not wanted. Texts in a table are read as what people
                typed, as ``mirror plan`` reads a CSV, see :func:`mirror_sdk.parse_value`; of those that are no
                value only their rows are refused. A column may be named ``text`` in the place of ``value``. A table
                may be of Polars or pyarrow too.
            value: What to write where the rows of a table are, such as those of ``snapshot.query(...)``: one value, or
                a column for the rows, such as ``found["reported_num"] - 1``. Each resource is written once.
            path: With ``value``, the resource of each device to write, in the place of the table's ``path``.
            if_match: Whether each is written only while what is desired there is what the table has seen, which its
                ``desired_revision`` tells. What somebody else wrote since ends as a refused row with the check
                ``changed``, here or in ``apply()``, with what is there now; the others are written.
            read_first: Whether to have devices report what the mirror does not know, or not any more, so that the write
                of it can be undone. Each read waits 20 s for its device; devices that sleep are not asked. Without, no
                device is asked for anything.
            timeout: Seconds for the whole, instead of the client's for each part; see :class:`MirrorClient`.

        Raises:
            AccessDenied: The key may not read from devices, with ``read_first``.
            ImportError: pandas is not installed.
            InvalidValue: It is none of these; the message says what is missing.

        Source: specification 3.1.

        >>> client.plan([(light, "/3311/0/5851", 40), (light, "/3311/0/5850", "on")])
        <Plan: 1 to write, 1 refused; 1 cannot be undone; nothing was sent, apply() sends>
        >>> client.plan([(light, "/3311/0/5851", 40)], read_first=True)
        <Plan: 1 to write; nothing was sent, apply() sends>
        >>> dim = client.snapshot().query("path == '/3311/0/5851' and reported_num < 20")
        >>> client.plan(dim, value=40, if_match=True)
        <Plan: 1 to write; nothing was sent, apply() sends>
        """
        import_whole("mirror_sdk.plan")
        from mirror_sdk.plan.wanted import names_in, read_wanted, with_ids

        # What makes the rows may belong to this thread.
        rows = wanted if is_table(wanted) else list(wanted)
        wants = partial(read_wanted, rows, value=value, path=path, if_match=if_match)()
        whole = self._session.sender.whole(timeout)
        found = self._session.run(look_up(self._session.names, names_in(wants)), whole)
        return self._plan_of(
            with_ids(wants, found.ids),
            self._session.run(unclear(found), whole),
            whole,
            read_first=read_first,
        )

    def load_plan(self, path: str | PathLike[str]) -> Plan:
        """A plan that was saved, to be applied here. Nothing is sent by this.

        Answers to what was sent before are looked for in all that is kept of the notification log.

        Raises:
            ImportError: pandas is not installed.
            OSError: The file cannot be read.
            InvalidValue: It holds no plan, or one for another service.

        Source: specification 3.1; wire.md 2.

        >>> client.plan([(light, "/3311/0/5851", 40)]).save(folder / "plan.json")
        >>> again = client.load_plan(folder / "plan.json")
        >>> again.apply()["status"].tolist()
        ['success']
        """
        import_whole("mirror_sdk.plan", "mirror_sdk.plan.saved")
        from mirror_sdk.plan import Plan
        from mirror_sdk.plan.saved import load

        planned, placed = load(path, self.base_url)
        return Plan(
            planned,
            placed=placed,
            server=self.base_url,
            # Only when it is applied: until then the position would grow old.
            write=partial(self._write_again, cache(lambda: self._session.new_pump(self._session.new_log_reader(0)))),
            see=self._see,
            make_plan=self._plan_of,
        )

    # Subscriptions

    def subscribe(
        self, device_id: DeviceLike | DeviceTable, path: str | None = None, *, timeout: float | None = None
    ) -> None:
        """Subscribe a resource, or those that a table names; lost when the device makes a full registration.

        Args:
            device_id: The device, or a table with the columns ``device_id`` and ``path``, such as
                ``snapshot.query(...)``.
            path: The resource path; of a table that of each of its devices, in the place of its column.
            timeout: Seconds the call may take, instead of the client's; of a table, instead of the client's for each.

        Raises:
            NotFound: There is no such device. Of a table, all others are subscribed, as a note of the error tells.
            UnknownResource: The device does not have this resource; the same.
            InvalidValue: The table has no such columns, or a row without a device or a path.

        Source: wire.md 3.

        >>> client.subscribe(station, "/3303/0/5700")
        >>> found = client.snapshot().query("path in ['/3311/0/5850', '/3311/0/5851']")
        >>> client.subscribe(found)
        >>> client.list_subscriptions(light)
        ['/3311/0/5850', '/3311/0/5851']
        """
        self._session.act_on(device_id, path, _operations.put_subscription, timeout)

    def unsubscribe(
        self, device_id: DeviceLike | DeviceTable, path: str | None = None, *, timeout: float | None = None
    ) -> None:
        """End the subscription of one resource; harmless where there is none, nor such a resource.

        Arguments and errors as for :meth:`subscribe`. Source: wire.md 3.

        >>> client.subscribe(station, "/3303/0/5700")
        >>> client.unsubscribe(station, "/3303/0/5700")
        """
        self._session.act_on(device_id, path, _operations.delete_subscription, timeout)

    def is_subscribed(self, device_id: DeviceLike, path: str, *, timeout: float | None = None) -> bool:
        """Whether this application subscribed the resource, and the device has not refused it. Source: wire.md 3.

        >>> client.is_subscribed(station, "/3303/0/5700")
        False
        """
        return self._session.about(
            device_id, partial(_operations.get_subscription, path=path), anew=True, timeout=timeout
        )

    def subscription_state(
        self, device_id: DeviceLike, path: str, *, timeout: float | None = None
    ) -> SubscriptionState:
        """What became of this application's subscription of a resource: whether the device accepted it.

        A service that does not tell whether the device accepted leaves it at ``ASKED``. A resource that the device does
        not have is ``NONE`` too.

        Source: wire.md 3.

        >>> client.subscription_state(station, "/3303/0/5700")
        <SubscriptionState.NONE: 'none'>
        """
        return self._session.about(
            device_id, partial(_operations.get_subscription_state, path=path), anew=True, timeout=timeout
        )

    def list_subscriptions(self, device_id: DeviceLike, *, timeout: float | None = None) -> list[str]:
        """The paths this application subscribed of a device; none for an unknown device too. Source: wire.md 3.

        >>> client.list_subscriptions(station)
        []
        """
        return self._session.about(device_id, _operations.list_subscriptions, anew=True, timeout=timeout)

    def delete_subscriptions(self, device_id: DeviceLike, *, timeout: float | None = None) -> None:
        """End all subscriptions this application has of a device. Source: wire.md 3.

        >>> client.subscribe(station, "/3303/0/5700")
        >>> client.delete_subscriptions(station)
        """
        self._session.about(device_id, _operations.delete_subscriptions, anew=True, timeout=timeout)

    def get_presubscriptions(self, *, timeout: float | None = None) -> list[PresubscriptionRule]:
        """The presubscription rules of this application, in their order. Source: wire.md 3.

        >>> client.get_presubscriptions()
        []
        """
        return self._session.send(_operations.get_presubscriptions(), timeout).rules

    def put_presubscriptions(
        self,
        rules: Iterable[PresubscriptionRule | Mapping[str, object]],
        *,
        apply_now: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Replace all presubscription rules; none at all clears them.

        That takes away those of others who use this key, too; :meth:`add_presubscriptions` leaves them.

        Args:
            rules: Rules, or mappings such as ``{"endpoint_type": "Light", "resource_path": ["/3303/*"]}``.
            apply_now: Whether devices that are registered now are checked as well, not only at their next
                registration or registration update. In a large fleet that goes on after the call has returned.
            timeout: Seconds the call may take, instead of the client's.

        Raises:
            BadRequest: The service does not take a rule.
            ValueError: A rule cannot be sent; the message names what is wrong with it.

        Source: specification E3, 3.3; wire.md 3.

        >>> rule = {"endpoint_type": "Light", "resource_path": ["/3311/*"]}
        >>> client.put_presubscriptions([rule], apply_now=True)
        """
        self._session.send(_operations.put_presubscriptions(rules, apply_now=apply_now), timeout)

    def add_presubscriptions(
        self,
        rules: Iterable[PresubscriptionRule | Mapping[str, object]],
        *,
        apply_now: bool = False,
        timeout: float | None = None,
    ) -> list[PresubscriptionRule]:
        """Have these presubscription rules beside those there are; what others add or remove meanwhile stays.

        All that use this key share its rules: other programs, notebooks, cells. The list is read and put back with its
        ``ETag``, again and again where others changed it meanwhile. A service that tells none puts it in any case: what
        others do in just this moment is lost there.

        Rules are the same whatever the order of their paths; a member that is ``*`` is one that is absent.

        Args:
            rules: Rules, or mappings such as ``{"endpoint_type": "Light", "resource_path": ["/3303/*"]}``.
            apply_now: Whether devices that are registered now are checked as well, not only at their next
                registration or registration update.
            timeout: Seconds the call may take, instead of the client's.

        Returns:
            Those that were not there before; a rule that was there already stays as it is.

        Raises:
            BadRequest: The service does not take a rule; none of them was added.
            CallTimeout: It took too long, also because others changed the rules again and again.
            ValueError: A rule cannot be sent, or the key would have more than 1024; the message says which.

        Source: specification E3, 3.3; wire.md 3, where ``ETag`` and ``If-Match`` are an extension.

        >>> lights = {"endpoint_type": "Light", "resource_path": ["/3311/*"]}
        >>> client.add_presubscriptions([lights], apply_now=True)
        [PresubscriptionRule(endpoint_name=None, endpoint_type='Light', resource_path=['/3311/*'])]
        >>> client.add_presubscriptions([lights])
        []
        """
        return self._session.run(add_rules(rules, apply_now=apply_now), timeout)

    def remove_presubscriptions(
        self, rules: Iterable[PresubscriptionRule | Mapping[str, object]], *, timeout: float | None = None
    ) -> list[PresubscriptionRule]:
        """Take these presubscription rules away; all others stay, also what others add meanwhile.

        What these rules subscribed goes on until the devices register anew; :meth:`delete_subscriptions` ends it
        at once. For the rest see :meth:`add_presubscriptions`.

        Args:
            rules: Rules, or mappings such as ``{"endpoint_type": "Light", "resource_path": ["/3303/*"]}``.
            timeout: Seconds the call may take, instead of the client's.

        Returns:
            Those that were there.

        Raises:
            CallTimeout: It took too long, also because others changed the rules again and again.
            ValueError: Something given is no rule; the message names what is wrong with it.

        Source: specification E3, 3.3; wire.md 3, where ``ETag`` and ``If-Match`` are an extension.

        >>> lights = {"endpoint_type": "Light", "resource_path": ["/3311/*"]}
        >>> client.remove_presubscriptions([lights])
        []
        """
        return self._session.run(remove_rules(rules), timeout)

    def delete_presubscriptions(self, *, timeout: float | None = None) -> None:
        """Remove all presubscription rules, also those of others who use this key; see :meth:`remove_presubscriptions`.

        Source: wire.md 3.

        >>> client.delete_presubscriptions()
        """
        self._session.send(_operations.delete_presubscriptions(), timeout)

    # Events

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
        """Events as they come, from the moment of this call on; each iterator has its own position in the log.

        They come in the order of the log. ``position`` of what this gives is the number to go on behind: a program may
        stop anywhere, and go on with ``after=events.position`` without loss or repetition. Lost entries are an event of
        the kind ``gap`` and a :class:`GapWarning`. Connection failures are waited out.

        Values come of what a rule or a subscription of this key covers, and of nothing else: without
        :meth:`add_presubscriptions` (``apply_now=True`` for the devices there are) or :meth:`subscribe` none ever does.
        Registrations, and answers to requests of this key, come in any case.

        Args:
            timeout: Seconds without any event after which the iteration ends; 0 gives what is there already. An outage
                does not count.
            outage_timeout: Seconds that the service may be out of reach before its failure is raised. By default an
                outage is waited out, however long it takes; with ``timeout=0`` it is raised at once.
            limit: How many events at most.
            after: Number of an entry (``position``, ``Event.seq``) to go on behind, instead of at the end of the log.
            paths: Path patterns (``/3303/*``): only observations of these.
            devices: Only events of these devices, their ids or endpoint names, which are looked up now. Gaps and
                unknown entries are always given.

        Raises:
            MirrorError: While iterating: a failure that asking again would not mend, or one that outlasted
                ``outage_timeout``.
            NotFound: There is no such device.
            TypeError: A single text was given where a list of texts belongs.
            InvalidValue: A time-out is no span of time, ``limit`` no number of events, ``after`` none of an entry, or
                a pattern is none.

        Source: specification 6; wire.md 4.

        >>> events = client.events(limit=1)
        >>> client.subscribe(station, "/3303/0/5700")
        >>> [(event.endpoint_name, event.path, event.value.python) for event in events]
        [('station-01', '/3303/0/5700', 21.5)]
        >>> [event for event in client.events(after=events.position, timeout=0)]
        []
        """
        idle_seconds, most = seconds("timeout", timeout), count("limit", limit)
        wants = event_filter(paths, devices if isinstance(devices, str) else None)
        reader = self._session.new_reader(after=place(after))
        return Events(
            reader,
            timeout_seconds=idle_seconds,
            outage_seconds=None if outage_timeout is None else seconds("outage_timeout", outage_timeout),
            limit=most,
            wants=wants,
            find_wanted=None if devices is None else partial(self._wants_of, paths, devices),
            clock=self._session.sender.moments.waiting_seconds,
            now=self._session.sender.moments.now,
        )

    @overload
    def events_frame(
        self,
        *,
        timeout: float = DEFAULT_IDLE_SECONDS,
        outage_timeout: float | None = None,
        limit: int | None = None,
        after: int | None = None,
        paths: Collection[str] | None = None,
        devices: DevicesLike | None = None,
        raw: bool = False,
        tz: str | None = None,
        as_: Literal["pandas"] = "pandas",
    ) -> pd.DataFrame: ...

    @overload
    def events_frame(
        self,
        *,
        timeout: float = DEFAULT_IDLE_SECONDS,
        outage_timeout: float | None = None,
        limit: int | None = None,
        after: int | None = None,
        paths: Collection[str] | None = None,
        devices: DevicesLike | None = None,
        raw: bool = False,
        tz: str | None = None,
        as_: Literal["arrow"],
    ) -> ArrowTable: ...

    @overload
    def events_frame(
        self,
        *,
        timeout: float = DEFAULT_IDLE_SECONDS,
        outage_timeout: float | None = None,
        limit: int | None = None,
        after: int | None = None,
        paths: Collection[str] | None = None,
        devices: DevicesLike | None = None,
        raw: bool = False,
        tz: str | None = None,
        as_: Literal["polars"],
    ) -> pl.DataFrame: ...

    def events_frame(
        self,
        *,
        timeout: float = DEFAULT_IDLE_SECONDS,
        outage_timeout: float | None = None,
        limit: int | None = None,
        after: int | None = None,
        paths: Collection[str] | None = None,
        devices: DevicesLike | None = None,
        raw: bool = False,
        tz: str | None = None,
        as_: Form = "pandas",
    ) -> pd.DataFrame | ArrowTable | pl.DataFrame:
        """The events table of what :meth:`events` gives; see :func:`mirror_sdk.frames.events_frame`.

        ``after=0`` with a short ``timeout`` gives all that is kept of the notification log, a day as a rule.
        ``attrs["mirror"]["position"]`` is the number to go on behind: the next table is that of ``after=`` this one.
        The unit of a sensor is no part of an event. It is the one that an earlier event of resource 5701 names, and
        missing before the first of these events. Without any it is the one that the mirror has now, and missing where
        that may not be read.

        Args:
            timeout: Seconds without any event after which the table ends; an outage does not count.
            outage_timeout: Seconds that the service may be out of reach, as for :meth:`events`.
            limit: How many events at most.
            after: Number of an entry to go on behind, instead of at the end of the log.
            paths: Path patterns (``/3303/*``): only observations of these.
            devices: Only events of these devices, their ids or endpoint names. Gaps and unknown entries are always
                given.
            raw: Whether the payloads stand in ``value_raw``.
            tz: Time zone of the time columns, such as ``Europe/Berlin``; UTC by default.
            as_: ``pandas``, ``arrow`` or ``polars``: a ``pandas.DataFrame``, ``pyarrow.Table`` or ``polars.DataFrame``.

        Raises:
            ImportError: What the form needs, such as pandas, is not installed.
            MirrorError: A failure that asking again would not mend, or one that outlasted ``outage_timeout``.
            NotFound: There is no such device.
            TypeError: A single text was given where a list of texts belongs.
            InvalidValue: ``tz`` is no time zone, a time-out no span of time, ``limit`` no number of events,
                ``after`` none of an entry, or a pattern is none.

        >>> client.events_frame(after=0, timeout=0)["event"].tolist()
        ['registration', 'registration']
        >>> client.events_frame(after=0, timeout=0, as_="arrow")["event"].to_pylist()
        ['registration', 'registration']
        """
        # It begins before pandas is imported, so that nothing is missed meanwhile.
        with self.events(
            timeout=timeout, outage_timeout=outage_timeout, limit=limit, after=after, paths=paths, devices=devices
        ) as events:
            import_whole(module_for(as_), "mirror_sdk.tables.events")
            from mirror_sdk.tables.events import EVENTS_AT_A_TIME, EventParts

            parts = EventParts(raw=raw)
            events._unread.skipped = parts.skip
            some: list[Event] = []
            for event in events:
                some.append(event)
                if len(some) == EVENTS_AT_A_TIME:
                    parts.add(some)
                    some = []
        if some:
            parts.add(some)
        state = self._tables.units_of(parts.unitless())
        tables, about = parts.finish(server=self.base_url, position=events.position, state=state)
        return given(tables, about, as_=as_, tz=tz)

    def watch(
        self,
        callback: Callable[[Event], object],
        *,
        paths: Collection[str] | None = None,
        devices: DevicesLike | None = None,
        timeout: float | None = None,
    ) -> Watch:
        """Call back for each event from now on, on a thread of its own, until the watch is stopped.

        Values come of what a rule or a subscription of this key covers, as :meth:`events` says.

        Args:
            callback: Takes an event. What it raises is logged and kept in ``Watch.errors``.
            paths: Path patterns (``/3303/*``): only observations of these.
            devices: Only events of these devices, their ids or endpoint names, which are looked up now. Gaps and
                unknown entries are always told.
            timeout: Seconds until it has begun, instead of the client's.

        Raises:
            TypeError: ``callback`` cannot be called, or a single text was given where a list of texts belongs.
            InvalidValue: A pattern is none.

        Source: wire.md 4.

        >>> with client.watch(print) as watch:
        ...     print(watch.is_running)
        True
        """
        if not callable(callback):
            raise TypeError(f"callback={callback!r} cannot be called; give a function that takes an event")
        deadline = self._session.sender.deadline(timeout)
        wanted = None if devices is None else frozenset(self._session.ids_of(devices, timeout=deadline))
        wants = event_filter(paths, wanted)
        reader = self._session.new_reader()
        reader.go_to_end(deadline)
        watch = Watch(reader, callback, wants, self._session.sender.moments.now)
        self._session.watches.add(watch)
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
        """Record the log from now on, on a thread of its own, until the recorder is stopped.

        The recording is a folder of Parquet files, and nothing else, which pandas, Arrow, DuckDB, Polars and Dask read
        as one table at every moment: what was recorded until ``rotate_seconds`` ago, or less. What is newer, and the
        state tables from the beginning and after each loss, stand beside it (``_run.parquet.mirror``; copy and remove
        both together), and :class:`mirror_sdk.recording.Recording` reads all of it. Where a recorder was stopped or
        killed, the next one with the same folder goes on in the log; a day of it is kept as a rule. What was lost is a
        row of the kind ``gap``.

        Args:
            path: The folder, such as ``run.parquet``.
            devices: Devices, their ids or endpoint names, or a table that names them; ``None`` takes
                all, also those to come.
            paths: Path patterns (``/3303/*``): only observations of these; ``None`` takes every event. A pattern of
                which no rule and no subscription of this key covers anything, of some device, is told as a
                :class:`NotSubscribedWarning`: nothing of it comes.
            subscribe: Whether rules for these devices and paths are added, and applied now, for as long as it records;
                see :meth:`add_presubscriptions`. Those that were there already stay, or go with the recorder that added
                them. Devices send what was subscribed until they register anew. Where the recorder is killed the rules
                stay, until the next one with the same folder ends.
            rotate_bytes: How large a file may become before the next one is begun.
            rotate_seconds: After how many seconds an event stands in a file that every program sees.
            timeout: Seconds until it has begun, instead of the client's for each request.

        Raises:
            ImportError: pandas is not installed.
            NotFound: There is no such device.
            OSError: The folder cannot be written.
            RecordingDamaged: A file of the recording in the folder is not as it was written; the message names it.
            TypeError: A single text was given where a list of texts belongs.
            InvalidValue: There is something else in the folder, a recording of something else, or another recorder at
                work; or an argument is no size, span or pattern; or ``subscribe`` would make more rules than a key can
                have.

        Source: specification 6; wire.md 4.

        >>> with client.record(folder / "run.parquet", paths=["/3303/*"], subscribe=True) as recorder:
        ...     print(client.get_presubscriptions())
        [PresubscriptionRule(endpoint_name=None, endpoint_type=None, resource_path=['/3303/*'])]
        >>> recorder.audit().complete
        True
        >>> client.get_presubscriptions()
        []
        """
        import_whole("mirror_sdk.recording.recorder")
        from mirror_sdk.recording.recorder import Tape, begin_recording
        from mirror_sdk.recording.subscribing import Subscribing

        whole = self._session.sender.whole(timeout)
        chosen = None if devices is None else self._session.ids_of(devices, timeout=whole)
        make_tape = partial(
            Tape,
            path,
            server=self.base_url,
            key=self._session.key_mark,
            devices=chosen,
            paths=paths,
            rotate_bytes=rotate_bytes,
            rotate_seconds=rotate_seconds,
            called_from=calling_line(),
        )
        recorder = begin_recording(
            make_tape,
            self._session.new_log_reader,
            lambda within: self._tables.state_to_record(chosen, paths, within),
            self._session.run,
            Subscribing(chosen, paths, adds_rules=subscribe),
            whole,
        )
        self._session.watches.add(recorder)
        return recorder

    def use_webhook(self, receiver: CallbackInbox, *, url: str | None = None, timeout: float | None = None) -> None:
        """Have notifications sent to a webhook from now on; events and answers then come from there.

        To be called before requests are made and events are waited for. What the service has kept for this key and
        nobody has read comes first. A key has one webhook: where several programs use one key, long polling serves them
        all. When another program registers its own or removes this one, ``status()`` says so as soon as something was
        missed. Readers go on at their positions in the notification log, so that they lose nothing. With a service that
        has no such log, they raise :class:`ChannelGone`.

        Args:
            receiver: A :class:`~mirror_sdk.webhook.WebhookReceiver`, or the inbox of an application of your own, which
                must answer already.
            url: Under which address the service calls it; a ``WebhookReceiver`` knows its own.
            timeout: Seconds the call may take, instead of the client's.

        Raises:
            BadRequest: The service cannot reach the URL or may not call it, which its operator alone is told (a mirror
                calls its own machine with ``--allow-callbacks-to 127.0.0.0/8`` only), or the key has a poll channel.
            ValueError: There is no address, or it cannot be registered.

        Source: specification E4; wire.md 4.

        >>> with WebhookReceiver() as receiver:
        ...     client.use_webhook(receiver)
        ...     client.use_long_polling()
        """
        address = url or receiver.url
        if address is None:
            raise ValueError("give url=, the address under which the service calls your application")
        import_whole("mirror_sdk.webhook")
        from mirror_sdk.webhook import TOKEN_HEADER, CallbackReader, RegisteredWebhook, registered

        position = receiver.last
        deadline = self._session.sender.deadline(timeout)
        self._session.pump.catch_up(deadline)
        has_log = self._session.run(registered(address, receiver.headers), deadline)
        log = LogReader(self._session.send)
        if has_log:
            log.go_to_end(deadline)
        self._session.close_sockets()
        token = receiver.headers[TOKEN_HEADER]
        self._session.callbacks = CallbackReader(
            receiver, RegisteredWebhook(address, token, self._session.send, log if has_log else None)
        ).beside(position)
        self._session.pump = AnswerPump(self._session.callbacks, Inbox())

    def use_websocket(self, *, timeout: float | None = None) -> None:
        """Have notifications come by websockets from now on: to be chosen where a proxy cuts long polls.

        To be called before requests are made and events are waited for; what was begun before goes on by long polling.
        Events, answers, watches and recordings come as they do by long polling, in the same order and with the same
        word on what was lost: each reader has a websocket and its own position, so that it takes nothing from other
        programs with this key, and needs no channel of its own. A websocket that ends is made again, with growing
        pauses, and goes on behind what was read; nothing falls back to long polling by itself.

        Where the environment names a proxy, the websocket goes through it.

        Args:
            timeout: Seconds the call may take, instead of the client's.

        Raises:
            MirrorError: There is no websocket to be had: the service has none or does not answer, or the key is wrong.
            InvalidValue: There is a cassette in the client, or it sends over a transport of its own.

        Source: wire.md 4.

        >>> client.use_websocket()
        >>> client.status().channel
        'websocket'
        >>> client.use_long_polling()
        """
        if not self._session.sender.is_on_network:
            raise InvalidValue("a websocket goes over the network, past a cassette and past transport=; leave that out")
        deadline = self._session.sender.deadline(timeout)
        import_whole("mirror_sdk._service.socket_reader")
        from mirror_sdk._service.socket_messages import Way
        from mirror_sdk._service.socket_reader import SocketReader
        from mirror_sdk._service.sockets import Sockets

        way = Way(self._session.sender.base_url, self._session.sender.api_key)
        sockets = Sockets(way, self._session.sender.contact, self._session.sender.timeout_seconds)
        reader = SocketReader(self._session.send, sockets)
        try:
            reader.open(deadline)
        except BaseException:
            sockets.close()
            raise
        self._session.close_sockets()
        self._session.callbacks = None
        self._session.sockets = sockets
        self._session.pump = self._session.new_pump(reader)

    def use_long_polling(self, *, timeout: float | None = None) -> None:
        """Remove the webhook of this application, or close its websockets, and read by long polling, as at first.

        Source: specification E4; wire.md 4.

        >>> client.use_long_polling()
        """
        self._session.send(_operations.delete_callback(), timeout)
        self._session.close_sockets()
        self._session.callbacks = None
        self._session.pump = AnswerPump(LogReader(self._session.send), Inbox())

    def delete_poll_channel(self, *, timeout: float | None = None) -> None:
        """End the long-polling channel of this application and every poll that is open. Source: wire.md 4.

        >>> client.delete_poll_channel()
        """
        self._session.send(_operations.delete_poll_channel(), timeout)

    def _wants_of(self, paths: Collection[str] | None, devices: DevicesLike) -> Callable[[Event], bool]:
        return event_filter(paths, frozenset(self._session.ids_of(devices)))

    def _plan_of(
        self,
        wants: Sequence[Want],
        reasons: Mapping[str, str] | None = None,
        timeout: float | None = None,
        *,
        read_first: bool = False,
    ) -> Plan:
        from mirror_sdk.plan import Plan
        from mirror_sdk.plan.checks import check_all, places_to_read

        known, new_id = self._known_of(wants, timeout), self._session.sender.moments.new_async_id
        planned = check_all(wants, known, reasons or {}, new_id=new_id)
        if read_first and (places := places_to_read(planned, known)):
            unread = self._read_each(places, timeout)
            known |= self._known_of([want for want in wants if (want.device_id, want.path) in places], timeout)
            planned = check_all(wants, known, reasons or {}, unread, new_id=new_id)
        return Plan(planned, server=self.base_url, write=self.begin_write, see=self._see, make_plan=self._plan_of)

    def _see(self, want: Want) -> Seen:
        """What the mirror has now where something was written."""
        from mirror_sdk.plan.checks import resources_at

        return self._session.read_device(want.device_id, partial(resources_at, {want.path}))

    def _known_of(self, wants: Sequence[Want], timeout: float | None) -> dict[str, KnownDevice]:
        """The devices that are to be written to, as the directory and the mirror know them."""
        from mirror_sdk.plan.checks import known_devices, resources_at
        from mirror_sdk.plan.wanted import device_chunks

        known: dict[str, KnownDevice] = {}
        paths = {want.path for want in wants}
        for chunk in list(device_chunks(wants)):
            listed = self.devices.list(filters={"id__in": chunk}, timeout=timeout)
            take = partial(self._session.read_device, take=partial(resources_at, paths), timeout=timeout)
            seen = ask_each(take, listed.ids)
            known |= known_devices(listed, seen)
        return known

    def _read_each(self, places: Sequence[Place], timeout: float | None) -> Mapping[Place, str]:
        """Have devices report, some at a time; gives why some did not."""
        import_whole("mirror_sdk.plan.reading")
        from mirror_sdk.plan.reading import LOOK_SECONDS, READ_EXPIRY_SECONDS, Reads

        reads: Reads[DeviceRequest] = Reads(places, timeout)
        with progress_bar(len(places), "reads") as bar:
            while reads.is_open:
                for place in reads.next_places():
                    try:
                        asked = self.begin_read(*place, expiry_seconds=READ_EXPIRY_SECONDS, timeout=timeout)
                        reads.began(place, asked)
                    except MirrorError as error:
                        reads.not_taken(place, error)
                if (first := reads.first) is not None:
                    wait_for_answer(first, LOOK_SECONDS)
                bar.update(reads.sweep())
        return reads.failures

    def _write_again(
        self,
        pump: Callable[[], AnswerPump],
        device_id: str,
        path: str,
        value: object,
        *,
        content_type: str | None,
        expiry_seconds: int | None,
        async_id: str | None,
        if_match: int | None,
    ) -> DeviceRequest:
        """Send a write like ``begin_write``, where it may have been sent before and its answer may be here already."""
        payload, content_type = encode(value, path, content_type)
        return self._session.place(
            "PUT",
            device_id,
            path,
            expiry_seconds=expiry_seconds,
            async_id=async_id,
            payload=payload,
            content_type=content_type,
            if_match=if_match,
            pump=pump(),
        )
