"""A LwM2M device: it registers with a server, responds to its requests, and sends notifications of changes."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from mirror_sdk.values import PythonValue
from mirror_sdk.wire.paths import parse_path
from mirror_server.clock import Clock, SystemClock, Timer
from mirror_server.core.timestamps import Instant
from mirror_server.extensions.lwm2m.coap.limits import Tuning
from mirror_server.extensions.lwm2m.device.coap_socket import (
    DEVICE_TUNING,
    CoapSocket,
    Incoming,
    PreSharedKey,
    ServerAddress,
)
from mirror_server.extensions.lwm2m.device.resources import (
    CONTENT_TYPES,
    FORMATS_OF_VERSION,
    JSON_RECORDS,
    LINKS,
    OCTETS,
    TEXT,
    TLV,
    DeviceObservation,
    DeviceObservations,
    DeviceResource,
    NotAcceptable,
    changed_attributes,
    decode_values,
    encode_values,
    write_links,
)
from mirror_server.extensions.lwm2m.links import is_opaque, is_within
from mirror_server.extensions.lwm2m.registration_parameters import Version
from mirror_server.extensions.lwm2m.transport_api import NoResponse, Observed, Request, Response, Unreachable

_CHANGED, _CONTENT = "2.04", "2.05"
_BAD_REQUEST, _NOT_FOUND, _METHOD_NOT_ALLOWED = "4.00", "4.04", "4.05"
_NOT_ACCEPTABLE, _UNSUPPORTED = "4.06", "4.15"
_REMEMBERED_REQUESTS = 1000
_CURES = {
    "4.00": "a parameter of the registration is not valid, or this name is not allowed",
    "4.01": "this device is not allowed to register: check name, identity and key",
    "4.03": "this device is not allowed to register: check name, identity and key",
    "4.04": "the server has no such registration, or is not a LwM2M server",
    "4.05": "this is not a LwM2M server: check its address",
    "4.12": "this version of LwM2M is not supported: try another one",
    "4.13": "the device has too many resources for this server",
    "4.29": "too many registrations from this address: try again later",
    "5.03": "no device can register at the moment: try again later",
}


class RegistrationRejected(Exception):
    """The server rejected the registration or its update. ``code`` is the code of the response, such as ``4.03``."""

    def __init__(self, code: str, detail: str = "") -> None:
        cure = _CURES.get(code, "the log of the server may have the reason")
        super().__init__(f"the server rejected the registration with {code}{f' ({detail})' if detail else ''}: {cure}")
        self.code = code


@dataclass(slots=True)
class Behavior:
    """The behavior of a device, also misbehavior. It can be changed at any time.

    Attributes:
        responds: Whether the device responds to requests.
        respond_after: If set, responses wait for this event. An empty acknowledgement is sent first.
        error_codes: Codes to respond with, by method and path: ``{("PUT", "/3311/0/5850"): "4.03"}``.
        formats: The supported content formats. A request for another one gets 4.06.
        notifies_confirmable: Whether notifications of observations are confirmable.
        notifies: Whether changes are sent.
    """

    responds: bool = True
    respond_after: asyncio.Event | None = None
    error_codes: dict[tuple[str, str], str] = field(default_factory=dict)
    formats: frozenset[int] = FORMATS_OF_VERSION["1.0"]
    notifies_confirmable: bool = False
    notifies: bool = True


class LwM2MDevice:
    """A LwM2M 1.0 or 1.1 device over CoAP, on the event loop of its caller.

    It responds to requests and sends notifications of changes. The caller sets values and updates the registration.

    Args:
        server: ``coap://HOST[:PORT]`` or ``coaps://HOST[:PORT]``.
        endpoint_name: Its name.
        resources: Its resources.
        endpoint_type: Its type (``et``).
        lifetime_seconds: The lifetime of its registration (``lt``).
        version: The LwM2M version (``lwm2m``). With ``1.1`` it also supports SenML.
        queue_mode: Whether it registers in queue mode.
        key: Its pre-shared key. Required for a ``coaps`` server, not allowed for others.
        links: Encodes the links of its resources.
        tuning: The retransmission parameters.
        clock: The clock of values and notification attributes.

    Attributes:
        behavior: Its behavior, which can be changed.
        observations: The observations of the server.
        requests: The last requests of the server.
        last_seen_at: The time of the last request, or of the response to a ping.
        is_asleep: Whether it is disconnected from the network until :meth:`wake`.
        registration_id: The id of its registration. Empty if it is not registered.
        session_lost: Called on the event loop with the reason when its DTLS session ends.

    Raises:
        ValueError: ``server`` or a path is not valid, or ``key`` does not fit the scheme of ``server``.

    Source: LwM2M core 6.2 to 6.4.
    """

    def __init__(
        self,
        server: str,
        endpoint_name: str,
        resources: Iterable[DeviceResource] = (),
        *,
        endpoint_type: str = "",
        lifetime_seconds: int = 86400,
        version: Version = "1.0",
        queue_mode: bool = False,
        key: PreSharedKey | None = None,
        links: Callable[[Iterable[DeviceResource]], str] = write_links,
        tuning: Tuning = DEVICE_TUNING,
        clock: Clock | None = None,
    ) -> None:
        self.server = ServerAddress.parse(server)
        if self.server.is_secure is (key is None):
            raise ValueError("coaps:// needs a pre-shared key" if key is None else "a key is for coaps:// only")
        self.endpoint_name = endpoint_name
        self.endpoint_type = endpoint_type
        self.lifetime_seconds = lifetime_seconds
        self.version = version
        self.queue_mode = queue_mode
        self._links = links
        self.behavior = Behavior(formats=FORMATS_OF_VERSION[version])
        self.observations = DeviceObservations()
        self.requests: deque[Request] = deque(maxlen=_REMEMBERED_REQUESTS)
        self.last_seen_at: Instant = 0
        self.registration_id = ""
        self.session_lost: Callable[[str], object] = lambda _reason: None
        self._key = key
        self._tuning = tuning
        self._own_clock = SystemClock() if clock is None else None
        self._clock: Clock = clock or self._own_clock  # type: ignore[assignment]
        self._resources: dict[str, DeviceResource] = {}
        self._auto_sent: dict[str, PythonValue | None] = {}
        self._socket: CoapSocket | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: Timer | None = None
        self.is_asleep = False
        for resource in resources:
            self.add(resource)

    def add(self, resource: DeviceResource) -> None:
        """Add a resource. The next registration, or update with links, announces it.

        Raises:
            ValueError: The path is not a resource path.
        """
        *_, resource_id, resource_instance_id = parse_path(resource.path)
        if resource_id is None or resource_instance_id is not None:
            raise ValueError(f"{resource.path!r} is not the path of a resource, such as /3303/0/5700")
        self._resources[resource.path] = resource

    def remove(self, path: str) -> None:
        """Remove a resource."""
        del self._resources[path]

    def resource(self, path: str) -> DeviceResource:
        """Return a resource.

        Raises:
            KeyError: There is none at this path.
        """
        return self._resources[path]

    def value(self, path: str) -> PythonValue | None:
        """Return the value of a resource."""
        return self._resources[path].value

    @property
    def port(self) -> int:
        """The local port. It changes when the device reconnects."""
        return self._open_socket().port

    @property
    def lost_datagrams(self) -> int:
        """The number of datagrams dropped while it was asleep or cut off."""
        return self._open_socket().lost

    @property
    def is_registered(self) -> bool:
        """Whether the device has a registration, as far as it knows. The server may have ended the registration."""
        return bool(self.registration_id)

    @property
    def is_connected(self) -> bool:
        """Whether it has a socket and, with DTLS, a session. If not, the next registration or update opens them."""
        return self._socket is not None

    async def register(self) -> None:
        """Send a full registration, which ends all observations.

        Raises:
            RegistrationRejected: The server rejected it.
            NoResponse: The server did not respond.
            Unreachable: Nothing can be sent to the server.
            ImportError: DTLSSocket is not installed.
        """
        await self._connect()
        links = self._links(self._resources.values())
        request = Request("POST", "/rd", self._registration_query(), links.encode(), content_format=LINKS)
        response = await self._request(request)
        # Some servers send the location in one option, others one option per segment.
        _, _, self.registration_id = "/".join(response.location).partition("/")
        if not self.registration_id:
            raise RegistrationRejected(response.code, "without a location such as /rd/5a3f")
        self.observations.clear()
        for resource in self._auto_observed():
            self._auto_sent.setdefault(resource.path, resource.value)
        self.report()

    def _registration_query(self) -> tuple[str, ...]:
        query = [f"ep={self.endpoint_name}", f"lt={self.lifetime_seconds}", f"lwm2m={self.version}"]
        if self.version == "1.0":
            query.append(f"b={'UQ' if self.queue_mode else 'U'}")
        else:
            query += ["b=U", *(["Q"] if self.queue_mode else [])]
        if self.endpoint_type:
            query.append(f"et={self.endpoint_type}")
        return tuple(query)

    async def update(
        self, *, lifetime_seconds: int | None = None, with_links: bool = False, binding: str | None = None
    ) -> None:
        """Update the registration.

        Args:
            lifetime_seconds: The new lifetime.
            with_links: Also send the links, because they changed.
            binding: The new binding (``b``).

        Raises:
            RegistrationRejected: The server rejected the update. With 4.04 it does not know the registration, and the
                device has to register again.
            NoResponse: The server did not respond.
            Unreachable: Nothing can be sent to the server.
        """
        query = []
        if lifetime_seconds is not None:
            self.lifetime_seconds = lifetime_seconds
            query.append(f"lt={lifetime_seconds}")
        if binding is not None:
            query.append(f"b={binding}")
        links = self._links(self._resources.values()).encode() if with_links else b""
        path = f"/rd/{self.registration_id}"
        await self._connect()
        await self._request(Request("POST", path, tuple(query), links, content_format=LINKS if with_links else None))
        self.report()

    async def deregister(self) -> None:
        """End the registration.

        Raises:
            RegistrationRejected: The server does not know it.
            NoResponse: The server did not respond.
            Unreachable: Nothing can be sent to the server.
        """
        path, self.registration_id = f"/rd/{self.registration_id}", ""
        self.observations.clear()
        await self._request(Request("DELETE", path))

    async def _request(self, request: Request) -> Response:
        try:
            response = await self._open_socket().request(request)
        except (NoResponse, Unreachable):
            if self._key is not None:
                # A restarted server does not know the session.
                self._close_socket()
            raise
        if not response.is_success:
            if response.code == _NOT_FOUND:
                self.registration_id = ""
            raise RegistrationRejected(response.code, response.payload.decode(errors="replace"))
        return response

    async def send(self, *paths: str, content_format: int = JSON_RECORDS) -> Response:
        """Send values with their times (LwM2M 1.1 Send). Source: LwM2M core 6.4.6.

        Raises:
            NoResponse: The server did not respond.
            Unreachable: Nothing can be sent to the server.
        """
        values = self._values(paths)
        at = {path: self._resources[path].changed_at for path in values}
        payload = encode_values(values, "/", content_format, at)
        return await self._open_socket().request(Request("POST", "/dp", (), payload, content_format=content_format))

    def _values(self, paths: Iterable[str]) -> dict[str, PythonValue]:
        found = ((path, self._resources[path].value) for path in paths)
        return {path: value for path, value in found if value is not None}

    async def ping(self) -> bool:
        """Ping the server. If it does not respond, the next message opens another session.

        Raises:
            Unreachable: The device is not connected.
        """
        has_responded = await self._open_socket().ping()
        if has_responded:
            self.last_seen_at = self._clock.now()
        else:
            self._lose_session("no response from the server")
        return has_responded

    def set_value(self, path: str, value: PythonValue) -> None:
        """Set the value of a resource, and notify its observers.

        Raises:
            KeyError: The device has no such resource.
            InvalidValue: The value is not of the declared type.
        """
        self._resources[path].set(value, self._clock.now())
        self.report(path)

    def sleep(self) -> None:
        """Disconnect from the network. Messages to it are lost, and changes are sent after it wakes up."""
        self.is_asleep = True
        self._mute(muted=True)

    async def wake(self, *, from_new_port: bool = False, registers: bool = False) -> None:
        """Reconnect to the network, with a registration update or a full registration.

        Args:
            from_new_port: Use another port, as after a change of a NAT mapping, and another DTLS session.
            registers: Send a full registration, which ends all observations.

        Raises:
            RegistrationRejected: The server rejected the update or the registration.
            NoResponse: The server did not respond.
            Unreachable: Nothing can be sent to the server.
        """
        self.is_asleep = False
        if from_new_port:
            self._close_socket()
        else:
            self._mute(muted=False)
        await (self.register() if registers else self.update())

    def cut_off(self) -> None:
        """Disconnect from the network: all messages in both directions are lost."""
        self._mute(muted=True)

    def restore(self) -> None:
        """Reconnect to the network, without a message to the server."""
        self._mute(muted=False)

    def _mute(self, *, muted: bool) -> None:
        if self._socket is not None:
            self._socket.is_muted = muted

    async def restart(self, *, keeps_registration: bool = False) -> None:
        """Restart as after a power failure: with another port, other message ids, and no observations.

        Args:
            keeps_registration: Only update the registration, because the device stored its id.

        Raises:
            RegistrationRejected: The server rejected the update or the registration.
            NoResponse: The server did not respond.
            Unreachable: Nothing can be sent to the server.
        """
        self._close_socket()
        self.observations = DeviceObservations()
        await (self.update() if keeps_registration else self.register())

    async def close(self) -> None:
        """Close the socket, without :meth:`deregister`."""
        self._cancel_timer()
        self._close_socket()
        if self._own_clock is not None:
            self._own_clock.close()
        # The loop closes the socket and cancels running responses in its next turn.
        await asyncio.sleep(0)

    async def _connect(self) -> None:
        if self._socket is None:
            self._loop = asyncio.get_running_loop()
            self._socket = await CoapSocket.open(self.server, self, key=self._key, tuning=self._tuning)

    def _open_socket(self) -> CoapSocket:
        if self._socket is None:
            raise Unreachable("the device is not connected; it has to register first")
        return self._socket

    def _close_socket(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    # Requests of the server

    async def handle(self, incoming: Incoming) -> Observed | None:
        """Return the response to a request of the server."""
        self.requests.append(incoming.request)
        self.last_seen_at = self._clock.now()
        if not self.behavior.responds:
            return None
        if self.behavior.respond_after is not None:
            await self.behavior.respond_after.wait()
        request = incoming.request
        error_response = self.behavior.error_codes.get((request.method, request.path))
        if error_response is not None:
            return Observed(Response(error_response))
        return self._respond(incoming)

    def observation_cancelled(self, token: bytes) -> None:
        """End the observation with this token."""
        self.observations.end(token)

    def notification_undelivered(self, token: bytes) -> None:
        """End the observation with this token. If its resource is auto-observed, send the value again."""
        self.observations.end(token)
        for resource in self._auto_observed():
            if _token(resource) == token:
                self._auto_sent[resource.path] = None

    def session_ended(self) -> None:
        """Close the socket. The next registration or update opens a new session."""
        self._lose_session("the DTLS session ended")

    def _lose_session(self, reason: str) -> None:
        if self._socket is not None:
            self._close_socket()
            self.session_lost(reason)

    def _respond(self, incoming: Incoming) -> Observed:
        request = incoming.request
        within = [each for path, each in self._resources.items() if is_within(path, request.path)]
        if not within:
            return Observed(Response(_NOT_FOUND))
        if request.method == "GET":
            return self._respond_to_get(incoming, within)
        if request.method == "DELETE":
            return Observed(Response(_METHOD_NOT_ALLOWED))
        return Observed(Response(self._change(request)))

    def _respond_to_get(self, incoming: Incoming, within: list[DeviceResource]) -> Observed:
        request = incoming.request
        if request.accept == LINKS:
            return Observed(Response(_CONTENT, self._discover(request.path, within).encode(), LINKS))
        if incoming.observe == 1:
            self.observations.end(incoming.token)
        response = self._read(request, within)
        if incoming.observe != 0 or not response.is_success or response.content_format is None:
            return Observed(response)
        if any(each.auto_observed_token is not None for each in within):
            return Observed(Response(_BAD_REQUEST))
        now = self._clock.now()
        self.observations.start(
            DeviceObservation(request.path, incoming.token, response.content_format, response.payload, now)
        )
        self._schedule()
        return Observed(response, self.observations.next_sequence())

    def _discover(self, path: str, within: list[DeviceResource]) -> str:
        """Return the links below a path, each with its own attributes. Source: LwM2M core 6.3.2."""
        paths = dict.fromkeys([path, *(each.path for each in sorted(within, key=lambda one: parse_path(one.path)))])
        own = self.observations.own_attributes
        return ",".join(f"<{path}>{''.join(f';{name}={value}' for name, value in own(path).items())}" for path in paths)

    def _read(self, request: Request, within: list[DeviceResource]) -> Response:
        values = self._values(each.path for each in within)
        if not values:
            is_executable = any(each.is_executable for each in within)
            return Response(_METHOD_NOT_ALLOWED if is_executable else _NOT_FOUND)
        content_format = self._usual_format(request.path) if request.accept is None else request.accept
        payload = self._encode(request.path, values, content_format)
        return Response(_NOT_ACCEPTABLE) if payload is None else Response(_CONTENT, payload, content_format)

    def _usual_format(self, path: str) -> int:
        """Return the content format of a response if the request has none."""
        if path not in self._resources or TEXT not in self.behavior.formats:
            return TLV
        return OCTETS if is_opaque(path) else TEXT

    def _encode(self, path: str, values: Mapping[str, PythonValue], content_format: int) -> bytes | None:
        if content_format not in self.behavior.formats:
            return None
        try:
            return encode_values(values, path, content_format)
        except NotAcceptable:
            return None

    def _change(self, request: Request) -> str:
        """Handle a write, an execute, or Write-Attributes. Return the code of the response."""
        if request.method == "PUT" and request.content_format is None and not request.payload:
            return self._write_attributes(request)
        target = self._resources.get(request.path)
        if request.method == "PUT" or target is None:
            return self._write(request)
        if target.on_execute is None:
            return _METHOD_NOT_ALLOWED
        target.on_execute(request.payload)
        return _CHANGED

    def _write_attributes(self, request: Request) -> str:
        # Also without a query: some stacks treat any PUT without a content format as Write-Attributes.
        try:
            attributes = self.observations.own_attributes(request.path)
            changed = changed_attributes(attributes, request.query) if request.query else attributes
        except ValueError:
            return _BAD_REQUEST
        self.observations.set_attributes(request.path, changed)
        self.report()
        return _CHANGED

    def _write(self, request: Request) -> str:
        content_format = TEXT if request.content_format is None else request.content_format
        if content_format not in self.behavior.formats & set(CONTENT_TYPES):
            return _UNSUPPORTED
        try:
            values = decode_values(request.payload, request.path, content_format)
        except ValueError:
            return _BAD_REQUEST
        error_response = next((code for path, value in values.items() if (code := self._api_error(path, value))), None)
        if error_response is not None:
            return error_response
        for path, value in values.items():
            resource = self._resources[path]
            resource.set(value, self._clock.now())
            if resource.on_write is not None:
                resource.on_write(value)
            self.report(path)
        return _CHANGED if values else _BAD_REQUEST

    def _api_error(self, path: str, value: PythonValue) -> str | None:
        resource = self._resources.get(path)
        if resource is None:
            return _NOT_FOUND
        if not resource.writable:
            return _METHOD_NOT_ALLOWED
        return None if resource.can_be_set_to(value) else _BAD_REQUEST

    # Notifications

    def report(self, path: str | None = None) -> None:
        """Send notifications of changes if the attributes allow them now.

        Changes while the device sleeps are sent after it has woken up.

        Args:
            path: The changed resource, or ``None`` for all resources.
        """
        if self.is_asleep or self._socket is None or not self.behavior.notifies:
            return
        now = self._clock.now()
        for observation in self.observations.all() if path is None else self.observations.affected_by(path):
            self._report(observation, now)
        for resource in self._auto_observed() if path is None else [self._resources[path]]:
            self._report_auto_observed(resource)
        self._schedule()

    def _report(self, observation: DeviceObservation, now: Instant) -> None:
        payload = self._observed(observation)
        if payload is None or now < self.observations.earliest_at(observation):
            return
        latest_at = self.observations.latest_at(observation)
        if payload == observation.sent and (latest_at is None or now < latest_at):
            return
        observation.sent, observation.sent_at = payload, now
        self.notify(observation.token, payload, observation.content_format)

    def _report_auto_observed(self, resource: DeviceResource) -> None:
        token, value = _token(resource), resource.value
        if token is None or value is None or not self.is_registered or self._auto_sent.get(resource.path) == value:
            return
        content_format = self._usual_format(resource.path)
        payload = self._encode(resource.path, {resource.path: value}, content_format)
        if payload is not None:
            self._auto_sent[resource.path] = value
            self.notify(token, payload, content_format, is_confirmable=True)

    def _auto_observed(self) -> list[DeviceResource]:
        return [each for each in self._resources.values() if each.auto_observed_token is not None]

    def notify(
        self,
        token: bytes,
        payload: bytes,
        content_format: int | None = TEXT,
        *,
        sequence: int | None = None,
        is_confirmable: bool | None = None,
    ) -> None:
        """Send a notification, also without an observation. To notify observers, use :meth:`report`.

        Args:
            token: The token of an observation, or any other token.
            payload: The payload.
            content_format: CoAP's number of its format.
            sequence: The Observe option. By default the next number of this device.
            is_confirmable: Whether it needs an acknowledgement. By default as in :class:`Behavior`.
        """
        if is_confirmable is None:
            is_confirmable = self.behavior.notifies_confirmable
        if sequence is None:
            sequence = self.observations.next_sequence()
        response = Response(_CONTENT, payload, content_format)
        self._open_socket().notify(token, response, sequence, is_confirmable=is_confirmable)

    # Scheduled notifications

    def _schedule(self) -> None:
        due_at = min((at for each in self.observations.all() if (at := self._due_at(each)) is not None), default=None)
        # An early timer schedules another one. Replacing it by a later one would fill the clock with cancelled timers.
        if due_at is not None and (self._timer is None or due_at < self._timer.due_at):
            self._cancel_timer()
            self._timer = self._clock.call_at(due_at, self._call_loop)

    def _due_at(self, observation: DeviceObservation) -> Instant | None:
        now = self._clock.now()
        earliest_at, latest_at = self.observations.earliest_at(observation), self.observations.latest_at(observation)
        if earliest_at > now and self._observed(observation) != observation.sent:
            return earliest_at
        # A notification that is overdue waits for the next contact.
        return None if latest_at is None or latest_at <= now else latest_at

    def _observed(self, observation: DeviceObservation) -> bytes | None:
        values = self._values(each for each in self._resources if is_within(each, observation.path))
        return self._encode(observation.path, values, observation.content_format)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _call_loop(self) -> None:
        # The clock may call this on another thread.
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._report_due)

    def _report_due(self) -> None:
        self._timer = None
        self.report()
        self._schedule()


def _token(resource: DeviceResource) -> bytes | None:
    number = resource.auto_observed_token
    return None if number is None else number.to_bytes(2, "big")
