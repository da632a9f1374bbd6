"""Webhooks, which send the notification log to the URL of an application. Source: specification E4, E5; wire.md 4.

One task per application sends one message at a time, in order, and sends the next message after a success. So a slow
or dead URL delays no other application. The position and the failures are stored in the database, so the delivery
continues after a restart.

When a connection is opened, the host name is resolved once. The resolved addresses are checked and then used for the
connection. So the name cannot resolve to another address after the check. Redirects are never followed. The reason for
a failure appears only in the operator's log. Otherwise it would reveal to an application which services run in the
operator's networks.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Collection, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import orjson

from mirror_sdk.wire.channel import CallbackRegistration, Serialization
from mirror_server.clock import Clock
from mirror_server.config import Network
from mirror_server.core.errors import ApiError
from mirror_server.core.messages import MessageExtras, compose
from mirror_server.core.timestamps import Instant, after_seconds
from mirror_server.notifications.channels import Channels, ChannelType
from mirror_server.notifications.log import NotificationLog
from mirror_server.notifications.webhook_limits import LIMIT_SECONDS, CallFailed
from mirror_server.store import logs
from mirror_server.store.backend import NotLeader, StorageFailed
from mirror_server.store.database import Database
from mirror_server.store.logs import WebhookRow
from mirror_server.store.session import Session

if TYPE_CHECKING:
    from mirror_server.notifications.webhook_caller import WebhookCaller

_log = logging.getLogger(__name__)

T = TypeVar("T")

WEBHOOK = ChannelType("CALLBACK", "a webhook", "/v2/notification/callback", "a PUT to {} registers a webhook")

_TEST_FAILED = (
    f"the test call of the URL failed; the URL must respond to PUT with 200 or 204 within {LIMIT_SECONDS} s, without a"
    " redirect, and the operator must allow this server to call its address. The server's log has the reason"
)
_CALL_FAILED = "the URL did not respond with 200 or 204; the server's log has the reason"
# All failures take at least this long. Otherwise the duration would reveal whether a port of an internal machine is
# closed.
_FAILED_CALL_SECONDS = 1
_MAX_LOOKUPS = 200
# The pause after an internal error or a failure of the database. Failures of the URL have the longer delays below.
_PAUSE_SECONDS = 1
_MAX_DELAY_SECONDS = 120
_GIVE_UP_AFTER_SECONDS = 24 * 3600
# This is more than enough for the longest delay. Without it, a large number of failures would result in a huge number.
_MAX_DOUBLINGS = 16


class Webhooks:
    """The webhooks of all applications, which run on a separate event loop.

    Args:
        database: The database with the registrations and positions.
        clock: The clock of the server, which determines the pauses after failures.
        log: The log to deliver.
        channels: The registry of channel types, to which this type is added.
        networks: The networks that are allowed in addition to public addresses.
    """

    def __init__(
        self, database: Database, clock: Clock, log: NotificationLog, channels: Channels, networks: Collection[Network]
    ) -> None:
        self._database = database
        self._clock = clock
        self._log = log
        self._channels = channels
        channels.add(WEBHOOK, lambda session, app_id: logs.webhook(session, app_id) is not None)
        self._networks = networks
        self._caller: WebhookCaller | None = None
        self._deliveries: dict[str, asyncio.Task[None]] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="webhooks", daemon=True)
        self._thread.start()

    def start(self) -> None:
        """Start the delivery to all registered webhooks."""
        with self._database.read() as session:
            app_ids = logs.with_webhook(session)
        for app_id in app_ids:
            self._loop.call_soon_threadsafe(self._restart, app_id)

    def stop(self) -> None:
        """Stop the delivery until the next start. A message that is in flight is sent again after that start."""
        self._submit(self._cancel_all()).result()

    def close(self) -> None:
        """Stop the delivery, and close the connections and the event loop."""
        self.stop()
        if self._caller is not None:
            self._submit(self._caller.close()).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def registration(self, app_id: str) -> WebhookRow | None:
        """Return the webhook of an application, or ``None`` if it has no webhook."""
        return self._database.query(lambda session: logs.webhook(session, app_id))

    def backlog(self, app_id: str) -> int:
        """Return the number of entries that have not been delivered yet."""
        state = self._database.query(lambda session: logs.state(session, app_id))
        return state.waiting if state else 0

    def register(self, app_id: str, registration: CallbackRegistration) -> Future[None]:
        """Test the URL, then store the webhook and start its delivery.

        The future raises an ApiError (400) if the URL does not respond, or if the key has a channel of another type.
        """
        return self._submit(self._register(app_id, registration))

    def delete(self, app_id: str) -> Future[bool]:
        """Delete the webhook. The future's result is false if the application has no webhook."""
        return self._submit(self._delete(app_id))

    def _submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        # Names are resolved on these threads. With the few default threads, slow name servers would delay other
        # webhooks.
        self._loop.set_default_executor(ThreadPoolExecutor(_MAX_LOOKUPS, thread_name_prefix="webhook-names"))
        self._loop.run_forever()

    async def _cancel_all(self) -> None:
        deliveries, self._deliveries = self._deliveries, {}
        for delivery in deliveries.values():
            delivery.cancel()
        await asyncio.gather(*deliveries.values(), return_exceptions=True)

    async def _store(self, work: Callable[[Session], T]) -> T:
        return await asyncio.wrap_future(self._database.submit(work))

    async def _store_durable(self, work: Callable[[Session], T]) -> T:
        return await asyncio.wrap_future(self._database.submit_durable(work))

    async def _register(self, app_id: str, registration: CallbackRegistration) -> None:
        if not await self._call(app_id, registration, b"{}"):
            raise ApiError.of_field("url", _TEST_FAILED)

        def work(session: Session) -> None:
            # Checked in the transaction, because a poll channel may have been opened while the URL was tested.
            other = self._channels.other(session, app_id, WEBHOOK)
            if other is not None:
                raise other
            # A webhook that replaces another one continues at its position.
            if logs.webhook(session, app_id) is None:
                self._log.skip_read(session, app_id)
            logs.put_webhook(session, app_id, orjson.dumps(registration.to_wire()).decode(), self._clock.now())

        await self._store(work)
        self._restart(app_id)

    async def _delete(self, app_id: str) -> bool:
        is_deleted = await self._store(lambda session: logs.delete_webhook(session, app_id))
        # Called after the deletion is stored. If storing fails, the webhook still exists and its delivery must
        # continue.
        delivery = self._deliveries.pop(app_id, None)
        if delivery is not None:
            delivery.cancel()
        return is_deleted

    def _restart(self, app_id: str) -> None:
        previous = self._deliveries.pop(app_id, None)
        if previous is not None:
            previous.cancel()
        self._deliveries[app_id] = self._loop.create_task(self._deliver(app_id))

    async def _deliver(self, app_id: str) -> None:
        """Send messages until the webhook is deleted or another process becomes the leader. Retry after errors."""
        while True:
            try:
                await self._deliver_all(app_id)
            except NotLeader:
                return
            except StorageFailed:
                await asyncio.sleep(_PAUSE_SECONDS)
            except Exception:
                _log.exception("delivery to a webhook failed; retrying in a moment", extra={"application": app_id})
                await asyncio.sleep(_PAUSE_SECONDS)
            else:
                return

    async def _deliver_all(self, app_id: str) -> None:
        while (row := self.registration(app_id)) is not None:
            await self._wait_until(self._attempt_at(row))
            # Created before the log is read, so that an entry that is appended in between is not missed.
            waiter = self._log.entry_waiter(app_id, is_poll=False)
            try:
                if not await self._send_next(app_id, row):
                    has_more = asyncio.Event()
                    waiter.add_done_callback(_setter(has_more))
                    await has_more.wait()
            finally:
                waiter.cancel()

    async def _send_next(self, app_id: str, row: WebhookRow) -> bool:
        """Send the next message. Return false if there is no message to send."""
        registration = CallbackRegistration.model_validate_json(row.registration)
        serialization = registration.serialization or Serialization()
        state = self._database.query(lambda session: logs.state(session, app_id))
        page = self._log.read(app_id, state.position if state else 0, limit=serialization.max_chunk_size)
        if not page.entries:
            return False
        message = compose(page.entries, MessageExtras(**serialization.cfg.model_dump()))
        if await self._call(app_id, registration, orjson.dumps(message)):
            # Stored after the delivery. So a message may be sent twice after a crash, but it is never lost.
            await self._store_durable(lambda session: self._record_success(session, app_id, page.cursor))
        else:
            await self._store_durable(lambda session: self._record_failure(session, app_id, row))
        return True

    async def _call(self, app_id: str, registration: CallbackRegistration, body: bytes) -> bool:
        """Call the URL once and return whether the call succeeded.

        The reason for a failure appears only in the server's log.
        """
        # Imported at the first call, because most servers call no webhook, and httpcore is slow to import.
        from mirror_server.notifications.webhook_caller import WebhookCaller  # noqa: PLC0415

        self._caller = self._caller or WebhookCaller(self._networks)
        fails_at = self._loop.time() + _FAILED_CALL_SECONDS
        try:
            await self._caller.put(registration.url, registration.headers or {}, body)
        except CallFailed as failure:
            host = urlsplit(registration.url).netloc.rpartition("@")[2]
            fields = {"application": app_id, "host": host, "reason": str(failure)}
            _log.warning("a webhook could not be called", extra=fields)
            await asyncio.sleep(fails_at - self._loop.time())
            return False
        return True

    def _record_success(self, session: Session, app_id: str, position: int) -> None:
        logs.set_position(session, app_id, position)
        logs.webhook_succeeded(session, app_id, self._clock.now())

    def _record_failure(self, session: Session, app_id: str, row: WebhookRow) -> None:
        # If the webhook was replaced or deleted after the call, the failure belongs to the previous webhook.
        if logs.webhook(session, app_id) != row:
            return
        now = self._clock.now()
        if row.failing_since is not None and is_abandoned(row.failing_since, self._clock.steady_now()):
            logs.delete_webhook(session, app_id)
            message = "a webhook was removed because its calls failed for 24 hours"
            session.after_commit(lambda: _log.warning(message, extra={"application": app_id}))
            return
        failures = row.failures + 1
        next_attempt_at = after_seconds(now, delay_seconds(failures))
        logs.webhook_failed(
            session, app_id, failures=failures, error=_CALL_FAILED, at=now, next_attempt_at=next_attempt_at
        )

    def _attempt_at(self, row: WebhookRow) -> Instant | None:
        """Return the time of the next attempt, or ``None`` to send immediately.

        The time is at most one pause from now, even if the clock has been set back.
        """
        if row.next_attempt_at is None:
            return None
        return min(row.next_attempt_at, after_seconds(self._clock.now(), delay_seconds(row.failures)))

    async def _wait_until(self, instant: int | None) -> None:
        if instant is None or instant <= self._clock.now():
            return
        reached = asyncio.Event()
        timer = self._clock.call_at(instant, _setter(reached))
        try:
            await reached.wait()
        finally:
            timer.cancel()


def _setter(event: asyncio.Event) -> Callable[..., None]:
    """Return a function that any thread may call to set an event of this event loop."""
    loop = asyncio.get_running_loop()

    def set_event(*_: object) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(event.set)

    return set_event


def delay_seconds(failures: int) -> int:
    """Return the pause in seconds after this number of consecutive failures: 1, 2, 4 and so on, and at most 120."""
    return min(1 << min(failures - 1, _MAX_DOUBLINGS), _MAX_DELAY_SECONDS)


def is_abandoned(failing_since: Instant, now: Instant) -> bool:
    """Return whether to remove a webhook, because its calls have failed for 24 hours.

    If there are no messages, no calls are made, so none can fail.
    """
    return now >= after_seconds(failing_since, _GIVE_UP_AFTER_SECONDS)
