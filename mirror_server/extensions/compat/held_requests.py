"""Holds back device requests with a server-made async-id until the 202 that carries the id was sent.

A program that learns the id from the 202 passes over a response that comes sooner, and waits for ever.
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
from mirror_server.core.instants import after_seconds
from mirror_server.hooks import Handling, extends
from mirror_server.service.commands import CommandSubmission
from mirror_server.store.commands import CommandContext
from mirror_server.store.session import WAITING, Session
from mirror_server.views.responses import when_stored

if TYPE_CHECKING:
    from mirror_server.server import Services

HELD = "untold"
"""The signal that a held request was queued: the device, a space, the async-id."""

RELEASED = "told"
"""The signal that a request is held no longer, with its async-id."""

_LONGEST_SECONDS = 1
_MANY_WAITING = QUEUE_LIMIT // 2


@dataclass(slots=True)
class _Held:
    """A request that is held, and what ends that at the latest, once it is stored."""

    device_id: str
    timer: Timer | None = None


class HeldRequests:
    """What is held back, in this process and in others on its database.

    It is in memory alone: after a restart nobody waits for the id any more, and all that waits is delivered.
    """

    def __init__(self, services: Services) -> None:
        self._database = services.database
        self._clock = services.clock
        self._dispatcher = services.dispatcher
        # By async-id, the oldest first.
        self._held: dict[str, _Held] = {}
        self._lock = threading.Lock()
        self._database.on(HELD, self._hold_of_other)
        self._database.on(RELEASED, self._release)

    @extends
    def device_request(self, submission: CommandSubmission) -> Handling | None:
        """Hold back a request whose application gave no async-id."""
        return None if "async-id" in request.args else self.hold(submission)

    def hold(self, submission: CommandSubmission) -> Handling:
        """Hold back a request that is about to be queued, until its 202 was sent or nobody is there to take it."""
        device_id, async_id = submission.device_id, submission.async_id

        def queued(session: Session, context: CommandContext) -> None:
            if context.unfinished >= _MANY_WAITING:
                self._make_room(session, device_id)
            self._hold(device_id, async_id)
            session.publish(HELD, f"{device_id} {async_id}", here=partial(self._stored, device_id, async_id))

        def respond(stored: Future[Command], accepted: Callable[[Command], Response]) -> Response:
            return when_stored(stored, accepted, partial(self._sent, stored, device_id, async_id))

        return Handling(queued, respond)

    def _sent(self, stored: Future[Command], device_id: str, async_id: str) -> None:
        if stored.done() and stored.exception() is not None:
            self._release(async_id)
            return
        # The writer takes it behind the request itself, and wakes the device on its own thread.
        self._database.submit_durable(
            lambda session: self._publish_release(session, device_id, async_id), by_leader=False, conflict_keys=()
        )

    def _publish_release(self, session: Session, device_id: str, async_id: str) -> None:
        session.publish(RELEASED, async_id)
        session.publish(WAITING, device_id)

    def _make_room(self, session: Session, device_id: str) -> None:
        """Let what waits shrink: who places so many at once has the oldest 202, and would else be refused."""
        with self._lock:
            oldest = next((each for each, held in self._held.items() if held.device_id == device_id), None)
        if oldest is not None:
            self._publish_release(session, device_id, oldest)

    def _hold(self, device_id: str, async_id: str) -> None:
        with self._lock:
            self._held[async_id] = _Held(device_id)
            self._dispatcher.held.add(async_id)

    def _stored(self, device_id: str, async_id: str) -> None:
        """It is on disk: from now on it is held for a second at most, whatever becomes of its client or process."""
        due_at = after_seconds(self._clock.now(), _LONGEST_SECONDS)
        timer = self._clock.call_at(due_at, lambda: self._give_up(device_id, async_id))
        with self._lock:
            held = self._held.get(async_id)
            if held is not None:
                held.timer = timer
                return
        timer.cancel()

    def _hold_of_other(self, *requests: str) -> None:
        """Hold back requests that another process has stored, each given as device id, a space and async-id."""
        for each in requests:
            device_id, async_id = each.split(" ")
            self._hold(device_id, async_id)
            self._stored(device_id, async_id)

    def _release(self, *async_ids: str) -> None:
        """Hold them no longer; their devices are yet to be woken."""
        for async_id in async_ids:
            with self._lock:
                held = self._held.pop(async_id, None)
                self._dispatcher.held.discard(async_id)
            if held is not None and held.timer is not None:
                held.timer.cancel()

    def _give_up(self, device_id: str, async_id: str) -> None:
        self._release(async_id)
        self._dispatcher.wake(device_id)
