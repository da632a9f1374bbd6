"""The backend of real devices, a :class:`~mirror_server.devices.interface.DeviceBackend` for LwM2M over CoAP.

The backend has an event loop on a separate thread. The service calls the backend from other threads, and the loop never
waits for the service.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

from mirror_server.config import ListenAddress
from mirror_server.core.timestamps import Instant
from mirror_server.devices.interface import ConnectionStatus, DeviceCommand, DeviceResponse, Outcome
from mirror_server.extensions.lwm2m import registration_store
from mirror_server.extensions.lwm2m.coap import CoapEndpoint, CoapLimits, listen
from mirror_server.extensions.lwm2m.device_keys import Identities
from mirror_server.extensions.lwm2m.payloads import written_values
from mirror_server.extensions.lwm2m.registration_handler import BACKEND
from mirror_server.extensions.lwm2m.server import LwM2MServer
from mirror_server.extensions.lwm2m.settings import LwM2MSettings
from mirror_server.extensions.lwm2m.transport_api import CannotListen
from mirror_server.hooks import Measurement, extends
from mirror_server.server import Services
from mirror_server.store.backend import StorageFailed
from mirror_server.store.change_listeners import RegistrationChange
from mirror_server.store.session import Session

_log = logging.getLogger(__name__)

_START_SECONDS = 30
_STOP_SECONDS = 5
_LISTEN_AGAIN_SECONDS = 0.5
_WAITS_BEFORE_ERROR = 60
"""The number of attempts to open the port before a new leader logs an error.

The previous leader usually closes the port within seconds.
"""

_THREADS = 4
"""The number of threads that read the database, so that reads do not block the event loop."""


class LwM2MBackend:
    """The backend of real devices. It also implements the hooks for the lifecycle of the devices.

    Args:
        settings: The addresses to listen on, and the limits.
        services: The services of the server.

    Attributes:
        endpoint: The endpoint with the sockets, or ``None`` while this process does not listen.
    """

    name = BACKEND
    split_instance = staticmethod(written_values)

    def __init__(self, settings: LwM2MSettings, services: Services) -> None:
        self._settings = settings
        self._services = services
        self._database = services.database
        self._identities = Identities(services.database)
        self._lwm2m_server: LwM2MServer | None = None
        self.endpoint: CoapEndpoint | None = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop
        self._stopping: asyncio.Event
        services.backends.add(self)

    def urls(self) -> list[str]:
        """Return the URLs to which devices connect. The list is empty while this process does not listen."""
        endpoint = self.endpoint
        if endpoint is None:
            return []
        addresses = (("coap", endpoint.coap_address), ("coaps", endpoint.coaps_address))
        return [f"{scheme}://{ListenAddress(*address)}" for scheme, address in addresses if address is not None]

    @extends
    def device_address(self) -> str:
        """Return a line with the URLs to which devices connect, or with the reason why there are none yet."""
        addresses = ", ".join(self.urls()) or "not listening until this process is the leader and the port is free"
        return f"Real devices: {addresses}"

    @extends
    def connect_devices(self) -> None:
        """Load the registered devices, and start to listen.

        If several processes share the database, the previous leader may still use the port. In that case this returns
        immediately, and the port is tried again in the background.

        Raises:
            CannotListen: An address cannot be opened. This is raised only if this is the only process on the database.
        """
        self._database.write(registration_store.mark_unobserved)
        started: Future[None] = Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run(started)), name="lwm2m", daemon=True)
        self._thread.start()
        started.result(_START_SECONDS)

    @extends
    def disconnect_devices(self) -> None:
        """Stop listening. The stored registrations are kept."""
        if self._thread is not None and self._thread.is_alive():
            # RuntimeError means that the loop has just ended by itself.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._stopping.set)
            # This is longer than the time that commands and sockets together may take to end.
            self._thread.join(2 * _STOP_SECONDS)
        self._thread = self._lwm2m_server = self.endpoint = None

    @extends
    def interrupted(self) -> None:
        """Suspend the expiry of registrations until :meth:`resumed`, because no update can be stored now."""
        self._call(lambda lwm2m_server: lwm2m_server.registration_handler.suspend_expiry())

    @extends
    def resumed(self, session: Session, since: Instant) -> None:
        """Extend the registrations that could not be updated since an interruption, and resume their expiry."""
        registration_store.prolong(session, since, self._services.clock.now())
        if self._lwm2m_server is not None:
            expiries = registration_store.expiries(session)
            session.after_commit(lambda: self._resume_expiry(expiries))

    def _resume_expiry(self, expiries: Mapping[str, Instant]) -> None:
        self._call(lambda lwm2m_server: lwm2m_server.registration_handler.resume_expiry(expiries))

    @extends
    def registration_changed(self, session: Session, batch: Sequence[RegistrationChange]) -> None:
        """Delete the stored registrations that have ended."""
        for change in batch:
            if change.kind in {"deregistration", "expired"}:
                registration_store.delete(session, change.device.device_id)

    @extends
    def measurements(self) -> Sequence[Measurement]:
        """Return the metrics. The list is empty while this process does not listen."""
        lwm2m_server, endpoint = self._lwm2m_server, self.endpoint
        return [] if lwm2m_server is None or endpoint is None else _measurements(lwm2m_server, endpoint)

    def has(self, device_id: str) -> bool:
        """See :class:`~mirror_server.devices.interface.DeviceBackend`."""
        lwm2m_server = self._lwm2m_server
        return lwm2m_server is not None and lwm2m_server.registry.by_id(device_id) is not None

    def is_reachable(self, device_id: str) -> bool:
        """See :class:`~mirror_server.devices.interface.DeviceBackend`."""
        lwm2m_server = self._lwm2m_server
        return lwm2m_server is not None and lwm2m_server.is_reachable(device_id)

    def send(self, device_id: str, command: DeviceCommand, response: Callable[[DeviceResponse], None]) -> None:
        """See :class:`~mirror_server.devices.interface.DeviceBackend`."""
        if not self._call(lambda lwm2m_server: lwm2m_server.send(device_id, command, response)):
            response(DeviceResponse(Outcome.NOT_SENT))

    def cancel(
        self, device_id: str, command: DeviceCommand, cancelled: Callable[[bool], None], *, also_sent: bool
    ) -> None:
        """See :class:`~mirror_server.devices.interface.DeviceBackend`."""
        if not self._call(lambda lwm2m_server: cancelled(lwm2m_server.cancel(device_id, command, also_sent=also_sent))):
            # The loop has ended, and the command may have been sent before.
            cancelled(True)

    def describe(self, device_id: str) -> ConnectionStatus | None:
        """See :class:`~mirror_server.devices.interface.DeviceBackend`."""
        lwm2m_server = self._lwm2m_server
        device = None if lwm2m_server is None else lwm2m_server.registry.by_id(device_id)
        if device is None:
            return None
        peer = device.peer
        return ConnectionStatus("coaps" if peer.is_secure else "coap", device.version, device.binding, peer.address)

    def _call(self, act: Callable[[LwM2MServer], None]) -> bool:
        """Schedule a function on the event loop of the LwM2M server. Return whether this process is listening."""
        lwm2m_server = self._lwm2m_server
        # RuntimeError means that the loop has just ended by itself.
        with suppress(RuntimeError):
            if lwm2m_server is not None:
                self._loop.call_soon_threadsafe(act, lwm2m_server)
                return True
        return False

    async def _run(self, started: Future[None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._loop.set_default_executor(ThreadPoolExecutor(_THREADS, thread_name_prefix="lwm2m"))
        self._stopping = asyncio.Event()
        services = self._services
        lwm2m_server = LwM2MServer(
            events=services.devices, database=self._database, clock=services.clock, settings=self._settings
        )
        endpoint = None
        try:
            await lwm2m_server.load_registrations()
            if not self._database.is_shared:
                endpoint = await self._listen(lwm2m_server)
        except BaseException as error:
            started.set_exception(error)
            return
        if endpoint is None:
            started.set_result(None)
            endpoint = await self._wait_for_port(lwm2m_server)
        if endpoint is not None:
            await self._serve(lwm2m_server, endpoint, started)

    async def _serve(self, lwm2m_server: LwM2MServer, endpoint: CoapEndpoint, started: Future[None]) -> None:
        lwm2m_server.start(endpoint)
        self._lwm2m_server, self.endpoint = lwm2m_server, endpoint
        watching = asyncio.create_task(self._identities.watch(endpoint.end_sessions))
        try:
            if started.done():
                # If the database fails now, the waiting requests are sent as soon as it is available again.
                with suppress(StorageFailed):
                    await asyncio.to_thread(self._services.dispatcher.wake_all)
            else:
                started.set_result(None)
            await self._stopping.wait()
        finally:
            watching.cancel()
            await lwm2m_server.end()
            await asyncio.wait_for(endpoint.close(), _STOP_SECONDS)

    async def _listen(self, lwm2m_server: LwM2MServer) -> CoapEndpoint:
        settings = self._settings
        limits = CoapLimits(payload_bytes=settings.max_coap_payload_bytes)
        return await listen(
            lwm2m_server, coap=settings.coap, coaps=settings.coaps, keys=self._identities.secret, limits=limits
        )

    async def _wait_for_port(self, lwm2m_server: LwM2MServer) -> CoapEndpoint | None:
        """Listen as soon as the previous leader has closed the port. Return ``None`` if stopped before that."""
        waits = itertools.count(1)
        while not self._stopping.is_set():
            try:
                return await self._listen(lwm2m_server)
            except CannotListen as error:
                if next(waits) == _WAITS_BEFORE_ERROR:
                    _log.error("cannot listen for real devices, retrying: %s", error)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), _LISTEN_AGAIN_SECONDS)
        return None


def _measurements(lwm2m_server: LwM2MServer, endpoint: CoapEndpoint) -> list[Measurement]:
    lwm2m, coap = lwm2m_server.counts, endpoint.counts
    registrations_by_outcome = {
        "registered": lwm2m.registrations,
        "updated": lwm2m.updates,
        "deregistered": lwm2m.deregistrations,
        "refused": lwm2m.rejected,
    }
    notifications_by_outcome = {
        "taken": lwm2m.notifications - lwm2m.unreadable_notifications,
        "unreadable": lwm2m.unreadable_notifications,
        "unknown": lwm2m.unknown_notifications,
    }
    messages = {
        ("received", "request"): coap.requests_received,
        ("received", "response"): coap.responses_received,
        ("received", "notification"): coap.notifications_received,
        ("received", "acknowledgement"): coap.acknowledgements_received,
        ("received", "reset"): coap.resets_received,
        ("sent", "request"): coap.requests_sent,
        ("sent", "response"): coap.responses_sent,
        ("sent", "acknowledgement"): coap.acknowledgements_sent,
        ("sent", "reset"): coap.resets_sent,
    }
    handshakes = {"done": coap.handshakes, "failed": coap.handshake_failures}
    return [
        Measurement("mirror_lwm2m_devices", "Registered real devices.", len(lwm2m_server.registry)),
        _by_outcome("mirror_lwm2m_registrations", "Registration requests of devices.", registrations_by_outcome),
        _by_outcome(
            "mirror_lwm2m_notifications",
            "Notifications of devices, including unreadable ones and those without a known observation.",
            notifications_by_outcome,
        ),
        _count("mirror_lwm2m_failed_exchanges", "Requests to devices without a response.", lwm2m.failed_exchanges),
        _count(
            "mirror_lwm2m_unreadable_answers",
            "Responses of devices that cannot be decoded.",
            lwm2m.unreadable_responses,
        ),
        Measurement("mirror_coap_sessions", "Open DTLS sessions.", coap.sessions),
        Measurement(
            "mirror_coap_messages",
            "CoAP messages without retransmissions and duplicates.",
            messages,
            ("direction", "kind"),
            is_count=True,
        ),
        _by_outcome("mirror_coap_handshakes", "DTLS handshakes.", handshakes),
        _count("mirror_coap_retransmissions", "Retransmitted CoAP messages.", coap.retransmissions),
        _count("mirror_coap_duplicates", "Duplicate CoAP messages.", coap.duplicates),
        _count("mirror_coap_unanswered", "Requests that ended without a response.", coap.unanswered),
        _count("mirror_coap_unreachable", "Messages that could not be sent to an address.", coap.unreachable),
        _count("mirror_coap_refused", "Requests rejected before they were handled.", coap.rejected),
        _count("mirror_coap_dropped", "Ignored datagrams, including those that the kernel dropped.", coap.dropped),
    ]


def _count(name: str, meaning: str, count: int) -> Measurement:
    return Measurement(name, meaning, count, is_count=True)


def _by_outcome(name: str, meaning: str, counts: Mapping[str, int]) -> Measurement:
    by_label = {(outcome,): count for outcome, count in counts.items()}
    return Measurement(name, meaning, by_label, ("outcome",), is_count=True)
