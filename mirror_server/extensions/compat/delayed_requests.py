"""Delays device requests with a generated async-id until the 202 response with the id has been sent.

A program learns the id from the 202. It would ignore a device's response that arrives earlier, and wait forever.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from flask import Response, request

from mirror_sdk.wire.device_requests import QUEUE_LIMIT
from mirror_server.clock import Timer
from mirror_server.core.commands import Command
from mirror_server.core.timestamps import after_seconds
from mirror_server.hooks import Handling, extends
from mirror_server.service.commands import CommandSubmission
from mirror_server.store.commands import CommandContext
from mirror_server.store.session import WAITING, Session
from mirror_server.views.responses import when_stored

if TYPE_CHECKING:
    from mirror_server.server import Services

DELAYED = "delayed"
"""The signal that a delayed request was queued: the device id, a space, the async-id."""

RELEASED = "released"
"""The signal that a request is no longer delayed, with its async-id."""

_LONGEST_SECONDS = 1
_MANY_WAITING = QUEUE_LIMIT // 2


@dataclass(slots=True)
class _Delay:
    """A delayed request. Once it is stored, the timer ends the delay."""

    device_id: str
    timer: Timer | None = None


class DelayedRequests:
    """The delayed requests of this process and of others on its database.

    They are in memory only. After a restart no client waits for an id, and all queued requests are delivered.
    """

    def __init__(self, services: Services) -> None:
        self._database = services.database
        self._clock = services.clock
        self._dispatcher = services.dispatcher
        # By async-id, the oldest first.
        self._delays: dict[str, _Delay] = {}
        self._lock = threading.Lock()
        self._database.on(DELAYED, self._delay_of_other)
        self._database.on(RELEASED, self._release)

    @extends
    def device_request(self, submission: CommandSubmission) -> Handling | None:
        """Delay a request without an async-id of the application."""
        return None if "async-id" in request.args else self.delay(submission)

    def delay(self, submission: CommandSubmission) -> Handling:
        """Delay a new request until its 202 was sent or its client is gone."""
        device_id, async_id = submission.device_id, submission.async_id

        def queued(session: Session, context: CommandContext) -> None:
            if context.unfinished >= _MANY_WAITING:
                self._release_oldest(session, device_id)
            # Before the commit: as soon as the request is visible, it must be delayed.
            self._delay(device_id, async_id)
            session.publish(DELAYED, f"{device_id} {async_id}", here=partial(self._stored, device_id, async_id))

        def respond(stored: Future[Command], accepted: Callable[[Command], Response]) -> Response:
            return when_stored(stored, accepted, partial(self._sent, stored, device_id, async_id))

        return Handling(queued, respond)

    def _sent(self, stored: Future[Command], device_id: str, async_id: str) -> None:
        if stored.done() and stored.exception() is not None:
            self._release(async_id)
            return
        # The writer runs this after the transaction of the request, and wakes the device on its own thread.
        self._database.submit_durable(
            lambda session: self._publish_release(session, device_id, async_id), by_leader=False, conflict_keys=()
        )

    def _publish_release(self, session: Session, device_id: str, async_id: str) -> None:
        session.publish(RELEASED, async_id)
        session.publish(WAITING, device_id)

    def _release_oldest(self, session: Session, device_id: str) -> None:
        """Release the oldest delayed request of a device, so that its queue does not fill up.

        A client that sends this many requests at once has received the oldest 202 already.
        """
        with self._lock:
            oldest = next((each for each, delay in self._delays.items() if delay.device_id == device_id), None)
        if oldest is not None:
            self._publish_release(session, device_id, oldest)

    def _delay(self, device_id: str, async_id: str) -> None:
        with self._lock:
            self._delays[async_id] = _Delay(device_id)
            self._dispatcher.delayed.add(async_id)

    def _stored(self, device_id: str, async_id: str) -> None:
        """End the delay of a stored request after at most a second, even if its client or process is gone."""
        due_at = after_seconds(self._clock.now(), _LONGEST_SECONDS)
        timer = self._clock.call_at(due_at, lambda: self._give_up(device_id, async_id))
        with self._lock:
            delay = self._delays.get(async_id)
            if delay is not None:
                delay.timer = timer
                return
        # The delay has ended already, because the 202 was sent first.
        timer.cancel()

    def _delay_of_other(self, *requests: str) -> None:
        """Delay requests that another process has stored; each is a device id, a space and an async-id."""
        for each in requests:
            device_id, async_id = each.split(" ")
            self._delay(device_id, async_id)
            self._stored(device_id, async_id)

    def _release(self, *async_ids: str) -> None:
        """End the delay of these requests. The caller has to wake their devices."""
        for async_id in async_ids:
            with self._lock:
                delay = self._delays.pop(async_id, None)
                self._dispatcher.delayed.discard(async_id)
            if delay is not None and delay.timer is not None:
                delay.timer.cancel()

    def _give_up(self, device_id: str, async_id: str) -> None:
        self._release(async_id)
        self._dispatcher.wake(device_id)
