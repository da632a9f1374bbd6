"""Applies presubscription rules to the registered devices, a part at a time. Source: specification 3.3; wire.md 3."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from typing import NamedTuple

from mirror_server.core.instants import Instant
from mirror_server.extensions.apply import store
from mirror_server.extensions.apply.store import Matched, RulesToApply
from mirror_server.hooks import extends
from mirror_server.service.subscriptions import SubscriptionService
from mirror_server.store.backend import StorageFailed
from mirror_server.store.database import Database
from mirror_server.store.session import AGAIN, Session

APPLY = "apply"
"""The kind of the signal that rules are to be applied."""

_log = logging.getLogger(__name__)

_RESOURCES_AT_ONCE = 2000
_STORED_AT_ONCE = 100
"""So many subscriptions are stored in one transaction, which holds up all others for a few milliseconds."""

_PARTS_WAITED_FOR = 50
"""After so many parts, about a second, the request that put rules waits no longer."""

_WAITED_SECONDS = 10.0
"""Nor does it wait for parts that a slow disk takes longer for."""

_STOP_SECONDS = 3


class RuleApplier:
    """Applies rules that were put with ``apply=now`` on a thread of its own, which ends when none are left.

    Resources are read and matched outside of the transaction that stores the subscriptions. How far the rules are
    applied is stored with each part, so that this process after a restart, or another one, goes on from there.

    Args:
        database: Where the rules are.
        subscriptions: Has the indexes of rules.
        is_leader: Whether this process leads.
    """

    def __init__(self, database: Database, subscriptions: SubscriptionService, is_leader: Callable[[], bool]) -> None:
        self._database = database
        self._subscriptions = subscriptions
        self._is_leader = is_leader
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._look_again = False
        self._is_stopping = False
        self._parts = 0
        # Each with the number of the part and the instant after which it is done.
        self._waiting: list[tuple[int, float, Future[None]]] = []

    @extends(specname="lead")
    def start(self) -> None:
        """Apply what is not applied yet, unless that is going on."""
        with self._lock:
            self._look_again = True
            if self._thread is None and not self._is_stopping:
                self._thread = threading.Thread(target=self._run, name="rules", daemon=True)
                self._thread.start()

    @extends(specname="resync")
    def wake(self, *_: str) -> None:
        """Apply what is not applied yet, where this process leads."""
        if self._is_leader():
            self.start()

    @extends
    def resumed(self, session: Session, since: Instant) -> None:  # noqa: ARG002 - as the hook is called
        """Go on with what could not be read or stored meanwhile."""
        session.after_commit(self.wake)

    @extends
    def stop(self) -> None:
        """Apply no further part; the others are applied after the next start."""
        with self._lock:
            self._is_stopping = True
            thread = self._thread
        if thread is not None:
            thread.join(_STOP_SECONDS)

    def rules_put(self, session: Session, app_id: str, *, apply_now: bool) -> Future[None] | None:
        """End the application of former rules, and with ``apply_now`` begin that of those that are stored now.

        Returns:
            Done when they are applied, or applied to many devices.
        """
        store.end(session, app_id)
        if not apply_now:
            return None
        store.begin(session, app_id)
        applied: Future[None] = Future()
        # Who waits is known when the first part begins, however long that takes.
        session.publish(APPLY, here=lambda: self._begin(applied))
        return applied

    def _begin(self, applied: Future[None]) -> None:
        with self._lock:
            is_stopping = self._is_stopping
            if not is_stopping:
                # Also where the thread is about to end: it looks for them before.
                self._look_again = True
                until = time.monotonic() + _WAITED_SECONDS
                self._waiting.append((self._parts + _PARTS_WAITED_FOR, until, applied))
        if is_stopping:
            applied.set_result(None)
        else:
            self.start()

    def _run(self) -> None:
        app_id: str | None = ""
        while not self._is_over(found_none=app_id is None):
            try:
                # Applications whose rules are being applied take turns.
                app_id = self._apply_part(app_id or "")
            except StorageFailed as error:
                told = "presubscription rules wait until the database answers, or for the next start: %s"
                _log.warning(told, error)
                app_id = None
            except Exception as error:
                _log.error("presubscription rules could not be applied; they are after the next start", exc_info=error)
                app_id = None

    def _is_over(self, *, found_none: bool) -> bool:
        """Whether no part is to be applied any more; releases those who waited long enough."""
        with self._lock:
            self._parts += 1
            is_over = self._is_stopping or (found_none and not self._look_again)
            if found_none:
                self._look_again = False
            if is_over:
                self._thread = None
            now = time.monotonic()
            done = [each for each in self._waiting if is_over or each[0] <= self._parts or each[1] <= now]
            self._waiting = [each for each in self._waiting if each not in done]
        for _, _, applied in done:
            applied.set_result(None)
        return is_over

    def _apply_part(self, after: str) -> str | None:
        """Apply rules of the application behind this one to some more resources.

        Returns:
            The application; ``None`` where no rules are left to be applied.
        """
        with self._database.read() as session:
            pending = store.next_to_apply(session, after)
            if pending is None:
                return None
            found = store.behind(session, pending.device_id, pending.path, most=_RESOURCES_AT_ONCE)
            matched = self._match(session, pending, found)
        reached = found[-1][:2] if found else (pending.device_id, pending.path)
        for piece in _pieces(matched, reached, is_end=len(found) < _RESOURCES_AT_ONCE):
            self._database.submit_durable(partial(self._store, pending=pending, piece=piece), by_leader=False).result()
            pending = pending._replace(device_id=piece.reached[0], path=piece.reached[1])
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

    def _store(self, session: Session, pending: RulesToApply, piece: _Piece) -> None:
        # Other rules were put meanwhile, or the same ones once more, or another process was faster.
        if not store.note_applied(session, pending, piece.reached, is_all=piece.is_last):
            return
        first, last, app_id = pending.device_id, piece.reached[0], pending.app_id
        store.add_matched(session, app_id, piece.matched)
        store.ask_again(session, first, last, app_id)
        for device_id in store.devices_to_ask(session, first, last, app_id):
            session.publish(AGAIN, device_id)


class _Piece(NamedTuple):
    """What is stored in one transaction.

    Attributes:
        matched: The resources that rules match.
        reached: The last resource they were held against, as device id and path.
        is_last: Whether there are no more resources behind it.
    """

    matched: Sequence[Matched]
    reached: tuple[str, str]
    is_last: bool


def _pieces(matched: Sequence[Matched], reached: tuple[str, str], *, is_end: bool) -> Iterator[_Piece]:
    """What is stored one transaction after the other; a device that is in two of them is asked twice at most."""
    for begin in range(0, max(1, len(matched)), _STORED_AT_ONCE):
        some = matched[begin : begin + _STORED_AT_ONCE]
        if begin + _STORED_AT_ONCE < len(matched):
            yield _Piece(some, (some[-1].device_id, some[-1].path), is_last=False)
        else:
            yield _Piece(some, reached, is_last=is_end)
