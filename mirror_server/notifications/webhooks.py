"""Webhooks: the notification log pushed to an application's URL. Source: specification E4, E5; wire.md 4.

One task for each application sends one message at a time, in order, and the next after it was taken. So a slow or dead
URL holds up nobody else. Position and failures are in the database: a restart goes on where it was.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar
from urllib.parse import urlsplit

import orjson

from mirror_sdk.wire.channel import CallbackRegistration, Serialization
from mirror_server.clock import Clock
from mirror_server.core.errors import Refusal
from mirror_server.core.instants import Instant, after_seconds
from mirror_server.core.messages import Extras, compose
from mirror_server.notifications.channels import Channel, Channels
from mirror_server.notifications.log import More, NotificationLog
from mirror_server.notifications.outbound import LIMIT_SECONDS, AddressPolicy, Caller, CallFailed
from mirror_server.store import logs
from mirror_server.store.backend import NotLeader, StorageFailed
from mirror_server.store.database import Database
from mirror_server.store.logs import WebhookRow
from mirror_server.store.session import Session

_log = logging.getLogger(__name__)

T = TypeVar("T")

WEBHOOK = Channel("CALLBACK", "a webhook", "/v2/notification/callback", "a PUT to {} registers a webhook")

_TEST_FAILED = (
    f"the test call of the URL failed: it must answer PUT with 200 or 204 within {LIMIT_SECONDS} s and without a"
    " redirect, at an address that the operator lets this server call; the server's log says what it did instead"
)
_CALL_FAILED = "the URL did not answer with 200 or 204; the server's log says what it did instead"
# A closed port is known at once and an answer a moment later: told that fast, one could be known from the other.
_LONGEST_DELAY_SECONDS = 120
_GIVE_UP_AFTER_SECONDS = 24 * 3600
_MOST_DOUBLINGS = 16
_FAILED_CALL_SECONDS = 1
_MOST_LOOKUPS = 200
_PAUSE_SECONDS = 1


class Webhooks:
    """All applications' webhooks, on an event loop of their own.

    Args:
        database: Where registrations and positions are.
        clock: Domain time, for the pauses after failures.
        log: What is delivered.
        channels: The types of channels, of which this is one.
        policy: Which addresses may be called.
    """

    def __init__(
        self, database: Database, clock: Clock, log: NotificationLog, channels: Channels, policy: AddressPolicy
    ) -> None:
        self._database = database
        self._clock = clock
        self._log = log
        self._channels = channels
        channels.add(WEBHOOK, lambda session, app_id: logs.webhook(session, app_id) is not None)
        self._policy = policy
        self._deliveries: dict[str, asyncio.Task[None]] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="webhooks", daemon=True)
        self._thread.start()

    def start(self) -> None:
        """Go on with the webhooks that are registered."""
        with self._database.read() as session:
            app_ids = logs.with_webhook(session)
        for app_id in app_ids:
            self._loop.call_soon_threadsafe(self._restart, app_id)

    def stop(self) -> None:
        """Deliver nothing until started again; a message that is under way is sent again then."""
        self._submit(self._cancel_all()).result()

    def close(self) -> None:
        """Stop for good."""
        self.stop()
        self._submit(self._caller.close()).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def registration(self, app_id: str) -> WebhookRow | None:
        """The webhook of an application."""
        return self._database.look(lambda session: logs.webhook(session, app_id))

    def backlog(self, app_id: str) -> int:
        """How many entries wait to be delivered."""
        state = self._database.look(lambda session: logs.state(session, app_id))
        return state.waiting if state else 0

    def register(self, app_id: str, registration: CallbackRegistration) -> Future[None]:
        """Probe the URL, then store the webhook and begin to deliver.

        The future raises a Refusal: 400 when the URL does not answer, or the key has a channel of another
        type.
        """
        return self._submit(self._register(app_id, registration))

    def delete(self, app_id: str) -> Future[bool]:
        """Remove the webhook; gives false if there is none."""
        return self._submit(self._delete(app_id))

    def _submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        # Names are looked up on its threads; with the few of the usual one, slow answers would hold up others.
        self._loop.set_default_executor(ThreadPoolExecutor(_MOST_LOOKUPS, thread_name_prefix="webhook-names"))
        self._caller = Caller(self._policy)
        self._loop.run_forever()

    async def _cancel_all(self) -> None:
        deliveries, self._deliveries = self._deliveries, {}
        for delivery in deliveries.values():
            delivery.cancel()
        await asyncio.gather(*deliveries.values(), return_exceptions=True)

    async def _store(self, work: Callable[[Session], T]) -> T:
        return await asyncio.wrap_future(self._database.submit(work))

    async def _note(self, work: Callable[[Session], T]) -> T:
        return await asyncio.wrap_future(self._database.insist(work))

    async def _register(self, app_id: str, registration: CallbackRegistration) -> None:
        if not await self._call(app_id, registration, b"{}"):
            raise Refusal.of_field("url", _TEST_FAILED)

        def work(session: Session) -> None:
            # In the transaction: a poll channel may have been opened while the URL was probed.
            other = self._channels.other(session, app_id, WEBHOOK)
            if other is not None:
                raise other
            if logs.webhook(session, app_id) is None:
                self._log.pass_over_read(session, app_id)
            logs.put_webhook(session, app_id, orjson.dumps(registration.to_wire()).decode(), self._clock.now())

        await self._store(work)
        self._restart(app_id)

    async def _delete(self, app_id: str) -> bool:
        delivery = self._deliveries.pop(app_id, None)
        if delivery is not None:
            delivery.cancel()
        return await self._store(lambda session: logs.delete_webhook(session, app_id))

    def _restart(self, app_id: str) -> None:
        previous = self._deliveries.pop(app_id, None)
        if previous is not None:
            previous.cancel()
        self._deliveries[app_id] = self._loop.create_task(self._deliver(app_id))

    async def _deliver(self, app_id: str) -> None:
        """Send message after message until the webhook is gone, or another process delivers it, whatever fails."""
        while True:
            try:
                await self._deliver_all(app_id)
            except NotLeader:
                return
            except StorageFailed:
                await asyncio.sleep(_PAUSE_SECONDS)
            except Exception:
                _log.exception("delivery to a webhook failed; it goes on in a moment", extra={"application": app_id})
                await asyncio.sleep(_PAUSE_SECONDS)
            else:
                return

    async def _deliver_all(self, app_id: str) -> None:
        while (row := self.registration(app_id)) is not None:
            await self._reach(self._attempt_at(row))
            # Before the log is read: what is added in between is not waited for in vain.
            more = self._log.more(app_id, is_poll=False)
            try:
                if not await self._send_next(app_id, row):
                    await _told(more)
            finally:
                more.cancel()

    async def _send_next(self, app_id: str, row: WebhookRow) -> bool:
        """Send what comes next; false when there is nothing."""
        registration = CallbackRegistration.model_validate_json(row.registration)
        serialization = registration.serialization or Serialization()
        state = self._database.look(lambda session: logs.state(session, app_id))
        page = self._log.read(app_id, state.position if state else 0, most=serialization.max_chunk_size)
        if not page.entries:
            return False
        message = compose(page.entries, Extras(**serialization.cfg.model_dump()))
        if await self._call(app_id, registration, orjson.dumps(message)):
            # When it has arrived: after a kill in between it is sent a second time, and never lost.
            await self._note(lambda session: self._note_success(session, app_id, page.cursor))
        else:
            await self._note(lambda session: self._note_failure(session, app_id, row))
        return True

    async def _call(self, app_id: str, registration: CallbackRegistration, body: bytes) -> bool:
        """Send once; gives whether it arrived. Why it did not stands in the log, which the application does not see."""
        told_at = self._loop.time() + _FAILED_CALL_SECONDS
        try:
            await self._caller.put(registration.url, registration.headers or {}, body)
        except CallFailed as failure:
            place = {"application": app_id, "host": urlsplit(registration.url).netloc.rpartition("@")[2]}
            _log.warning("a webhook could not be called", extra={**place, "reason": str(failure)})
            await asyncio.sleep(told_at - self._loop.time())
            return False
        return True

    def _note_success(self, session: Session, app_id: str, position: int) -> None:
        logs.set_position(session, app_id, position)
        logs.webhook_succeeded(session, app_id, self._clock.now())

    def _note_failure(self, session: Session, app_id: str, row: WebhookRow) -> None:
        now = self._clock.now()
        if row.failing_since is not None and is_given_up(row.failing_since, self._clock.sure_now()):
            logs.delete_webhook(session, app_id)
            session.after_commit(lambda: _log.warning("a webhook was given up", extra={"application": app_id}))
            return
        failures = row.failures + 1
        next_attempt_at = after_seconds(now, delay_seconds(failures))
        logs.webhook_failed(
            session, app_id, failures=failures, error=_CALL_FAILED, at=now, next_attempt_at=next_attempt_at
        )

    def _attempt_at(self, row: WebhookRow) -> Instant | None:
        """When to send next: after the pause at the latest, also where the clock was set back since that began."""
        if row.next_attempt_at is None:
            return None
        return min(row.next_attempt_at, after_seconds(self._clock.now(), delay_seconds(row.failures)))

    async def _reach(self, instant: int | None) -> None:
        """Wait until domain time has come to the instant."""
        if instant is None or instant <= self._clock.now():
            return
        reached = asyncio.Event()
        timer = self._clock.call_at(instant, lambda: self._wake(reached))
        try:
            await reached.wait()
        finally:
            timer.cancel()

    def _wake(self, event: asyncio.Event) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(event.set)


async def _told(more: More) -> None:
    """Wait until there is more."""
    loop, is_told = asyncio.get_running_loop(), asyncio.Event()
    more.add_done_callback(lambda _: None if loop.is_closed() else loop.call_soon_threadsafe(is_told.set))
    await is_told.wait()


def delay_seconds(failures: int) -> int:
    """How long to wait after that many failures in a row: 1, 2, 4 ... at most 120 seconds."""
    return min(1 << min(failures - 1, _MOST_DOUBLINGS), _LONGEST_DELAY_SECONDS)


def is_given_up(failing_since: Instant, now: Instant) -> bool:
    """Whether a channel is removed: its calls have failed for 24 hours. One that had nothing to send did not fail."""
    return now >= after_seconds(failing_since, _GIVE_UP_AFTER_SECONDS)
