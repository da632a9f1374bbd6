"""The service that applies presubscription rules to the registered devices, in batches.

Source: specification 3.3; wire.md 3.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from typing import NamedTuple

from mirror_server.core.timestamps import Instant
from mirror_server.extensions.apply import store
from mirror_server.extensions.apply.store import Matched, RulesToApply
from mirror_server.hooks import extends
from mirror_server.service.subscriptions import SubscriptionService
from mirror_server.store.backend import StorageFailed
from mirror_server.store.database import Database
from mirror_server.store.session import AGAIN, Session

APPLY = "apply"
"""The kind of signal that is published when there are rules to apply."""

_log = logging.getLogger(__name__)

_RESOURCES_PER_BATCH = 2000
_STORED_PER_TRANSACTION = 100
"""The maximum number of subscriptions per transaction. A transaction delays all others for a few milliseconds."""

_BATCHES_WAITED_FOR = 50
"""The number of batches, which take about a second, after which the request that put the rules receives its response.
"""

_MAX_WAIT_SECONDS = 10.0
"""The maximum time in seconds before that request receives its response, if a slow disk needs more time."""

_STOP_SECONDS = 3


class RuleApplier:
    """The service that applies rules which were put with ``apply=now``. Its thread ends when no rules are left.

    Resources are read and matched outside the transaction that stores the subscriptions. The progress is stored with
    each batch. So this process continues at the same point after a restart, or another process does.

    Args:
        database: The database with the rules.
        subscriptions: The subscription service, which caches the indexes of rules.
        is_leader: A function that returns whether this process is the leader.
    """

    def __init__(self, database: Database, subscriptions: SubscriptionService, is_leader: Callable[[], bool]) -> None:
        self._database = database
        self._subscriptions = subscriptions
        self._is_leader = is_leader
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._has_work = False
        self._is_stopping = False
        self._batches = 0
        # Each future, with the number of the batch and the time after which it completes.
        self._waiting: list[tuple[int, float, Future[None]]] = []

    @extends(specname="lead")
    def start(self) -> None:
        """Apply the remaining rules, unless the thread already runs."""
        with self._lock:
            self._has_work = True
            if self._thread is None and not self._is_stopping:
                self._thread = threading.Thread(target=self._run, name="rules", daemon=True)
                self._thread.start()

    @extends(specname="resync")
    def wake(self, *_: str) -> None:
        """Apply the remaining rules, if this process is the leader."""
        if self._is_leader():
            self.start()

    @extends
    def resumed(self, session: Session, since: Instant) -> None:  # noqa: ARG002 - as the hook is called
        """Continue with rules that could not be read or stored during a failure of the database."""
        session.after_commit(self.wake)

    @extends
    def stop(self) -> None:
        """Stop after the current batch. The remaining rules are applied after the next start."""
        with self._lock:
            self._is_stopping = True
            thread = self._thread
        if thread is not None:
            thread.join(_STOP_SECONDS)

    def rules_put(self, session: Session, app_id: str, *, apply_now: bool) -> Future[None] | None:
        """Stop applying the previous rules.

        With ``apply_now``, start applying the rules that are stored in this transaction.

        Returns:
            A future that completes when the rules are applied to all devices. In a large fleet it completes earlier,
            usually after about a second.
        """
        store.end(session, app_id)
        if not apply_now:
            return None
        store.begin(session, app_id)
        applied: Future[None] = Future()
        # Called before the first batch starts, even if the start takes long.
        session.publish(APPLY, here=lambda: self._start_waiting(applied))
        return applied

    def _start_waiting(self, applied: Future[None]) -> None:
        with self._lock:
            is_stopping = self._is_stopping
            if not is_stopping:
                # The thread may be about to end. It checks this flag before it ends.
                self._has_work = True
                until = time.monotonic() + _MAX_WAIT_SECONDS
                self._waiting.append((self._batches + _BATCHES_WAITED_FOR, until, applied))
        if is_stopping:
            applied.set_result(None)
        else:
            self.start()

    def _run(self) -> None:
        app_id: str | None = ""
        while not self._is_over(found_none=app_id is None):
            try:
                # Applications whose rules are being applied take turns.
                app_id = self._apply_batch(app_id or "")
            except StorageFailed as error:
                message = (
                    "cannot apply presubscription rules: %s; retrying when the database responds or the server restarts"
                )
                _log.warning(message, error)
                app_id = None
            except Exception as error:
                _log.error("applying presubscription rules failed; the next start retries it", exc_info=error)
                app_id = None

    def _is_over(self, *, found_none: bool) -> bool:
        """Return whether no batch is left to apply. Complete the futures that have waited long enough."""
        with self._lock:
            self._batches += 1
            is_over = self._is_stopping or (found_none and not self._has_work)
            if found_none:
                self._has_work = False
            if is_over:
                self._thread = None
            now = time.monotonic()
            done = [each for each in self._waiting if is_over or each[0] <= self._batches or each[1] <= now]
            self._waiting = [each for each in self._waiting if each not in done]
        for _, _, applied in done:
            applied.set_result(None)
        return is_over

    def _apply_batch(self, after: str) -> str | None:
        """Apply the rules of the next application after ``after`` to a batch of resources.

        Returns:
            The id of the application, or ``None`` if no rules are left to apply.
        """
        with self._database.read() as session:
            pending = store.next_to_apply(session, after)
            if pending is None:
                return None
            found = store.resources_after(session, pending.device_id, pending.path, most=_RESOURCES_PER_BATCH)
            matched = self._match(session, pending, found)
        reached = found[-1][:2] if found else (pending.device_id, pending.path)
        for chunk in _chunks(matched, reached, is_end=len(found) < _RESOURCES_PER_BATCH):
            # The work must not be dropped after a change of the leader. ``_store`` itself checks whether the stored
            # progress is unchanged.
            self._database.submit_durable(partial(self._store, pending=pending, chunk=chunk), by_leader=False).result()
            pending = pending._replace(device_id=chunk.reached[0], path=chunk.reached[1])
        return pending.app_id

    def _match(self, session: Session, pending: RulesToApply, found: list[tuple[str, str, int]]) -> list[Matched]:
        paths: dict[str, list[str]] = {}
        for device_id, path, can_be_observed in found:
            if can_be_observed:
                paths.setdefault(device_id, []).append(path)
        match = partial(self._subscriptions.matching, pending.app_id, pending.rules)
        return [
            Matched(position, device.device_id, path, device.endpoint_name, device.endpoint_type)
            for device in sorted(store.registered(session, list(paths)), key=lambda each: each.device_id)
            for path, position in match(device, paths[device.device_id]).items()
        ]

    def _store(self, session: Session, pending: RulesToApply, chunk: _Chunk) -> None:
        # In the meantime the rules may have been replaced or put again, or another process may have been faster.
        if not store.advance(session, pending, chunk.reached, is_all=chunk.is_last):
            return
        first, last, app_id = pending.device_id, chunk.reached[0], pending.app_id
        store.add_matched(session, app_id, chunk.matched)
        store.retry_rejected(session, first, last, app_id)
        for device_id in store.devices_to_subscribe(session, first, last, app_id):
            session.publish(AGAIN, device_id)


class _Chunk(NamedTuple):
    """The subscriptions that are stored in one transaction.

    Attributes:
        matched: The resources that match rules.
        reached: The device id and the path of the last resource that was compared with the rules.
        is_last: Whether no resources follow.
    """

    matched: Sequence[Matched]
    reached: tuple[str, str]
    is_last: bool


def _chunks(matched: Sequence[Matched], reached: tuple[str, str], *, is_end: bool) -> Iterator[_Chunk]:
    """Yield the chunks to store.

    A device that is in two chunks receives at most two subscribe commands for a resource.
    """
    for begin in range(0, max(1, len(matched)), _STORED_PER_TRANSACTION):
        batch = matched[begin : begin + _STORED_PER_TRANSACTION]
        if begin + _STORED_PER_TRANSACTION < len(matched):
            yield _Chunk(batch, (batch[-1].device_id, batch[-1].path), is_last=False)
        else:
            yield _Chunk(batch, reached, is_last=is_end)
