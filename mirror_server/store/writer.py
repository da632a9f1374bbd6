"""Group commit: one thread runs all waiting work in one transaction.

The futures of the work complete after the commit.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections import deque
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any

from mirror_server.store.backend import Backend, NotLeader, StorageFailed, TooMuchWaiting

_log = logging.getLogger(__name__)

MAX_WAITING = 5000
"""The maximum number of waiting pieces of work. Above this number, work without ``until_stored`` is rejected."""
# A larger group would delay its first caller longer, and would hardly save further disk syncs.
_MAX_GROUP = 500
_RETRY_SECONDS = 1.0
_RESPONSES_SECONDS = 0.001


@dataclass(slots=True, eq=False)
class _Work:
    run: Callable[..., Any]
    future: Future[Any]
    until_stored: bool
    by_leader: bool
    items: Sequence[Any] | None
    """The arguments to combine with the arguments of other work of the same kind. ``None`` to run the work alone."""
    conflict_keys: Collection[str] | None
    result: Any = None
    error: BaseException | None = None

    def resolve(self) -> None:
        future, error = self.future, self.error
        # The traceback of an error refers to this object. Without the deletion they would form a reference cycle.
        del self.future, self.error
        if not future.set_running_or_notify_cancel():
            return
        if error is None:
            future.set_result(self.result)
        else:
            future.set_exception(error)


class Writer:
    """The single writer of a database. It runs work in the order in which the work was submitted.

    Args:
        backend: The database.

    Attributes:
        backend: The database.
        wait_for_responses: A function that waits until the responses to committed work are sent, for at most the given
            number of seconds. It is called before the callbacks of :meth:`after_group`.
        interrupted: A function that is called when writes start to fail.
        resumed: A function that is called when writes succeed again.
    """

    wait_for_responses: Callable[[float], object]
    interrupted: Callable[[], None]
    resumed: Callable[[], None]

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self._session = backend.writing
        self.wait_for_responses = lambda _: None
        self.interrupted = self.resumed = lambda: None
        self._queue: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._postponed: list[_Work] = []
        self._last_effects: deque[Callable[[], None]] = deque()
        self._is_failing = False
        self._is_closing = False
        self._unfinished = 0
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self._thread.start()

    def enqueue(
        self,
        run: Callable[..., Any],
        *,
        items: Sequence[Any] | None = None,
        until_stored: bool = False,
        by_leader: bool = False,
        conflict_keys: Collection[str] | None = None,
    ) -> Future[Any]:
        """Run work in a transaction.

        The future completes when the transaction is on disk. If the work raises an exception, its writes are rolled
        back, its effects are discarded, and the future raises the same exception. Other work in the transaction is not
        affected.

        Args:
            run: The function to run. Its first argument is the session. It may run more than once. Earlier attempts
                are rolled back.
            items: The second argument of ``run``. The writer may combine calls with the same ``run`` into one call
                with the items of all these calls, in order. Then ``run`` must return ``None``, or one result per call.
                The combined call may run before earlier work that has no common conflict key. If it fails, each call
                runs alone, and succeeds or fails alone.
            until_stored: Whether to retry until the work is stored. Use it for events that have already happened and
                cannot be rejected.
            by_leader: Whether to store the work only while this process is the leader.
            conflict_keys: Names for the data that the work changes, or that must not change while the work runs. The
                names are device ids or other agreed names. Other processes may concurrently commit work that has no
                common key. ``None`` if the work must run alone.

        The future raises :class:`StorageFailed` if the work cannot be stored. It raises :class:`TooMuchWaiting` if too
        much work is waiting, and :class:`NotLeader` if another process has become the leader.
        """
        future: Future[Any] = Future()
        with self._changed:
            if not until_stored and self._unfinished >= MAX_WAITING:
                future.set_exception(TooMuchWaiting(f"{self._unfinished} changes are waiting to be stored"))
                return future
            # The work is counted before it is queued, so that the count is never 0 while work is about to be queued.
            self._unfinished += 1
        self._queue.put(_Work(run, future, until_stored, by_leader, items, conflict_keys))
        return future

    def after_group(self, effect: Callable[[], None]) -> None:
        """Call ``effect`` after all effects of the current transaction. On another thread, call it immediately."""
        if threading.current_thread() is self._thread:
            self._last_effects.append(effect)
        else:
            effect()

    def count_waiting(self) -> int:
        """Return the number of submitted pieces of work that are not finished."""
        return self._unfinished

    def settle(self, timeout_seconds: float = 30) -> bool:
        """Wait until all work and all effects have finished. Return false after a timeout.

        The effects of work may submit further work. This method waits for that work too.
        """
        with self._changed:
            return self._changed.wait_for(lambda: self._unfinished == 0, timeout_seconds)

    def close(self) -> None:
        """Finish the submitted work, then stop. Work that cannot be stored fails."""
        # The marker is queued after all submitted work, so the work finishes first.
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while not self._is_closing:
            # Postponed work was submitted earlier than all work in the queue.
            group = self._postponed + self._next_group()
            if not group:
                continue
            self._postponed = []
            self._process(group)
            # Counted after the effects, so that ``settle`` also waits for the work that the effects submitted.
            with self._changed:
                self._unfinished -= len(group) - len(self._postponed)
                self._changed.notify_all()

    def _next_group(self) -> list[_Work]:
        """Return the waiting work, or an empty list if it is time to retry postponed work.

        The marker that :meth:`close` queues ends the thread after this group.
        """
        group: list[_Work] = []
        try:
            item = self._queue.get(timeout=_RETRY_SECONDS if self._postponed else None)
            while item is not None:
                group.append(item)
                if len(group) == _MAX_GROUP:
                    return group
                item = self._queue.get_nowait()
        except queue.Empty:
            return group
        self._is_closing = True
        return group

    def _process(self, group: list[_Work]) -> None:
        try:
            self.backend.begin(_conflict_keys_of(group))
            self._perform_all(group)
            self.backend.commit()
        except Exception as error:
            # This is needed even if the commit failed, because the next group needs a connection without an open
            # transaction.
            self._undo()
            self._fail(group, error)
        else:
            self._note_success()
        effects = self._session.take_effects()
        for work in group:
            if work not in self._postponed:
                work.resolve()
        # The effects wake readers and devices, so they run after the commit. A crash before the commit would undo
        # the changes that the effects report.
        for effect in effects:
            _perform_effect(effect)
        if self._last_effects:
            # Other threads send the responses. Without this pause, the following slow effects could delay these
            # threads.
            self.wait_for_responses(_RESPONSES_SECONDS)
        while self._last_effects:
            _perform_effect(self._last_effects.popleft())

    def _perform_all(self, group: list[_Work]) -> None:
        """Run the work in combined batches.

        If a batch fails, the complete group runs again, one piece of work at a time. This is slower, but only the work
        that caused the failure fails.
        """
        try:
            for works in _combined(group):
                self._perform(works)
        except Exception as error:
            if self.backend.is_storage_error(error):
                raise
            self._undo()
            self.backend.begin(_conflict_keys_of(group))
            for work in group:
                self._perform_each(work)

    def _perform(self, works: Sequence[_Work]) -> None:
        """Run all work of a batch with one call."""
        first = works[0]
        results: Sequence[Any] | None
        # Another process may have become the leader after the work was submitted. All work of one kind has the same
        # `by_leader`.
        if first.by_leader and not self.backend.is_leader:
            for work in works:
                work.error = NotLeader("another process is the leader")
            return
        if first.items is None:
            results = [first.run(self._session)]
        else:
            results = first.run(self._session, [item for work in works for item in work.items or ()])
        for work, result in zip(works, repeat(None) if results is None else results, strict=results is not None):
            # An earlier attempt may have left its error.
            work.result, work.error = result, None

    def _perform_each(self, work: _Work) -> None:
        """Run one piece of work in a savepoint, so that its failure does not roll back other work."""
        mark = self._session.mark()
        self.backend.begin_work()
        try:
            self._perform([work])
        except Exception as error:
            if self.backend.is_storage_error(error):
                # The complete transaction may already be rolled back, with all other work of the group.
                raise
            self.backend.undo_work()
            self._session.discard_effects(mark)
            work.error = error

    def _undo(self) -> None:
        self._session.discard_effects(0)
        try:
            self.backend.undo()
        except Exception:
            # A lost connection has already rolled the transaction back. The caller handles the error that led to
            # this call.
            _log.debug("no transaction to roll back", exc_info=True)

    def _fail(self, group: list[_Work], error: Exception) -> None:
        """Fail the work of a group, and postpone the work that must be retried until it is stored."""
        failure = error
        if not self.backend.is_storage_error(error):
            _log.error("a transaction could not be committed; its work was undone", exc_info=error)
        else:
            reason = str(error).partition("\n")[0]
            if not isinstance(error, StorageFailed):
                failure = StorageFailed(f"cannot write to its database: {reason}")
            if not self._is_failing:
                _log.error("cannot write to the database (%s); the server rejects all changes until it can", reason)
                _perform_effect(self.interrupted)
            self._is_failing = True
            self._postponed = [work for work in group if work.until_stored and not self._is_closing]
        for work in group:
            work.error = failure

    def _note_success(self) -> None:
        if self._is_failing:
            self._is_failing = False
            _log.warning("the database stores changes again")
            _perform_effect(self.resumed)


@dataclass(slots=True)
class _Batch:
    """Work of one kind that runs in one call, with its conflict keys.

    ``None`` as the conflict keys means that all other work conflicts.
    """

    works: list[_Work]
    conflict_keys: set[str] | None

    def conflicts_with(self, work: _Work) -> bool:
        """Return whether other work may have a common conflict key. If it may, the order of the two matters."""
        return (
            self.conflict_keys is None
            or work.conflict_keys is None
            or not self.conflict_keys.isdisjoint(work.conflict_keys)
        )

    def add(self, work: _Work) -> None:
        self.works.append(work)
        if work.conflict_keys is None:
            self.conflict_keys = None
        elif self.conflict_keys is not None:
            self.conflict_keys.update(work.conflict_keys)


def _combined(group: Sequence[_Work]) -> list[list[_Work]]:
    """Return the batches of a group, in order.

    Work joins an earlier batch of its kind if no batch in between conflicts.
    """
    batches: list[_Batch] = []
    for work in group:
        batch = _batch_for(work, batches) if work.items is not None else None
        if batch is None:
            batch = _Batch([], set())
            batches.append(batch)
        batch.add(work)
    return [batch.works for batch in batches]


def _batch_for(work: _Work, batches: Sequence[_Batch]) -> _Batch | None:
    """Return the last batch of the same kind, or ``None`` if there is none or a later batch conflicts with the work."""
    for batch in reversed(batches):
        first = batch.works[0]
        # Compared with `==`, because each access to a method creates a new object. Common keys within a batch do not
        # matter, because its items run in order.
        if first.items is not None and first.run == work.run:
            return batch
        if batch.conflicts_with(work):
            return None
    return None


def _conflict_keys_of(group: Sequence[_Work]) -> set[str] | None:
    """Return all conflict keys of a group, or ``None`` if any of its work must run alone."""
    conflict_keys = [work.conflict_keys for work in group]
    return (
        None if None in conflict_keys else set(chain.from_iterable(each for each in conflict_keys if each is not None))
    )


def _perform_effect(effect: Callable[[], None]) -> None:
    try:
        effect()
    except Exception:
        _log.exception("an action after a commit failed")
