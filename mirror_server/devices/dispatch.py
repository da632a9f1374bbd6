"""Delivers waiting commands to each device: in order, one at a time, when the device can be reached.

Waiting commands are in the database; only those in flight are in memory. After a restart a command without a response
is sent again, and nothing has to be rebuilt. An execute is the exception: to run it twice may do harm, so the attempt
is stored before it is sent, and one that may have reached the device is not sent again. Source: wire.md 2.
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
from mirror_server.core.instants import after_seconds
from mirror_server.devices.backends import DeviceBackends
from mirror_server.devices.link import (
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


@dataclass(frozen=True, slots=True)
class Job:
    """A command to a device. ``request`` is the device request of an application that caused it, if any."""

    device_id: str
    command: DeviceCommand
    request: Command | None = None


@dataclass(slots=True)
class _Delivery:
    """What is in flight to one device.

    Attributes:
        device_id: The device.
        command_id: The number of the device request, if it is one.
        is_woken: Whether something else may wait for the device since this began.
        made_contact: Whether the device made contact since this began.
        ended: Whether the response, or the time for it, is over.
        timer: Ends the time for the response.
    """

    device_id: str
    command_id: int | None = None
    is_woken: bool = False
    made_contact: bool = False
    ended: bool = False
    timer: Timer | None = None

    def stop_timer(self) -> None:
        """Let the time for the response not end."""
        if self.timer is not None:
            self.timer.cancel()


class Dispatcher:
    """Sends devices what waits for them, with at most one delivery to each device in flight.

    Args:
        database: Where what waits is.
        clock: Domain time.
        backends: The ways to the devices.
        finish: Stores how a job ended, ``None`` for no answer in time; the future is done when that is on disk.
        answer_timeout_seconds: How long a device may take to answer.

    Attributes:
        held: The async-ids of commands that are not to be sent yet. Who takes one out wakes its device.
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
        self.held: set[str] = set()
        self._answer_timeout_seconds = answer_timeout_seconds
        self._deliveries: dict[str, _Delivery] = {}
        self._new: list[_Delivery] = []
        # Subscribe commands a device left unanswered: not repeated before it makes contact again.
        self._unanswered: dict[str, set[DeviceCommand]] = {}
        # What was logged of a device, until it works again.
        self._failing: dict[str, type[Exception]] = {}
        self._lock = threading.Lock()

    def contact(self, *device_ids: str) -> None:
        """Send these devices, which can be reached, what waits, also what they left unanswered before."""
        with self._lock:
            for device_id in device_ids:
                self._unanswered.pop(device_id, None)
                delivery = self._deliveries.get(device_id)
                if delivery is not None:
                    delivery.made_contact = True
        self.wake(*device_ids)

    def wake(self, *device_ids: str) -> None:
        """Send each of these devices what waits for it, unless something is in flight to it."""
        failed: list[tuple[_Delivery, Exception]] = []
        with self._lock:
            for device_id in device_ids:
                delivery = self._deliveries.get(device_id)
                if delivery is not None:
                    # The delivery is removed under the same lock, and this read behind that: no wake falls in between.
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
            # Those that one transaction woke are looked after together, by the first of them.
            self._database.after_group(self._begin_new)

    def in_flight(self) -> set[int]:
        """The numbers of the device requests in flight."""
        with self._lock:
            return {delivery.command_id for delivery in self._deliveries.values() if delivery.command_id is not None}

    def forget(self) -> None:
        """Wait for no response any more: another process has the devices now."""
        with self._lock:
            deliveries = list(self._deliveries.values())
            self._deliveries.clear()
            self._new.clear()
            self._unanswered.clear()
            self._failing.clear()
            for delivery in deliveries:
                delivery.ended = True
        for delivery in deliveries:
            delivery.stop_timer()

    def wake_all(self) -> None:
        """Wake every device for which something waits."""
        with self._database.read() as session:
            device_ids = {*commands.devices_with_waiting(session), *subscriptions.devices_with_work(session)}
        self.wake(*sorted(device_ids))

    def _begin_new(self) -> None:
        """Send what waits for the devices that were woken since the last call."""
        with self._lock:
            deliveries, self._new = self._new, []
        for some in batches(deliveries):
            self._begin_some(some)

    def _begin_some(self, deliveries: Sequence[_Delivery]) -> None:
        now, device_ids = self._clock.now(), [delivery.device_id for delivery in deliveries]
        try:
            found = self._database.query(lambda session: commands.pending_work(session, device_ids, now))
        except Exception as error:
            for each in deliveries:
                if len(deliveries) == 1 or isinstance(error, StorageFailed):
                    self._retry_failed(each, error)
                else:
                    # By itself, so that a device whose rows cannot be read holds up no other.
                    self._begin_some([each])
            return
        for delivery in deliveries:
            try:
                self._begin(delivery, found[delivery.device_id])
            except Exception as error:
                self._give_up(delivery, error)

    def _give_up(self, delivery: _Delivery, error: Exception) -> None:
        """End what could not be sent, and try the device again later."""
        with self._lock:
            delivery.ended = True
        delivery.stop_timer()
        self._retry_failed(delivery, error)

    def _retry_failed(self, delivery: _Delivery, error: Exception) -> None:
        """Try a device again after an error, which is logged once, until there is another one.

        A device may fail each second for as long as the server runs.
        """
        if not isinstance(error, StorageFailed):
            with self._lock:
                is_known = self._failing.get(delivery.device_id) is type(error)
                self._failing[delivery.device_id] = type(error)
            if not is_known:
                message = "device %s could not be sent what waits, or its answer not be stored; tried again each %d s"
                _log.error(message, delivery.device_id, _PAUSE_AFTER_ERROR_SECONDS, exc_info=error)
        self._release_later(delivery)

    def _begin(self, delivery: _Delivery, found: PendingWork) -> None:
        """Send what waits for a device; with nothing to send its delivery ends."""
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
        asks: Iterable[DeviceCommand] = [*map(Observe, found.to_observe), *map(CancelObservation, found.to_cancel)]
        command = found.command
        with self._lock:
            unanswered = self._unanswered.get(device_id, set())
            for ask in asks:
                if ask not in unanswered:
                    return Job(device_id, ask)
        if command is None or command.async_id in self.held:
            # What stands behind one that is held waits with it: the device gets all in their order.
            return None
        return Job(device_id, _command_of(command), command)

    def _send(self, job: Job, delivery: _Delivery) -> None:
        command = job.request
        delivery.command_id = command.command_id if command else None
        if command is None or command.request.is_idempotent:
            self._transmit(job, delivery)
        elif command.attempts > command.retries:
            # Its response could not be stored.
            self._ended(job, delivery, None)
        else:
            # After a crash, the stored attempt says that the device may have acted.
            stored = self._database.submit_durable(
                lambda session: commands.begin_attempt(session, command.command_id, self._clock.now()),
                conflict_keys=(command.device_id,),
            )
            stored.add_done_callback(lambda future: self._attempt_begun(job, delivery, future))

    def _attempt_begun(self, job: Job, delivery: _Delivery, future: Future[bool]) -> None:
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
            self._give_up(delivery, error)

    def _transmit(self, job: Job, delivery: _Delivery) -> None:
        due_at = after_seconds(self._clock.now(), self._answer_timeout_seconds)
        if job.request is not None:
            due_at = min(due_at, job.request.expires_at)
        # The timer first: the answer, which cancels it, may come before the command is sent to the end.
        delivery.timer = self._clock.call_at(due_at, lambda: self._time_out(job, delivery))
        self._backends.send(job.device_id, job.command, lambda response: self._ended(job, delivery, response))

    def _time_out(self, job: Job, delivery: _Delivery) -> None:
        has_expired = job.request is not None and job.request.expires_at <= self._clock.now()

        def cancelled(was_sent: bool) -> None:
            self._ended(job, delivery, None if was_sent else DeviceResponse(Outcome.NOT_SENT))

        # Before it expires a response that comes late still tells something.
        self._backends.cancel(job.device_id, job.command, cancelled, also_sent=has_expired)

    def _ended(self, job: Job, delivery: _Delivery, response: DeviceResponse | None) -> None:
        is_lost = response is None or not response.outcome.is_of_device
        with self._lock:
            # Answer and time-out may come at the same moment: one of them ends the job, the other one is late.
            is_late, delivery.ended = delivery.ended, True
            if job.request is None and is_lost and not (is_late or delivery.made_contact):
                self._unanswered.setdefault(job.device_id, set()).add(job.command)
        if is_late:
            if not is_lost:
                self._store_late_response(job, response)
            return
        delivery.stop_timer()
        try:
            stored = self._finish(job, response)
        except Exception as error:
            self._retry_failed(delivery, error)
        else:
            stored.add_done_callback(lambda future: self._stored(delivery, future))

    def _store_late_response(self, job: Job, response: DeviceResponse | None) -> None:
        """Nobody waits for the answer any more, but it tells what the device has and does.

        Not so the end of an observation: another may have begun since.
        """
        if isinstance(job.command, CancelObservation):
            return
        self._finish(job, response).add_done_callback(lambda _: self.wake(job.device_id))

    def _stored(self, delivery: _Delivery, future: Future[Any]) -> None:
        if future.exception() is not None:
            # The database refuses; the job still waits in it and would be sent again at once, without end.
            self._release_later(delivery)
        else:
            with self._lock:
                has_failed = self._failing.pop(delivery.device_id, None)
            if has_failed:
                _log.info("what waits for device %s is sent again", delivery.device_id)
            self._release(delivery)

    def _release_later(self, delivery: _Delivery) -> None:
        due_at = after_seconds(self._clock.now(), _PAUSE_AFTER_ERROR_SECONDS)
        self._clock.call_at(due_at, lambda: self._release(delivery))

    def _release(self, delivery: _Delivery) -> None:
        with self._lock:
            self._remove(delivery)
        self.wake(delivery.device_id)

    def _remove(self, delivery: _Delivery) -> None:
        # After the devices were let go of and taken again, the delivery may be another one.
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
