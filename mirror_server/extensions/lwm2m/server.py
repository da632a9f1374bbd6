"""The registered devices while this process listens: commands to them, and messages from them.

Everything here runs on the event loop of :class:`~mirror_server.extensions.lwm2m.backend.LwM2MBackend`.
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
from mirror_server.core.timestamps import Instant
from mirror_server.devices.interface import (
    CancelObservation,
    DeviceCommand,
    DeviceResponse,
    Execute,
    NotRegistered,
    Observation,
    Observe,
    Outcome,
)
from mirror_server.extensions.lwm2m import registration_store
from mirror_server.extensions.lwm2m.device_registry import ObservedResource, RegisteredDevice
from mirror_server.extensions.lwm2m.device_session import DeviceSession
from mirror_server.extensions.lwm2m.links import BadLinks, Links, read_links
from mirror_server.extensions.lwm2m.payloads import EVERYTHING, BadPayload, ReportedPayload, contents
from mirror_server.extensions.lwm2m.registration_handler import RateLimitedLogger, RegistrationHandler
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
"""The pause after the response to a registration: many devices reject requests until they have read the response."""

_STORE_SECONDS = 60
"""The time limit for storing a message of a device. After that the device gets 5.03 with a time to retry."""

_GROUP_SECONDS = 0.02
"""Values that arrive within this time are stored as one batch, which halves the cost at 2,000 values per second."""

_CONCURRENT_DISCOVERIES = 64
_SWEEP_SECONDS = 60
_STOP_SECONDS = 2
_SENML = frozenset({110, 112})
_NOT_IMPLEMENTED = "5.01"


class _AddressChanged(Exception):
    """The request was sent to a previous address of the device, which may have received it."""


@dataclass(slots=True, eq=False)
class _InFlightCommand:
    """A command in flight. ``is_sent`` is set before the first datagram may be sent."""

    command: DeviceCommand
    task: asyncio.Task[None] = field(init=False)
    is_sent: bool = False


class LwM2MServer:
    """Handles messages of devices, and sends them commands.

    Args:
        events: The service.
        database: Stores the registrations.
        clock: Domain time.
        settings: The limits for devices.
    """

    def __init__(self, *, events: DeviceService, database: Database, clock: Clock, settings: LwM2MSettings) -> None:
        self.registration_handler = RegistrationHandler(
            events=events, database=database, clock=clock, settings=settings, on_accepted=self._accepted
        )
        self.counts = self.registration_handler.counts
        self.registry = self.registration_handler.registry
        self._events = events
        self._database = database
        self._clock = clock
        self._awake_seconds = settings.coap_awake_seconds
        self._device_session: DeviceSession | None = None
        self._deliveries: dict[str, _InFlightCommand] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._pending: list[Observation] = []
        self._flushed_at = 0.0
        self._valueless_log = RateLimitedLogger(_log, clock, "notifications without a value")
        self._unreadable_log = RateLimitedLogger(_log, clock, "unreadable responses")
        self._discovering = asyncio.Semaphore(_CONCURRENT_DISCOVERIES)

    async def load_registrations(self) -> None:
        """Load the stored devices, which registered before the last stop or with another process."""
        for row in await asyncio.to_thread(self._database.query, registration_store.load):
            self.registry.add(RegisteredDevice.from_store(row))

    def start(self, endpoint: CoapEndpoint) -> None:
        """Start to send commands through an endpoint."""
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
        """Whether a device is probably listening. May be called on any thread."""
        device = self.registry.by_id(device_id)
        if device is None or self._device_session is None:
            return False
        return device.is_awake(self._clock.now(), self._awake_seconds)

    def send(self, device_id: str, command: DeviceCommand, response: Callable[[DeviceResponse], None]) -> None:
        """Send a command to a device after the command in flight has ended."""
        delivery = self._deliveries[device_id] = _InFlightCommand(command)
        delivery.task = self._spawn(self._deliver(device_id, delivery, response))

    def cancel(self, device_id: str, command: DeviceCommand, *, also_sent: bool) -> bool:
        """Cancel a command that was not sent; with ``also_sent``, also stop to wait for the response to a sent one.

        Returns:
            Whether the command may have been sent. If not, it will not be sent, and no response is reported.
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
        except RequestRejected as rejected:
            return rejected.response
        except (TimeoutError, NotLeader, StorageFailed):
            return Response("5.03", b"the message cannot be stored now; try again later", 0, _STORE_SECONDS)

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
            # A router mapped the device to another port, and the request in flight went to the previous one.
            self.registration_handler.move(device, notification.peer)
            device.is_reachable = False
        self._message_received(device, now)
        if observed.buffered is None:
            self._process_notification(observed, notification, now)
        else:
            observed.buffered.append(notification)
        return True

    def rate_exceeded(self, notification: ObserveNotification) -> None:
        """See :class:`~mirror_server.extensions.lwm2m.transport_api.Handler`."""
        observed = self.registry.observed_by(notification)
        if observed is not None and observed.is_requested:
            self._end_observation(observed, "was stopped: the device exceeds its message rate limit")

    def session_ended(self, peer: Peer) -> None:
        """See :class:`~mirror_server.extensions.lwm2m.transport_api.Handler`."""
        for device in self.registry.at(peer):
            device.is_reachable = False

    async def _respond(self, peer: Peer, request: Request) -> Response:
        match request.method, request.path.removeprefix("/").split("/"):
            case "POST", ["rd"]:
                return await self.registration_handler.register(peer, request)
            case "POST", ["rd", location] if location:
                return await self.registration_handler.update(peer, location, request)
            case "DELETE", ["rd", location] if location:
                return await self.registration_handler.deregister(peer, location)
            case "POST", ["dp"]:
                return await self._handle_send(peer, request)
            case "POST", ["bs"]:
                return self.registration_handler.reject_bootstrap(peer, request)
            case _, ["rd" | "dp" | "bs"] | ["rd", _] if request.path != "/rd/":
                raise RequestRejected("4.05", "this path does not support the method")
        raise RequestRejected("4.04", "unknown path; register under /rd")

    async def _handle_send(self, peer: Peer, request: Request) -> Response:
        """Handle the LwM2M Send operation. Values of unregistered resources are ignored.

        Source: LwM2M core 1.1, 6.4.5.
        """
        device = await self._sender(peer)
        now = self._clock.now()
        if device is None:
            raise RequestRejected("4.04", "no device is registered from this address; register under /rd")
        if request.content_format not in _SENML:
            raise RequestRejected("4.15", "send SenML, as JSON (110) or CBOR (112)")
        try:
            values = contents(request.payload, request.content_format, EVERYTHING, now)
        except BadPayload as error:
            raise RequestRejected("4.00", str(error)) from None
        self.registration_handler.move(device, peer)
        self._message_received(device, now)
        query = partial(resources.announced, device_id=device.device_id)
        announced_paths = {each.path for each in await asyncio.to_thread(self._database.query, query)}
        accepted_values = [each for each in values if each.path in announced_paths]
        if values and not accepted_values:
            raise RequestRejected("4.04", "none of these resources is registered; register them under /rd")
        self._collect(device, accepted_values, self._clock.now(), is_unsolicited=True)
        return Response("2.04")

    async def _sender(self, peer: Peer) -> RegisteredDevice | None:
        """Return the device of a peer. ``None`` if it is not registered, or may no longer use its name."""
        device = self.registry.by_peer(peer)
        if device is None:
            return None
        try:
            await self.registration_handler.check_device(peer, device)
        except RequestRejected:
            return None
        is_current = self.registry.by_id(device.device_id) is device
        return device if is_current and device.is_registered(self._clock.now()) else None

    def _process_notification(
        self, observed: ObservedResource, notification: ObserveNotification, now: Instant
    ) -> None:
        """Report the value in a notification unless a newer one has arrived."""
        response = notification.response
        if not response.is_success:
            self._end_observation(observed, f"ended with {response.code}")
        elif observed.advance_sequence(notification.sequence, now):
            if notification.is_complete:
                self._report(observed, response, now)
            elif not observed.is_being_read:
                observed.is_being_read = True
                self._spawn(self._read_all_blocks(observed))

    async def _deliver(
        self, device_id: str, delivery: _InFlightCommand, response: Callable[[DeviceResponse], None]
    ) -> None:
        try:
            response(await self._perform(device_id, delivery))
        finally:
            if self._deliveries.get(device_id) is delivery:
                del self._deliveries[device_id]
            if isinstance(delivery.command, Observe):
                self._process_buffered(device_id, delivery.command.path)

    def _process_buffered(self, device_id: str, path: str) -> None:
        """Process the notifications that arrived before the response to the observe request was reported."""
        device = self.registry.by_id(device_id)
        if device is not None and (observed := device.observed.get(path)) is not None:
            for notification in observed.stop_buffering():
                self._process_notification(observed, notification, self._clock.now())

    async def _perform(self, device_id: str, delivery: _InFlightCommand) -> DeviceResponse:
        command = delivery.command
        device = self.registry.by_id(device_id)
        if device is None:
            return DeviceResponse(Outcome.NOT_SENT)
        is_observation_command = isinstance(command, Observe | CancelObservation)
        # One request at a time to each device, as RFC 7252, 4.7, requires (NSTART).
        async with device.turn:
            device_session = self._device_session
            # A device that did not respond to the last request gets no observe requests, because each would wait for
            # its timeout and delay the commands of applications.
            is_postponed = is_observation_command and device.is_silent
            if device_session is None or is_postponed or not self._is_current(device):
                return DeviceResponse(Outcome.NOT_SENT)
            delivery.is_sent = True
            device.is_executing = isinstance(command, Execute)
            try:
                response = await self._exchange(device, command.path, device_session.perform(device, command))
            except (NoResponse, Unreachable, _AddressChanged) as error:
                return DeviceResponse(_outcome_without_response(device, command, error))
            finally:
                device.is_executing = False
        # A new registration ends all observations of a device, so its observe requests have to be sent again.
        has_reregistered = self.registry.by_id(device_id) is not device
        return DeviceResponse(Outcome.NOT_SENT) if is_observation_command and has_reregistered else response

    def _is_current(self, device: RegisteredDevice) -> bool:
        is_awake = device.is_awake(self._clock.now(), self._awake_seconds)
        return is_awake and self.registry.by_id(device.device_id) is device

    async def _exchange(self, device: RegisteredDevice, path: str, exchange: Coroutine[Any, Any, T]) -> T:
        """Wait for the response to a request, and record whether the device responds.

        Raises:
            NoResponse: The device does not respond.
            Unreachable: Nothing can be sent to the device.
            _AddressChanged: The device has another address now.
        """
        task = asyncio.ensure_future(exchange)
        device.exchange = task
        try:
            result = await task
        except asyncio.CancelledError:
            # Either this task is cancelled, or only the exchange is, by ``cancel_exchange``.
            this = asyncio.current_task()
            if this is not None and this.cancelling():
                raise
            raise _AddressChanged from None
        except NoResponse:
            self._note_failure(device, path, "got no response")
            device.is_silent = True
            if device.queue_mode:
                # It sleeps, so nothing more is sent before its next message.
                device.last_seen_at = 0
            # The address was stored before a restart. Before the next message of the device, it may be wrong.
            if not device.is_address_fresh:
                device.is_reachable = False
            raise
        except Unreachable:
            self._note_failure(device, path, "could not be sent")
            device.is_reachable = False
            raise
        finally:
            device.exchange = None
        self._message_received(device, self._clock.now())
        return result

    def _note_failure(self, device: RegisteredDevice, path: str, failure: str) -> None:
        self.counts.failed_exchanges += 1
        _log.warning("device %s at %s: a request for %s %s", device.device_id, device.peer.address, path, failure)

    def _note_unreadable(self, device: RegisteredDevice, path: str, error: BadPayload | BadLinks) -> None:
        self.counts.unreadable_responses += 1
        self._unreadable_log.warn("device %s: unreadable response for %s: %s", device.device_id, path, error)

    def _message_received(self, device: RegisteredDevice, now: Instant) -> None:
        """Record a message of a device. Send its waiting commands if it was not known to listen."""
        was_listening = device.is_address_fresh and not device.is_silent and device.is_awake(now, self._awake_seconds)
        self._note_contact(device, now)
        if not was_listening:
            self._send_waiting_commands(device)

    def _note_contact(self, device: RegisteredDevice, now: Instant) -> None:
        if self._device_session is not None:
            self._device_session.endpoint.retransmit(device.peer)
        device.last_seen_at = now
        device.is_silent, device.is_address_fresh, device.is_reachable = False, True, True

    def _send_waiting_commands(self, device: RegisteredDevice) -> None:
        # On a thread, because it reads the database.
        asyncio.get_running_loop().run_in_executor(None, self._events.contact, device.device_id)

    def _accepted(self, device: RegisteredDevice) -> None:
        """Schedule the commands to a device for shortly after the response to its registration or update."""
        asyncio.get_running_loop().call_later(_AFTER_RESPONSE_SECONDS, self._start_commands, device)

    def _start_commands(self, device: RegisteredDevice) -> None:
        if self._device_session is None or self.registry.by_id(device.device_id) is not device:
            return
        self._note_contact(device, self._clock.now())
        self._send_waiting_commands(device)
        if device.to_discover and not device.is_being_discovered:
            device.is_being_discovered = True
            self._spawn(self._discover(device))

    async def _discover(self, device: RegisteredDevice) -> None:
        """Discover the resources of paths that a device registered without resources."""
        discovered: dict[str, Links | None] = {}
        try:
            # If one of these fails, the remaining paths are discovered after the next update of the device.
            with suppress(NoResponse, Unreachable, _AddressChanged):
                async with self._discovering:
                    for path in device.to_discover:
                        discovered[path] = await self._discover_below(device, path)
            if discovered:
                await self.registration_handler.store_discovered(device, discovered)
        finally:
            device.is_being_discovered = False

    async def _discover_below(self, device: RegisteredDevice, path: str) -> Links | None:
        """Return the resources below a path, or ``None`` if the device does not return any."""
        # The lock is taken per path, so that commands of applications are sent in between.
        async with device.turn:
            device_session = self._device_session
            if device_session is None or not self._is_current(device):
                raise Unreachable
            response = await self._exchange(device, path, device_session.discover(device, path))
            # Some clients do not implement Discover. See decision 14.
            if response.code == _NOT_IMPLEMENTED:
                values = await self._exchange(device, path, device_session.read_values(device, path))
                return read_links(",".join(f"<{each.path}>" for each in values).encode(), prefix="") if values else None
        try:
            return read_links(response.payload, prefix=device.prefix) if response.is_success else None
        except BadLinks as error:
            self._note_unreadable(device, path, error)
            return None

    async def _read_all_blocks(self, observed: ObservedResource) -> None:
        """Read a value that does not fit into one notification."""
        device = observed.device
        with suppress(NoResponse, Unreachable, _AddressChanged):
            async with device.turn:
                # Reset before the read: a change during it needs another read.
                observed.is_being_read = False
                if self._device_session is not None and self._is_current(device):
                    values = await self._exchange(device, observed.path, self._device_session.read_rest(observed))
                    self._collect(device, values, self._clock.now())

    def _end_observation(self, observed: ObservedResource, how: str) -> None:
        device, path = observed.device, observed.path
        self._valueless_log.warn("the observation of %s by device %s %s", path, device.device_id, how)
        if observed.is_requested:
            self.registry.end_observation(device, path)
            # Report earlier values before the end of the observation.
            self._flush()
            self._events.observation_ended(device.device_id, path)

    def _report(self, observed: ObservedResource, response: Response, now: Instant) -> None:
        device, path = observed.device, observed.path
        try:
            values = contents(response.payload, response.content_format, path, now, response.max_age_seconds)
        except BadPayload as error:
            self.counts.unreadable_notifications += 1
            self._valueless_log.warn("device %s: unreadable notification of %s: %s", device.device_id, path, error)
        else:
            observed.has_value = True
            self._collect(device, values, now)

    def _collect(
        self, device: RegisteredDevice, values: list[ReportedPayload], now: Instant, *, is_unsolicited: bool = False
    ) -> None:
        """Queue values for the next batch, which is reported at once if there was no batch lately."""
        if values and not self._pending:
            loop = asyncio.get_running_loop()
            loop.call_at(self._flushed_at + _GROUP_SECONDS, self._flush)
        self._pending += [
            Observation(device.device_id, path, content, now if changed_at is None else changed_at, is_unsolicited)
            for path, content, changed_at in values
        ]

    def _flush(self) -> None:
        values, self._pending = self._pending, []
        self._flushed_at = asyncio.get_running_loop().time()
        if values:
            self._events.observed(values)

    def _sweep(self) -> None:
        """Remove devices whose registration has expired, and schedule the next sweep."""
        if self._device_session is None:
            return
        now = self._clock.now()
        for device in self.registry:
            if not device.is_registered(now):
                self.registration_handler.forget(device)
        asyncio.get_running_loop().call_later(_SWEEP_SECONDS, self._sweep)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        # These are expected: the registration ended during the command, or another process became the leader.
        if error is not None and not isinstance(error, NotRegistered | NotLeader):
            _log.error("a command to a device failed unexpectedly", exc_info=error)


def _outcome_without_response(
    device: RegisteredDevice, command: DeviceCommand, error: NoResponse | Unreachable | _AddressChanged
) -> Outcome:
    """Return the outcome of an attempt that got no response.

    Idempotent commands are sent again. An execute counts as sent unless it certainly did not arrive. The device may
    have executed it, and its response may have been lost, for example because of a reboot.
    """
    if isinstance(command, Execute):
        is_certainly_lost = isinstance(error, Unreachable) and not error.may_have_arrived
        return Outcome.NOT_SENT if is_certainly_lost else Outcome.NO_RESPONSE
    return Outcome.NO_RESPONSE if isinstance(error, NoResponse) and device.is_reachable else Outcome.NOT_SENT
