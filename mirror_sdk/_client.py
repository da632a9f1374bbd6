# Made from _async_client.py by .ci/make_sync_twins.py: a change belongs there, not here.
"""The synchronous client: it sends operations and waits for answers, and knows nothing else of the interface."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NoReturn, Self

from mirror_sdk._fork import cannot_be_sent, import_whole
from mirror_sdk._methods.device_methods import DeviceMethods
from mirror_sdk._methods.event_methods import EventMethods
from mirror_sdk._methods.table_methods import TableMethods
from mirror_sdk._service import operations as _operations
from mirror_sdk._service.defaults import DEFAULT_MAX_RETRIES, DEFAULT_MAX_SNAPSHOT_BYTES, DEFAULT_TIMEOUT_SECONDS
from mirror_sdk._session.client_session import ClientSession
from mirror_sdk._session.table_reader import TableReader
from mirror_sdk.config import ClientSettings
from mirror_sdk.device import DeviceObject
from mirror_sdk.errors import ConfigError
from mirror_sdk.naming import DeviceLike

if TYPE_CHECKING:
    from os import PathLike

    import httpx

    from mirror_sdk.cassette import Mode
    from mirror_sdk.resources.cassettes import Cassettes
    from mirror_sdk.resources.devices import Devices
    from mirror_sdk.resources.fleet import Fleet
    from mirror_sdk.resources.notifications import Notifications
    from mirror_sdk.resources.plans import Plans
    from mirror_sdk.resources.requests import Requests
    from mirror_sdk.resources.service import MirrorService
    from mirror_sdk.resources.subscriptions import Subscriptions


class MirrorClient(DeviceMethods, EventMethods, TableMethods):
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

    - What is asked of a whole fleet may rightly take long: :meth:`state_frame`, ``client.fleet.snapshot()``,
      ``client.fleet.dataset()``, ``client.fleet.refresh()`` and :meth:`plan` have only the limit they are given.
      Without one, the client's is for each request, and of a snapshot for each 64 KiB. A plan's ``apply()``, a watch
      and a recorder go on as long as they have to; each of their requests has the client's.
    - Where a device or an event is waited for, ``timeout`` is that wait, and two seconds more at most:
      :meth:`read_value`, :meth:`write_value`, :meth:`execute`, :meth:`events`, ``client.notifications.events_frame()``
      and the ``result()`` of a request. A poll is held by the service for a while, which comes on top of the client's.
      An outage of the service does not count as a wait for events; see ``outage_timeout`` of :meth:`events`.

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
            ClientSettings.of(base_url, api_key),
            timeout_seconds=timeout,
            max_retries=max_retries,
            max_snapshot_bytes=max_snapshot_bytes,
            transport=transport,
        )
        self._hold(session)

    def _hold(self, session: ClientSession) -> None:
        """Take what all methods share. A client for tests passes a session of its own."""
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
        """A client with a cassette in it until it is closed; see ``client.cassettes.use()``.

        Played, it needs no service, no address and no key, so that a notebook can be shipped with its cassette and run
        anywhere. Recorded, it is the client of :meth:`from_env`, and the file is there when it is closed.

        Args:
            path: The cassette.
            mode: As for ``client.cassettes.use()``.
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

        >>> with client.cassettes.use(folder / "lights.zip"):
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
        made._session.cassette = made.cassettes.use(path, mode=mode)
        made._session.cassette.insert(made._session.cassette.open())
        return made

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

    @cached_property
    def devices(self) -> Devices:
        """The devices of the directory."""
        import_whole("mirror_sdk.resources.devices")
        from mirror_sdk.resources.devices import Devices

        return Devices(self._session)

    @cached_property
    def requests(self) -> Requests:
        """The device requests of this application."""
        import_whole("mirror_sdk.resources.requests")
        from mirror_sdk.resources.requests import Requests

        return Requests(self._session)

    @cached_property
    def subscriptions(self) -> Subscriptions:
        """The subscriptions of this application, and its presubscription rules."""
        import_whole("mirror_sdk.resources.subscriptions")
        from mirror_sdk.resources.subscriptions import Subscriptions

        return Subscriptions(self._session)

    @cached_property
    def notifications(self) -> Notifications:
        """The channel by which notifications come, and what came."""
        import_whole("mirror_sdk.resources.notifications")
        from mirror_sdk.resources.notifications import Notifications

        return Notifications(self._session)

    @cached_property
    def fleet(self) -> Fleet:
        """Tables of a whole fleet at one instant."""
        import_whole("mirror_sdk.resources.fleet")
        from mirror_sdk.resources.fleet import Fleet

        return Fleet(self._session)

    @cached_property
    def plans(self) -> Plans:
        """Saved plans."""
        import_whole("mirror_sdk.resources.plans")
        from mirror_sdk.resources.plans import Plans

        return Plans(self._session)

    @cached_property
    def cassettes(self) -> Cassettes:
        """Cassettes, which record what a service sends and play it again."""
        import_whole("mirror_sdk.resources.cassettes")
        from mirror_sdk.resources.cassettes import Cassettes

        return Cassettes(self._session)

    @cached_property
    def service(self) -> MirrorService:
        """The service itself: whether it is healthy, and its page."""
        import_whole("mirror_sdk.resources.service")
        from mirror_sdk.resources.service import MirrorService

        return MirrorService(self._session)
