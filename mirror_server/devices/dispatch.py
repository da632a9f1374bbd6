"""The delivery of pending commands to devices. Source: wire.md 2.

A device receives its commands in order, one at a time, while it can be reached. Pending commands are stored in the
database, and only commands in flight are in memory. After a restart, a command without a response is sent again, and
no state has to be rebuilt. An execute is the exception, because running it twice may do harm. Its attempt is stored
before it is sent. It is not sent again if it may have reached the device.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from mirror_sdk.wire.device_requests import DEFAULT_CONTENT_TYPE
from mirror_server.clock import Clock, Timer
from mirror_server.core.commands import Command
from mirror_server.core.timestamps import after_seconds
from mirror_server.devices.backends import DeviceBackends
from mirror_server.devices.interface import (
    CancelObservation,
    Content,
    DeviceCommand,
    DeviceResponse,
    Execute,
    Observe,
    Outcome,
    Read,
    Write,
    WriteAttributes,
)
from mirror_server.store import commands, subscriptions
from mirror_server.store.backend import NotLeader, StorageFailed
from mirror_server.store.commands import PendingWork
from mirror_server.store.database import Database
from mirror_server.store.session import batches

_log = logging.getLogger(__name__)

_PAUSE_AFTER_ERROR_SECONDS = 1
_CANNOT_SEND = "cannot send pending work to device %s; retrying every %d s"
_CANNOT_STORE = "cannot store the response of device %s; retrying every %d s"


@dataclass(frozen=True, slots=True)
class Job:
    """A command to a device. ``request`` is the device request of an application that caused the command, if any."""

    device_id: str
    command: DeviceCommand
    request: Command | None = None


@dataclass(slots=True)
class _Delivery:
    """A delivery in flight to one device.

    Attributes:
        device_id: The id of the device.
        command_id: The number of the device request, or ``None`` if no application requested the command.
        is_woken: Whether new commands for the device may have arrived since the delivery started.
        made_contact: Whether the device made contact since the delivery started.
        ended: Whether the command received a response or timed out.
        timer: The timer of the response timeout.
    """

    device_id: str
    command_id: int | None = None
    is_woken: bool = False
    made_contact: bool = False
    ended: bool = False
    timer: Timer | None = None

    def stop_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()


class Dispatcher:
    """The dispatcher, which sends pending commands to devices. Each device has at most one delivery in flight.

    Args:
        database: The database with the pending work.
        clock: The clock of the server.
        backends: The backends of the devices.
        finish: A function that stores the outcome of a job. The outcome is ``None`` after a timeout. The returned
            future completes when the outcome is on disk.
        answer_timeout_seconds: The maximum time in seconds that a device may take to respond.

    Attributes:
        delayed: The async-ids of commands that must not be sent yet. Code that removes an async-id must wake the
            device of the command.
    """

    def __init__(
        self,
        *,
        database: Database,
        clock: Clock,
        backends: DeviceBackends,
        finish: Callable[[Job, DeviceResponse | None], Future[Any]],
        answer_timeout_seconds: float,
    ) -> None:
        self._database = database
        self._clock = clock
        self._backends = backends
        self._finish = finish
        self.delayed: set[str] = set()
        self._response_timeout_seconds = answer_timeout_seconds
        self._deliveries: dict[str, _Delivery] = {}
        self._new: list[_Delivery] = []
        # Subscribe commands without a response. They are not repeated before the device makes contact again.
        self._unresponsive: dict[str, set[DeviceCommand]] = {}
        # The type of the last logged error of each failing device.
        self._failing: dict[str, type[Exception]] = {}
        self._lock = threading.Lock()

    def contact(self, *device_ids: str) -> None:
        """Send pending commands to devices that have just made contact.

        This includes commands to which a device did not respond before.
        """
        with self._lock:
            for device_id in device_ids:
                self._unresponsive.pop(device_id, None)
                delivery = self._deliveries.get(device_id)
                if delivery is not None:
                    delivery.made_contact = True
        self.wake(*device_ids)

    def wake(self, *device_ids: str) -> None:
        """Send pending work to each of these devices, unless a delivery to the device is in flight."""
        failed: list[tuple[_Delivery, Exception]] = []
        with self._lock:
            for device_id in device_ids:
                delivery = self._deliveries.get(device_id)
                if delivery is not None:
                    # The flag is read after the delivery is removed under the same lock, so no call of this method is
                    # lost.
                    delivery.is_woken = True
                    continue
                delivery = _Delivery(device_id)
                try:
                    if not self._backends.is_reachable(device_id):
                        continue
                    self._new.append(delivery)
                except Exception as error:
                    failed.append((delivery, error))
                self._deliveries[device_id] = delivery
            has_new = bool(self._new)
        for failure in failed:
            self._retry_failed(*failure)
        if has_new:
            # The first call handles all devices that one transaction woke.
            self._database.after_group(self._start_new)

    def in_flight(self) -> set[int]:
        """Return the numbers of the device requests in flight."""
        with self._lock:
            return {delivery.command_id for delivery in self._deliveries.values() if delivery.command_id is not None}

    def forget(self) -> None:
        """Discard all deliveries in flight, because another process now serves the devices."""
        with self._lock:
            deliveries = list(self._deliveries.values())
            self._deliveries.clear()
            self._new.clear()
            self._unresponsive.clear()
            self._failing.clear()
            for delivery in deliveries:
                delivery.ended = True
        for delivery in deliveries:
            delivery.stop_timer()

    def wake_all(self) -> None:
        """Send pending commands to every device that has any."""
        with self._database.read() as session:
            device_ids = {*commands.devices_with_waiting(session), *subscriptions.devices_with_work(session)}
        self.wake(*sorted(device_ids))

    def _start_new(self) -> None:
        """Send pending work to the devices that were woken since the last call."""
        with self._lock:
            deliveries, self._new = self._new, []
        for batch in batches(deliveries):
            self._start_batch(batch)

    def _start_batch(self, deliveries: Sequence[_Delivery]) -> None:
        now, device_ids = self._clock.now(), [delivery.device_id for delivery in deliveries]
        try:
            found = self._database.query(lambda session: commands.pending_work(session, device_ids, now))
        except Exception as error:
            for each in deliveries:
                if len(deliveries) == 1 or isinstance(error, StorageFailed):
                    self._retry_failed(each, error)
                else:
                    # Each device is read separately, so that a device whose rows cannot be read does not delay other
                    # devices.
                    self._start_batch([each])
            return
        for delivery in deliveries:
            try:
                self._start_next(delivery, found[delivery.device_id])
            except Exception as error:
                self._fail(delivery, error)

    def _fail(self, delivery: _Delivery, error: Exception) -> None:
        with self._lock:
            delivery.ended = True
        delivery.stop_timer()
        self._retry_failed(delivery, error)

    def _retry_failed(self, delivery: _Delivery, error: Exception, problem: str = _CANNOT_SEND) -> None:
        """Retry a device after an error.

        The same type of error is logged only once, because a device may fail every second.
        """
        if not isinstance(error, StorageFailed):
            with self._lock:
                is_logged = self._failing.get(delivery.device_id) is type(error)
                self._failing[delivery.device_id] = type(error)
            if not is_logged:
                _log.error(problem, delivery.device_id, _PAUSE_AFTER_ERROR_SECONDS, exc_info=error)
        self._release_later(delivery)

    def _start_next(self, delivery: _Delivery, found: PendingWork) -> None:
        """Send the next job to a device. If there is no job, the delivery ends."""
        job = self._next_job(delivery.device_id, found)
        if job is not None:
            self._send(job, delivery)
            return
        with self._lock:
            self._failing.pop(delivery.device_id, None)
            self._remove(delivery)
        if delivery.is_woken:
            self.wake(delivery.device_id)

    def _next_job(self, device_id: str, found: PendingWork) -> Job | None:
        observations: Iterable[DeviceCommand] = [
            *map(Observe, found.to_observe),
            *map(CancelObservation, found.to_cancel),
        ]
        command = found.command
        with self._lock:
            unresponsive = self._unresponsive.get(device_id, set())
            for each in observations:
                if each not in unresponsive:
                    return Job(device_id, each)
        if command is None or command.async_id in self.delayed:
            # Commands after a delayed command have to wait too, because the device receives all commands in order.
            return None
        return Job(device_id, _command_of(command), command)

    def _send(self, job: Job, delivery: _Delivery) -> None:
        command = job.request
        delivery.command_id = command.command_id if command else None
        if command is None or command.request.is_idempotent:
            self._transmit(job, delivery)
        elif command.attempts > command.retries:
            # The last attempt was sent, but its response could not be stored.
            self._ended(job, delivery, None)
        else:
            # After a crash, the stored attempt shows that the device may have run the command.
            stored = self._database.submit_durable(
                lambda session: commands.begin_attempt(session, command.command_id, self._clock.now()),
                conflict_keys=(command.device_id,),
            )
            stored.add_done_callback(lambda future: self._attempt_stored(job, delivery, future))

    def _attempt_stored(self, job: Job, delivery: _Delivery, future: Future[bool]) -> None:
        try:
            if delivery.ended:  # another process has the devices now
                return
            if future.result():
                self._transmit(job, delivery)
            else:
                self._ended(job, delivery, DeviceResponse(Outcome.NOT_SENT))
        except NotLeader:
            self._release_later(delivery)
        except Exception as error:
            self._fail(delivery, error)

    def _transmit(self, job: Job, delivery: _Delivery) -> None:
        due_at = after_seconds(self._clock.now(), self._response_timeout_seconds)
        if job.request is not None:
            due_at = min(due_at, job.request.expires_at)
        # The timer is created first, because the response may arrive before ``send`` returns, and cancels the timer.
        delivery.timer = self._clock.call_at(due_at, lambda: self._time_out(job, delivery))
        self._backends.send(job.device_id, job.command, lambda response: self._ended(job, delivery, response))

    def _time_out(self, job: Job, delivery: _Delivery) -> None:
        has_expired = job.request is not None and job.request.expires_at <= self._clock.now()

        def cancelled(was_sent: bool) -> None:
            self._ended(job, delivery, None if was_sent else DeviceResponse(Outcome.NOT_SENT))

        # A late response is useful until the command expires.
        self._backends.cancel(job.device_id, job.command, cancelled, also_sent=has_expired)

    def _ended(self, job: Job, delivery: _Delivery, response: DeviceResponse | None) -> None:
        is_lost = response is None or not response.outcome.is_from_device
        with self._lock:
            # A response and a timeout may arrive at the same time. The first one ends the job, and the other one is
            # late.
            is_late, delivery.ended = delivery.ended, True
            if job.request is None and is_lost and not (is_late or delivery.made_contact):
                self._unresponsive.setdefault(job.device_id, set()).add(job.command)
        if is_late:
            if not is_lost:
                self._store_late_response(job, response)
            return
        delivery.stop_timer()
        try:
            stored = self._finish(job, response)
        except Exception as error:
            self._retry_failed(delivery, error, _CANNOT_STORE)
        else:
            stored.add_done_callback(lambda future: self._stored(delivery, future))

    def _store_late_response(self, job: Job, response: DeviceResponse | None) -> None:
        """Store a response that arrived after the timeout, because it still describes the state of the device.

        The end of an observation is ignored, because another observation may have started in the meantime.
        """
        if isinstance(job.command, CancelObservation):
            return
        self._finish(job, response).add_done_callback(lambda _: self.wake(job.device_id))

    def _stored(self, delivery: _Delivery, future: Future[Any]) -> None:
        if future.exception() is not None:
            # The outcome is not stored, so the job is still pending. Sending it again immediately would cause a busy
            # loop.
            self._release_later(delivery)
        else:
            with self._lock:
                has_failed = self._failing.pop(delivery.device_id, None)
            if has_failed:
                _log.info("device %s receives commands again", delivery.device_id)
            self._release(delivery)

    def _release_later(self, delivery: _Delivery) -> None:
        due_at = after_seconds(self._clock.now(), _PAUSE_AFTER_ERROR_SECONDS)
        self._clock.call_at(due_at, lambda: self._release(delivery))

    def _release(self, delivery: _Delivery) -> None:
        with self._lock:
            self._remove(delivery)
        self.wake(delivery.device_id)

    def _remove(self, delivery: _Delivery) -> None:
        # After ``forget``, the device may have a new delivery.
        if self._deliveries.get(delivery.device_id) is delivery:
            del self._deliveries[delivery.device_id]


def _command_of(command: Command) -> DeviceCommand:
    request = command.request
    content = Content(request.payload or b"", request.content_type or DEFAULT_CONTENT_TYPE)
    if request.method == "GET":
        return Read(request.path, request.accept)
    if request.method == "POST":
        return Execute(request.path, content)
    if request.query is not None:
        return WriteAttributes(request.path, request.query)
    return Write(request.path, content)
