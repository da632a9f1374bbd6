"""Real devices: a :class:`~mirror_server.devices.link.DeviceBackend` that speaks LwM2M over CoAP.

All of it happens on one event loop, on a thread of its own. What the service asks comes from other threads, and what
the service is told never waits for it.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from mirror_server.clock import Clock
from mirror_server.core.instants import Instant, after_seconds
from mirror_server.devices.link import Answer, Connection, Content, DeviceCommand, DeviceEvents, Outcome
from mirror_server.extensions.lwm2m.exchange import CannotListen, Counts, Handler
from mirror_server.extensions.lwm2m.fleet import Fleet, FleetCounts
from mirror_server.extensions.lwm2m.identities import Identities
from mirror_server.extensions.lwm2m.payloads import written
from mirror_server.extensions.lwm2m.registrar import BACKEND, RegistrationCounts, RegistrationLimits
from mirror_server.extensions.lwm2m.store import registrations
from mirror_server.store.backend import StorageFailed
from mirror_server.store.database import Database
from mirror_server.store.session import Session

if TYPE_CHECKING:  # the sockets need an extra
    from mirror_server.extensions.lwm2m.coap.endpoint import CoapEndpoint

_log = logging.getLogger(__name__)

_START_SECONDS = 30
_STOP_SECONDS = 5
_LISTEN_AGAIN_SECONDS = 0.5
_WAITS_BEFORE_ERROR = 60
"""How often a new leader waits for the port before it says so: the one before lets go of it in a moment."""

_SHORTEST_GRACE_SECONDS = 120
"""All retransmissions of an update that was sent while the service was down come within 93 s (RFC 7252, 4.8.2)."""
_LONGEST_GRACE_SECONDS = 600
"""A device with a shorter lifetime has time for its next update. Longer, and frequent restarts would keep registered
what is gone."""

_THREADS = 4
"""As many look into the database while the loop goes on."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """What there is and what happened since it listens; the counts go on.

    Attributes:
        devices: How many devices are registered.
        registrations: What came of registrations.
        exchanges: What came of notifications and requests.
        messages: What went over the sockets.
    """

    devices: int
    registrations: RegistrationCounts
    exchanges: FleetCounts
    messages: Counts


OpenEndpoint = Callable[[Handler], Awaitable["CoapEndpoint"]]
"""Opens the sockets; what comes by them goes to the handler. Raises :class:`CannotListen`."""


class LwM2MLink:
    """The real devices, from :meth:`start` to :meth:`stop`.

    Args:
        events: The service.
        database: Where registrations are kept.
        clock: Domain time.
        open_endpoint: Opens the sockets.
        identities: Whose DTLS sessions are to end.
        awake_seconds: How long after its last message a device in queue mode listens.
        limits: What registrations may take.

    Attributes:
        endpoint: The sockets; ``None`` while it does not listen.
    """

    name = BACKEND

    def __init__(
        self,
        *,
        events: DeviceEvents,
        database: Database,
        clock: Clock,
        open_endpoint: OpenEndpoint,
        identities: Identities,
        awake_seconds: float,
        limits: RegistrationLimits,
    ) -> None:
        self._database = database
        self._clock = clock
        self._open_endpoint = open_endpoint
        self._identities = identities
        self._make_fleet = partial(
            Fleet, events=events, database=database, clock=clock, awake_seconds=awake_seconds, limits=limits
        )
        self._fleet: Fleet | None = None
        self.endpoint: CoapEndpoint | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._stop: Callable[[], object] | None = None

    def start(self, *, listening: Callable[[], None] | None = None) -> None:
        """Take up the devices that were registered, and listen.

        Args:
            listening: Called, on a thread that may wait, when devices can be reached. With it this returns at once,
                because the leader before may still hold the port, which is tried again and again. Without it this
                returns when they can be reached.

        Raises:
            CannotListen: It cannot be listened there; only without ``listening``.
        """
        self._database.write(registrations.observe_anew)
        started: Future[None] = Future()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._run(started, listening)), name="lwm2m", daemon=True
        )
        self._thread.start()
        started.result(_START_SECONDS)

    def stop(self) -> None:
        """Let go of all devices; what is stored of them stays."""
        thread, stop = self._thread, self._stop
        if thread is not None and stop is not None and thread.is_alive():
            # The loop may end by itself at this moment.
            with suppress(RuntimeError):
                stop()
            thread.join(2 * _STOP_SECONDS)
        self._thread = self._fleet = self.endpoint = self._loop = self._stop = None

    def parts_of(self, path: str, content: Content) -> Sequence[tuple[str, Content]]:
        """See :class:`~mirror_server.devices.link.DeviceBackend`."""
        return written(path, content)

    def has(self, device_id: str) -> bool:
        """See :class:`~mirror_server.devices.link.DeviceBackend`."""
        fleet = self._fleet
        return fleet is not None and fleet.registry.by_id(device_id) is not None

    def is_reachable(self, device_id: str) -> bool:
        """See :class:`~mirror_server.devices.link.DeviceBackend`."""
        fleet = self._fleet
        return fleet is not None and fleet.is_reachable(device_id)

    def send(self, device_id: str, command: DeviceCommand, answer: Callable[[Answer], None]) -> None:
        """See :class:`~mirror_server.devices.link.DeviceBackend`."""
        if not self._have(lambda fleet: fleet.send(device_id, command, answer)):
            answer(Answer(Outcome.NOT_SENT))

    def cancel(
        self, device_id: str, command: DeviceCommand, cancelled: Callable[[bool], None], *, also_sent: bool
    ) -> None:
        """See :class:`~mirror_server.devices.link.DeviceBackend`."""
        if not self._have(lambda fleet: cancelled(fleet.cancel(device_id, command, also_sent=also_sent))):
            cancelled(True)

    def hold_registrations(self) -> None:
        """End no registration until :meth:`prolong_registrations`: no update can be stored now."""
        self._have(lambda fleet: fleet.registrar.hold_registrations())

    def prolong_registrations(self, session: Session, since: Instant) -> None:
        """Prolong the registrations that could not be updated since an instant, and end them in time again.

        Each is left as much time as it had then, and at least its grace period: a device that is told that its
        registration is unknown may give up for good.
        """
        now = self._clock.now()
        expiring = registrations.expiring(session, after_seconds(now, _LONGEST_GRACE_SECONDS))
        registrations.prolong(
            session,
            [
                (max(now + expires_at - since, after_seconds(now, _grace_seconds(lifetime_seconds))), device_id)
                for device_id, lifetime_seconds, expires_at in expiring
            ],
        )
        if self._fleet is not None:
            # Those that have ended are not there.
            expiries = registrations.expiries(session)
            session.after_commit(lambda: self._release_registrations(expiries))

    def _release_registrations(self, expiries: Mapping[str, Instant]) -> None:
        self._have(lambda fleet: fleet.registrar.release_registrations(expiries))

    def describe(self, device_id: str) -> Connection | None:
        """See :class:`~mirror_server.devices.link.DeviceBackend`."""
        fleet = self._fleet
        device = None if fleet is None else fleet.registry.by_id(device_id)
        if device is None:
            return None
        peer = device.peer
        return Connection("coaps" if peer.is_secure else "coap", device.version, device.binding, peer.address)

    def statistics(self) -> Statistics | None:
        """What is counted; ``None`` while it does not listen."""
        fleet, endpoint = self._fleet, self.endpoint
        if fleet is None or endpoint is None:
            return None
        return Statistics(len(fleet.registry), fleet.registrar.counts, fleet.counts, endpoint.counts)

    def _have(self, act: Callable[[Fleet], None]) -> bool:
        """Have something done with the devices on their loop; false where there is none."""
        fleet, loop = self._fleet, self._loop
        # The loop may end by itself at this moment.
        with suppress(RuntimeError):
            if fleet is not None and loop is not None:
                loop.call_soon_threadsafe(act, fleet)
                return True
        return False

    async def _run(self, started: Future[None], listening: Callable[[], None] | None) -> None:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(_THREADS, thread_name_prefix="lwm2m"))
        stopping = asyncio.Event()
        self._stop = lambda: loop.call_soon_threadsafe(stopping.set)
        fleet = self._make_fleet()
        try:
            await fleet.take_up()
            endpoint = await self._open_endpoint(fleet) if listening is None else None
        except BaseException as error:
            started.set_exception(error)
            return
        if listening is None:
            listening = partial(started.set_result, None)
        else:
            started.set_result(None)
            endpoint = await self._wait_for_port(fleet, stopping)
        if endpoint is not None:
            await self._serve(fleet, endpoint, stopping, listening)

    async def _serve(
        self, fleet: Fleet, endpoint: CoapEndpoint, stopping: asyncio.Event, listening: Callable[[], None]
    ) -> None:
        fleet.begin(endpoint)
        self._loop, self._fleet, self.endpoint = asyncio.get_running_loop(), fleet, endpoint
        watching = asyncio.create_task(self._identities.watch(endpoint.end_sessions))
        try:
            # Where the database does not answer now, all that waits is looked at when it does.
            with suppress(StorageFailed):
                await asyncio.to_thread(listening)
            await stopping.wait()
        finally:
            watching.cancel()
            await fleet.end()
            await asyncio.wait_for(endpoint.close(), _STOP_SECONDS)

    async def _wait_for_port(self, fleet: Fleet, stopping: asyncio.Event) -> CoapEndpoint | None:
        """Listen as soon as the leader before has let go of the port; ``None`` where this is stopped meanwhile."""
        waits = itertools.count(1)
        while not stopping.is_set():
            try:
                return await self._open_endpoint(fleet)
            except CannotListen as error:
                if next(waits) == _WAITS_BEFORE_ERROR:
                    _log.error("no real device can be reached, and it is tried on: %s", error)
            with suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), _LISTEN_AGAIN_SECONDS)
        return None


def _grace_seconds(lifetime_seconds: int) -> int:
    """How long a registration is valid at least after the service was down."""
    return min(max(lifetime_seconds, _SHORTEST_GRACE_SECONDS), _LONGEST_GRACE_SECONDS)
