"""The registered devices while this process listens: commands to them, and the messages that they send.

All of it is called on the event loop of :class:`~mirror_server.extensions.lwm2m.real_devices.RealDevices`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from mirror_server.clock import Clock
from mirror_server.core.instants import Instant
from mirror_server.devices.link import (
    CancelObservation,
    DeviceCommand,
    DeviceResponse,
    Execute,
    NotRegistered,
    Observation,
    Observe,
    Outcome,
)
from mirror_server.extensions.lwm2m import registrations
from mirror_server.extensions.lwm2m.device_session import DeviceSession
from mirror_server.extensions.lwm2m.links import BadLinks, Links, read_links
from mirror_server.extensions.lwm2m.payloads import EVERYTHING, BadPayload, ReportedPayload, contents
from mirror_server.extensions.lwm2m.registrar import LimitedWarnings, Registrar
from mirror_server.extensions.lwm2m.registry import ObservedResource, RegisteredDevice
from mirror_server.extensions.lwm2m.settings import LwM2MSettings
from mirror_server.extensions.lwm2m.transport_api import (
    NoResponse,
    ObserveNotification,
    Peer,
    Request,
    RequestRejected,
    Response,
    Unreachable,
)
from mirror_server.service.devices import DeviceService
from mirror_server.store import resources
from mirror_server.store.backend import NotLeader, StorageFailed
from mirror_server.store.database import Database

if TYPE_CHECKING:  # the sockets need an extra
    from mirror_server.extensions.lwm2m.coap.endpoint import CoapEndpoint

_log = logging.getLogger(__name__)

T = TypeVar("T")

_AFTER_RESPONSE_SECONDS = 0.05
"""The pause after the response to a registration: many devices accept no request before they have read it."""

_STORE_SECONDS = 60
"""The longest time to store a message of a device; then it gets the response to try again."""

_GROUP_SECONDS = 0.02
"""Values that come within this time are stored together: 2,000 a second take half the time."""

_DISCOVERING_AT_ONCE = 64
_SWEEP_SECONDS = 60
_STOP_SECONDS = 2
_SENML = frozenset({110, 112})
_NOT_IMPLEMENTED = "5.01"


class _GivenUp(Exception):
    """The request went to a former address of the device, which may have received it."""


@dataclass(slots=True, eq=False)
class _InFlightCommand:
    """A command in flight; ``is_sent`` as soon as a part of it may have been sent."""

    command: DeviceCommand
    task: asyncio.Task[None] = field(init=False)
    is_sent: bool = False


class RealFleet:
    """Handles messages of devices, and sends them commands.

    Args:
        events: The service.
        database: Stores the registrations.
        clock: Domain time.
        settings: The limits for devices.
    """

    def __init__(self, *, events: DeviceService, database: Database, clock: Clock, settings: LwM2MSettings) -> None:
        self.registrar = Registrar(events=events, database=database, clock=clock, settings=settings, greet=self._greet)
        self.counts = self.registrar.counts
        self.registry = self.registrar.registry
        self._events = events
        self._database = database
        self._clock = clock
        self._awake_seconds = settings.coap_awake_seconds
        self._device_session: DeviceSession | None = None
        self._deliveries: dict[str, _InFlightCommand] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._told: list[Observation] = []
        self._handed_over_at = 0.0
        self._valueless = LimitedWarnings(_log, clock, "notifications without a value")
        self._unreadable = LimitedWarnings(_log, clock, "answers that cannot be read")
        self._discovering = asyncio.Semaphore(_DISCOVERING_AT_ONCE)

    async def take_up(self) -> None:
        """Load the devices that were registered when the service stopped, or with another process."""
        for row in await asyncio.to_thread(self._database.query, registrations.load):
            self.registry.add(RegisteredDevice.from_store(row))

    def begin(self, endpoint: CoapEndpoint) -> None:
        """Send commands by this endpoint from now on."""
        self._device_session = DeviceSession(endpoint, self.registry, self._clock, self._note_unreadable)
        self._sweep()

    async def end(self) -> None:
        """Cancel all commands."""
        self._device_session = None
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_STOP_SECONDS)

    def is_reachable(self, device_id: str) -> bool:
        """Whether a device probably listens; may be called on any thread."""
        device = self.registry.by_id(device_id)
        if device is None or self._device_session is None:
            return False
        return device.is_awake(self._clock.now(), self._awake_seconds)

    def send(self, device_id: str, command: DeviceCommand, response: Callable[[DeviceResponse], None]) -> None:
        """Send a command to a device, after the response to the one in flight."""
        delivery = self._deliveries[device_id] = _InFlightCommand(command)
        delivery.task = self._spawn(self._deliver(device_id, delivery, response))

    def cancel(self, device_id: str, command: DeviceCommand, *, also_sent: bool) -> bool:
        """Do not send a command; ``also_sent``: stop to wait for the response to one that was sent, too.

        Returns:
            Whether it was sent, as far as is known; if not, it is not going to be, and no response is reported.
        """
        delivery = self._deliveries.get(device_id)
        if delivery is None or delivery.command is not command:
            return True
        if also_sent or not delivery.is_sent:
            delivery.task.cancel()
        return delivery.is_sent

    async def handle(self, peer: Peer, request: Request) -> Response:
        """See :class:`~mirror_server.extensions.lwm2m.transport_api.Handler`."""
        try:
            async with asyncio.timeout(_STORE_SECONDS):
                return await self._respond(peer, request)
        except RequestRejected as refused:
            return refused.response
        except (TimeoutError, NotLeader, StorageFailed):
            return Response("5.03", b"what was told cannot be stored now; try again later", 0, _STORE_SECONDS)

    def notified(self, notification: ObserveNotification) -> bool:
        """See :class:`~mirror_server.extensions.lwm2m.transport_api.Handler`."""
        observed = self.registry.observed_by(notification)
        now = self._clock.now()
        if observed is None or not observed.device.is_registered(now):
            self.counts.unknown_notifications += 1
            return False
        self.counts.notifications += 1
        device = observed.device
        if notification.peer is not device.peer and notification.peer != device.peer:
            # A router gave it another port.
            self.registrar.move(device, notification.peer)
            # The request in flight went to the former one.
            device.is_reachable = False
        self._session_events(device, now)
        if observed.held is None:
            self._take(observed, notification, now)
        else:
            observed.held.append(notification)
        return True

    def flooded(self, notification: ObserveNotification) -> None:
        """See :class:`~mirror_server.extensions.lwm2m.transport_api.Handler`."""
        observed = self.registry.observed_by(notification)
        if observed is not None and observed.is_asked:
            self._end_observation(observed, "was stopped: it sends more messages than one device may")

    def session_ended(self, peer: Peer) -> None:
        """See :class:`~mirror_server.extensions.lwm2m.transport_api.Handler`."""
        for device in self.registry.at(peer):
            device.is_reachable = False

    async def _respond(self, peer: Peer, request: Request) -> Response:
        match request.method, request.path.removeprefix("/").split("/"):
            case "POST", ["rd"]:
                return await self.registrar.register(peer, request)
            case "POST", ["rd", location] if location:
                return await self.registrar.update(peer, location, request)
            case "DELETE", ["rd", location] if location:
                return await self.registrar.deregister(peer, location)
            case "POST", ["dp"]:
                return await self._take_sent(peer, request)
            case "POST", ["bs"]:
                return self.registrar.reject_bootstrap(peer, request)
            case _, ["rd" | "dp" | "bs"] | ["rd", _] if request.path != "/rd/":
                raise RequestRejected("4.05", "this path does not take the method")
        raise RequestRejected("4.04", "there is no such path; register under /rd")

    async def _take_sent(self, peer: Peer, request: Request) -> Response:
        """Handle values that a device sends by itself; those of resources it does not have are ignored.

        Source: LwM2M core 1.1, 6.4.5.
        """
        device = await self._sender(peer)
        now = self._clock.now()
        if device is None:
            raise RequestRejected("4.04", "nothing is registered from here; register under /rd")
        if request.content_format not in _SENML:
            raise RequestRejected("4.15", "send SenML, as JSON (110) or CBOR (112)")
        try:
            told = contents(request.payload, request.content_format, EVERYTHING, now)
        except BadPayload as error:
            raise RequestRejected("4.00", str(error)) from None
        self.registrar.move(device, peer)
        self._session_events(device, now)
        look = partial(resources.announced, device_id=device.device_id)
        known = {each.path for each in await asyncio.to_thread(self._database.query, look)}
        taken = [each for each in told if each.path in known]
        if told and not taken:
            raise RequestRejected("4.04", "no resource of these is one that was registered")
        self._collect(device, taken, self._clock.now(), is_unsolicited=True)
        return Response("2.04")

    async def _sender(self, peer: Peer) -> RegisteredDevice | None:
        """Return the device of a peer; ``None`` if it is not registered, or may not register by that name any more."""
        device = self.registry.of_peer(peer)
        if device is None:
            return None
        try:
            await self.registrar.check_device(peer, device)
        except RequestRejected:
            return None
        is_current = self.registry.by_id(device.device_id) is device
        return device if is_current and device.is_registered(self._clock.now()) else None

    def _take(self, observed: ObservedResource, notification: ObserveNotification, now: Instant) -> None:
        """Report the value in a notification, if it is the newest."""
        response = notification.response
        if not response.is_success:
            self._end_observation(observed, f"ended with {response.code}")
        elif observed.is_news(notification.sequence, now):
            if notification.is_whole:
                self._tell(observed, response, now)
            elif not observed.is_being_read:
                observed.is_being_read = True
                self._spawn(self._read_whole(observed))

    async def _deliver(
        self, device_id: str, delivery: _InFlightCommand, response: Callable[[DeviceResponse], None]
    ) -> None:
        try:
            response(await self._perform(device_id, delivery))
        finally:
            if self._deliveries.get(device_id) is delivery:
                del self._deliveries[device_id]
            if isinstance(delivery.command, Observe):
                self._release(device_id, delivery.command.path)

    def _release(self, device_id: str, path: str) -> None:
        """Report the notifications that came before the response to Observe was reported."""
        device = self.registry.by_id(device_id)
        if device is not None and (observed := device.observed.get(path)) is not None:
            for notification in observed.release():
                self._take(observed, notification, self._clock.now())

    async def _perform(self, device_id: str, delivery: _InFlightCommand) -> DeviceResponse:
        command = delivery.command
        device = self.registry.by_id(device_id)
        if device is None:
            return DeviceResponse(Outcome.NOT_SENT)
        is_about_observation = isinstance(command, Observe | CancelObservation)
        async with device.turn:
            device_session = self._device_session
            # A device that did not respond to the last request gets no observe requests, one after the other: those of
            # applications come first.
            is_put_off = is_about_observation and device.is_silent
            if device_session is None or is_put_off or not self._is_current(device):
                return DeviceResponse(Outcome.NOT_SENT)
            delivery.is_sent = True
            device.is_executing = isinstance(command, Execute)
            try:
                response = await self._ask(device, command.path, device_session.perform(device, command))
            except (NoResponse, Unreachable, _GivenUp) as error:
                return DeviceResponse(_outcome_without_response(device, command, error))
            finally:
                device.is_executing = False
        has_reregistered = self.registry.by_id(device_id) is not device
        return DeviceResponse(Outcome.NOT_SENT) if is_about_observation and has_reregistered else response

    def _is_current(self, device: RegisteredDevice) -> bool:
        is_awake = device.is_awake(self._clock.now(), self._awake_seconds)
        return is_awake and self.registry.by_id(device.device_id) is device

    async def _ask(self, device: RegisteredDevice, path: str, exchange: Coroutine[Any, Any, T]) -> T:
        """Wait for the response to a request, and note whether the device responds.

        Raises:
            NoResponse: It does not.
            Unreachable: Nothing can be sent to it.
            _GivenUp: It has another address by now.
        """
        task = asyncio.ensure_future(exchange)
        device.exchange = task
        try:
            result = await task
        except asyncio.CancelledError:
            this = asyncio.current_task()
            if this is not None and this.cancelling():
                raise
            raise _GivenUp from None
        except NoResponse:
            self._note_failure(device, path, "was not answered")
            device.is_silent = True
            if device.queue_mode:
                device.heard_at = 0
            if not device.is_known_address:
                device.is_reachable = False
            raise
        except Unreachable:
            self._note_failure(device, path, "could not be sent")
            device.is_reachable = False
            raise
        finally:
            device.exchange = None
        self._session_events(device, self._clock.now())
        return result

    def _note_failure(self, device: RegisteredDevice, path: str, what: str) -> None:
        self.counts.failed_exchanges += 1
        _log.warning("device %s at %s: a request for %s %s", device.device_id, device.peer.address, path, what)

    def _note_unreadable(self, device: RegisteredDevice, path: str, error: BadPayload | BadLinks) -> None:
        self.counts.unreadable_responses += 1
        self._unreadable.warn("device %s told of %s what cannot be read: %s", device.device_id, path, error)

    def _session_events(self, device: RegisteredDevice, now: Instant) -> None:
        """Note a message of a device; if it was not known to listen, waiting commands are sent."""
        was_there = device.is_known_address and not device.is_silent and device.is_awake(now, self._awake_seconds)
        self._note_contact(device, now)
        if not was_there:
            self._make_contact(device)

    def _note_contact(self, device: RegisteredDevice, now: Instant) -> None:
        if self._device_session is not None:
            self._device_session.endpoint.retransmit(device.peer)
        device.heard_at = now
        device.is_silent, device.is_known_address, device.is_reachable = False, True, True

    def _make_contact(self, device: RegisteredDevice) -> None:
        # On a thread, because it reads the database.
        asyncio.get_running_loop().run_in_executor(None, self._events.contact, device.device_id)

    def _greet(self, device: RegisteredDevice) -> None:
        """Send commands to a device soon after the response to its registration or update."""
        asyncio.get_running_loop().call_later(_AFTER_RESPONSE_SECONDS, self._begin_to_ask, device)

    def _begin_to_ask(self, device: RegisteredDevice) -> None:
        if self._device_session is None or self.registry.by_id(device.device_id) is not device:
            return
        self._note_contact(device, self._clock.now())
        self._make_contact(device)
        if device.to_discover and not device.is_being_discovered:
            device.is_being_discovered = True
            self._spawn(self._discover(device))

    async def _discover(self, device: RegisteredDevice) -> None:
        """Discover the resources of the paths that a device registered without any."""
        discovered: dict[str, Links | None] = {}
        try:
            with suppress(NoResponse, Unreachable, _GivenUp):  # the rest follows after its next update
                async with self._discovering:
                    for path in device.to_discover:
                        discovered[path] = await self._discover_below(device, path)
            if discovered:
                await self.registrar.learn(device, discovered)
        finally:
            device.is_being_discovered = False

    async def _discover_below(self, device: RegisteredDevice, path: str) -> Links | None:
        """Return the resources below a path; ``None`` if the device does not return any."""
        # One turn for each path: commands of applications come in between.
        async with device.turn:
            device_session = self._device_session
            if device_session is None or not self._is_current(device):
                raise Unreachable
            response = await self._ask(device, path, device_session.discover(device, path))
            if response.code == _NOT_IMPLEMENTED:
                told = await self._ask(device, path, device_session.read_values(device, path))
                return read_links(",".join(f"<{each.path}>" for each in told).encode(), prefix="") if told else None
        try:
            return read_links(response.payload, prefix=device.prefix) if response.is_success else None
        except BadLinks as error:
            self._note_unreadable(device, path, error)
            return None

    async def _read_whole(self, observed: ObservedResource) -> None:
        """Read a value that is too long for one notification."""
        device = observed.device
        with suppress(NoResponse, Unreachable, _GivenUp):
            async with device.turn:
                # A change from now on is read once more.
                observed.is_being_read = False
                if self._device_session is not None and self._is_current(device):
                    told = await self._ask(device, observed.path, self._device_session.read_rest(observed))
                    self._collect(device, told, self._clock.now())

    def _end_observation(self, observed: ObservedResource, how: str) -> None:
        device, path = observed.device, observed.path
        self._valueless.warn("the observation of %s by device %s %s", path, device.device_id, how)
        if observed.is_asked:
            self.registry.end_observation(device, path)
            # Earlier values go to the subscribers first.
            self._hand_over()
            self._events.observation_ended(device.device_id, path)

    def _tell(self, observed: ObservedResource, response: Response, now: Instant) -> None:
        device, path = observed.device, observed.path
        try:
            told = contents(response.payload, response.content_format, path, now, response.max_age_seconds)
        except BadPayload as error:
            self.counts.unreadable_notifications += 1
            self._valueless.warn("device %s notified of %s what cannot be read: %s", device.device_id, path, error)
        else:
            observed.has_value = True
            self._collect(device, told, now)

    def _collect(
        self, device: RegisteredDevice, told: list[ReportedPayload], now: Instant, *, is_unsolicited: bool = False
    ) -> None:
        """Report values: at once, or together with those that came a moment before."""
        if told and not self._told:
            loop = asyncio.get_running_loop()
            loop.call_at(self._handed_over_at + _GROUP_SECONDS, self._hand_over)
        self._told += [
            Observation(device.device_id, path, content, now if changed_at is None else changed_at, is_unsolicited)
            for path, content, changed_at in told
        ]

    def _hand_over(self) -> None:
        told, self._told = self._told, []
        self._handed_over_at = asyncio.get_running_loop().time()
        if told:
            self._events.observed(told)

    def _sweep(self) -> None:
        """Remove devices whose registration has ended."""
        if self._device_session is None:
            return
        now = self._clock.now()
        for device in self.registry:
            if not device.is_registered(now):
                self.registrar.forget(device)
        asyncio.get_running_loop().call_later(_SWEEP_SECONDS, self._sweep)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, NotRegistered | NotLeader):
            _log.error("what was asked of a device failed", exc_info=error)


def _outcome_without_response(
    device: RegisteredDevice, command: DeviceCommand, error: NoResponse | Unreachable | _GivenUp
) -> Outcome:
    """Return the outcome of an attempt that got no response.

    Commands with the same effect twice are sent again. A device may have acted on an execute, for example by a reboot,
    and then lost its response, so that counts as sent unless it surely did not arrive.
    """
    if isinstance(command, Execute):
        has_surely_failed = isinstance(error, Unreachable) and not error.may_have_arrived
        return Outcome.NOT_SENT if has_surely_failed else Outcome.NO_ANSWER
    return Outcome.NO_ANSWER if isinstance(error, NoResponse) and device.is_reachable else Outcome.NOT_SENT
