# Made from _async_client.py by .ci/make_sync_twins.py: a change belongs there, not here.
"""The synchronous client."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn, Self
from weakref import ref

from mirror_sdk._fork import cannot_be_sent, import_locked, unlocked_property
from mirror_sdk._members import WithMembers, with_own_qualnames
from mirror_sdk._methods.device_methods import DeviceMethods
from mirror_sdk._methods.event_methods import EventMethods
from mirror_sdk._methods.table_methods import TableMethods
from mirror_sdk._protocol import operations as _operations
from mirror_sdk._protocol.defaults import DEFAULT_MAX_RETRIES, DEFAULT_MAX_SNAPSHOT_BYTES, DEFAULT_TIMEOUT_SECONDS
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


@with_own_qualnames
class MirrorClient(DeviceMethods, EventMethods, TableMethods, WithMembers):
    """A client of a device state mirror. Any number of threads may use one client at once.

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

    A forked process may use the client too: it opens connections of its own, and both processes get the responses to
    their requests. Watches and recorders stay with the parent. Closing the client in one process leaves it open in the
    other.

    Every method may raise :class:`ConnectionFailed`, :class:`UnexpectedResponse` and these kinds of :class:`APIError`:
    :class:`AuthenticationError`, :class:`AccessDenied` and :class:`ServerError`. Each method lists its other errors. An
    invalid device id or path raises ``ValueError``, and one that is not a ``str`` raises ``TypeError``; nothing is
    sent. After :meth:`close` every call that would send a request raises :class:`ClientClosed`.

    ``timeout`` is the time for a whole call in seconds: all attempts, the pauses between them, every page and all of
    each response. Each method that sends requests has this argument, which replaces the client's. A call that takes
    longer raises :class:`CallTimeout`. Two kinds of methods are different:

    - Calls about a whole fleet may take long: :meth:`state_frame`, ``client.fleet.snapshot()``,
      ``client.fleet.dataset()``, ``client.fleet.refresh()`` and :meth:`plan` have no limit unless you pass one. Without
      it the client's limit applies to each request, and in a snapshot to each 64 KiB. A plan's ``apply()``, a watch and
      a recorder run as long as necessary; the client's limit applies to each of their requests.
    - In calls that wait for a device or an event, ``timeout`` is the time to wait, and the call takes at most two
      seconds more: :meth:`read_value`, :meth:`write_value`, :meth:`execute`, :meth:`events`,
      ``client.notifications.events_frame()`` and the ``result()`` of a request. The time for which the service holds a
      poll is added to the client's limit. An outage of the service does not count as waiting for events; see
      ``outage_timeout`` of :meth:`events`.

    With a ``transport`` of your own the time is checked between the chunks of a response.

    A method that takes a device accepts a :data:`~mirror_sdk.DeviceLike`: its id, its endpoint name, a :class:`Device`,
    a :class:`DeviceObject`, or a request to it. A method that takes several accepts a list of these, in any mixture, or
    a table with a column ``device_id``, such as ``snapshot.query(...)``. Each device of a table counts once, and a
    table without rows issues an :class:`EmptyTableWarning`.

    A text of 32 hexadecimal digits is an id and needs no request. Any other text is looked up in the directory, all
    names of a list together. An id takes precedence over a name, and of several devices with the same name the
    registered one is used. Calls that only read the mirror cache the result for half a minute. Calls that send a
    request to a device or subscribe look up the name every time, so that a write never reaches the device that had the
    name before. A text that names no device raises :class:`UnknownDevice`, a :class:`NotFound` that lists similar
    names. One that names several raises :class:`AmbiguousName`, which lists their ids.

    In the examples ``light`` and ``station`` are devices, ``simulator`` is a :class:`Simulator` and ``folder`` a
    ``Path``.

    Args:
        base_url: Address of the service. Without a scheme it is https, and http for a loopback address.
        api_key: Access key of the application.
        timeout: Seconds that a call may take, unless it has its own; see above.
        transport: Sends the requests instead of the network, such as ``httpx.WSGITransport(app)``.
        max_snapshot_bytes: Maximum size of a snapshot after decompression, in bytes. A larger one raises an error.
        max_retries: How often a request is repeated after a lost connection, 429, 502, 503 or 504, if repeating it is
            safe; 0 means one attempt. A device request is safe to repeat because of its async-id. The pauses grow and
            are partly random, or as long as ``Retry-After`` says, if there is time for that.

    Raises:
        ConfigError: The address, the key, the time-out or the limit is invalid.
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
        """Store what all methods share. A client for tests passes a session of its own."""
        self._session = session
        session.client = ref(self)  # a weak one: the client ends when it is no longer used
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
        """Return a client with missing arguments taken from the environment: ``API_HOST`` and ``API_KEY``.

        The default address is that of a local ``mirror-server demo`` or ``run``: ``http://127.0.0.1:8080``.

        Raises:
            ConfigError: There is no key, or a value is invalid.

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
        """Return a client that uses a cassette until it is closed; see ``client.cassettes.use()``.

        When it replays, the client needs no service, no address and no key, so that you can ship a notebook with its
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
            max_retries: How often a request is repeated.

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
            raise ConfigError(f"there is no cassette {path} to replay; to record one, {error}") from error
        made._session.cassette = made.cassettes.use(path, mode=mode)
        made._session.cassette.insert(made._session.cassette.open())
        return made

    def close(self) -> None:
        """Stop all watches and recorders and close the connections. The client cannot be used after this.

        Raises:
            Exception: The reason why a recording ended by itself, if it was not raised before.
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
        raise cannot_be_sent(self)

    def get_device(self, device_id: DeviceLike, *, timeout: float | None = None) -> DeviceObject:
        """Return the device object: reported and desired values of every resource, with their times.

        ``client.devices.get()`` returns its entry in the directory instead: names, type, state and attributes.

        Raises:
            NotFound: The device does not exist.

        Source: specification E1; wire.md 1.

        >>> client.get_device("station-01")["/3303/0/5700"].label
        'Temperature · Sensor Value'
        """
        found = self._session.send_for(device_id, _operations.get_device_object, timeout=timeout)
        return DeviceObject.from_wire(found, self)

    @unlocked_property
    def devices(self) -> Devices:
        """The devices of the directory."""
        import_locked("mirror_sdk.resources.devices")
        from mirror_sdk.resources.devices import Devices

        return Devices(self._session)

    @unlocked_property
    def requests(self) -> Requests:
        """The device requests of this application."""
        import_locked("mirror_sdk.resources.requests")
        from mirror_sdk.resources.requests import Requests

        return Requests(self._session)

    @unlocked_property
    def subscriptions(self) -> Subscriptions:
        """The subscriptions of this application, and its presubscription rules."""
        import_locked("mirror_sdk.resources.subscriptions")
        from mirror_sdk.resources.subscriptions import Subscriptions

        return Subscriptions(self._session)

    @unlocked_property
    def notifications(self) -> Notifications:
        """The notification channel, and what it received."""
        import_locked("mirror_sdk.resources.notifications")
        from mirror_sdk.resources.notifications import Notifications

        return Notifications(self._session)

    @unlocked_property
    def fleet(self) -> Fleet:
        """Tables of a whole fleet at one instant."""
        import_locked("mirror_sdk.resources.fleet")
        from mirror_sdk.resources.fleet import Fleet

        return Fleet(self._session)

    @unlocked_property
    def plans(self) -> Plans:
        """Saved plans."""
        import_locked("mirror_sdk.resources.plans")
        from mirror_sdk.resources.plans import Plans

        return Plans(self._session)

    @unlocked_property
    def cassettes(self) -> Cassettes:
        """Cassettes, which record the responses of a service and replay them."""
        import_locked("mirror_sdk.resources.cassettes")
        from mirror_sdk.resources.cassettes import Cassettes

        return Cassettes(self._session)

    @unlocked_property
    def service(self) -> MirrorService:
        """The service itself: whether it is healthy, and its page."""
        import_locked("mirror_sdk.resources.service")
        from mirror_sdk.resources.service import MirrorService

        return MirrorService(self._session)
