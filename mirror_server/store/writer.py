"""Group commit: one thread runs all work that waits in one transaction, and answers when it is on disk."""

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

MOST_WAITING = 5000
"""How much work may wait; what does not submit_durable is refused beyond that."""
_LARGEST_GROUP = 500
_RETRY_SECONDS = 1.0
_RESPONSES_SECONDS = 0.001


@dataclass(slots=True, eq=False)
class _Work:
    run: Callable[..., Any]
    future: Future[Any]
    until_stored: bool
    by_leader: bool
    items: Sequence[Any] | None
    """The arguments of one run, with those of other work of the same kind; ``None`` where it is run alone."""
    conflict_keys: Collection[str] | None
    result: Any = None
    error: BaseException | None = None

    def resolve(self) -> None:
        """Give the result to whoever waits for it."""
        future, error = self.future, self.error
        # The traceback of an error leads to this: garbage that Python would have to look for.
        del self.future, self.error
        if not future.set_running_or_notify_cancel():
            return
        if error is None:
            future.set_result(self.result)
        else:
            future.set_exception(error)


class Writer:
    """The only one who writes; work runs in the order it was submitted.

    Args:
        backend: Where it is written.

    Attributes:
        backend: Where it is written.
        wait_for_responses: Waits, at most this many seconds, until the responses to committed work have been sent;
            called before the callbacks of :meth:`after_group`.
        interrupted: Called when storing begins to fail.
        resumed: Called when storing works again.
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

        The future gives its result when the transaction is on disk. If the work raises, what it wrote is undone, its
        effects are dropped, and the future raises the same; the other work of the transaction is not touched.

        Args:
            run: The work, called with the session. It may run more than once; earlier attempts are rolled back.
            items: The second argument of the work. Calls with the same work may be combined into one run, with the
                items of all in order; it returns ``None`` or one result per call. It may then run before other work
                that was submitted earlier and has no conflict key in common. Each call still succeeds or fails alone.
            until_stored: Retry until it is stored. For events that have already happened and cannot be rejected.
            by_leader: Store it only while this process is the leader.
            conflict_keys: Device ids, and other agreed names, that the work changes, or reads and needs unchanged.
                Work of other processes without a common key may run concurrently and commit between two of its
                statements. ``None`` if it must run alone.

        The future raises :class:`StorageFailed` where the work cannot be stored, and :class:`TooMuchWaiting` where too
        much waits; :class:`NotLeader` where another process has taken over.
        """
        future: Future[Any] = Future()
        with self._changed:
            if not until_stored and self._unfinished >= MOST_WAITING:
                future.set_exception(TooMuchWaiting(f"{self._unfinished} changes wait to be stored"))
                return future
            # Counted before it is queued, so that the count is not 0 while work is on its way.
            self._unfinished += 1
        self._queue.put(_Work(run, future, until_stored, by_leader, items, conflict_keys))
        return future

    def after_group(self, effect: Callable[[], None]) -> None:
        """Call ``effect`` behind all effects of the transaction that is told now; at once in another thread."""
        if threading.current_thread() is self._thread:
            self._last_effects.append(effect)
        else:
            effect()

    def count_waiting(self) -> int:
        """How much work is submitted and not done."""
        return self._unfinished

    def settle(self, timeout_seconds: float = 30) -> bool:
        """Wait until nothing is left to do, the effects of what was done and what they submitted included."""
        with self._changed:
            return self._changed.wait_for(lambda: self._unfinished == 0, timeout_seconds)

    def close(self) -> None:
        """Finish what was submitted, then stop; what still cannot be stored is given up."""
        # The end stands behind all that was submitted, which is done first.
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while not self._is_closing:
            group = self._postponed + self._next_group()
            if not group:
                continue
            self._postponed = []
            self._process(group)
            # Behind the effects: what they submitted is counted by now, so that who settles waits for it too.
            with self._changed:
                self._unfinished -= len(group) - len(self._postponed)
                self._changed.notify_all()

    def _next_group(self) -> list[_Work]:
        """Return the work that waits, or nothing when postponed work is due again; note the end."""
        group: list[_Work] = []
        try:
            item = self._queue.get(timeout=_RETRY_SECONDS if self._postponed else None)
            while item is not None:
                group.append(item)
                if len(group) == _LARGEST_GROUP:
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
            self._undo()
            self._fail(group, error)
        else:
            self._note_success()
        effects = self._session.take_effects()
        for work in group:
            if work not in self._postponed:
                work.resolve()
        # Nobody is told of anything before it is on disk: a crash could take it back.
        for effect in effects:
            _perform_effect(effect)
        if self._last_effects:
            # They run on other threads, which else may get the core, or the interpreter, when all of this is done.
            self.wait_for_responses(_RESPONSES_SECONDS)
        while self._last_effects:
            _perform_effect(self._last_effects.popleft())

    def _perform_all(self, group: list[_Work]) -> None:
        """Run the work; if some of it fails, all of it once more, each apart, which costs more."""
        try:
            for works in _together(group):
                self._perform(works)
        except Exception as error:
            if self.backend.is_of_storage(error):
                raise
            self._undo()
            self.backend.begin(_conflict_keys_of(group))
            for work in group:
                self._perform_each(work)

    def _perform(self, works: Sequence[_Work]) -> None:
        """Run work of one kind once."""
        first = works[0]
        results: Sequence[Any] | None
        if first.by_leader and not self.backend.is_leader:
            for work in works:
                work.error = NotLeader("another process leads")
            return
        if first.items is None:
            results = [first.run(self._session)]
        else:
            results = first.run(self._session, [item for work in works for item in work.items or ()])
        for work, result in zip(works, repeat(None) if results is None else results, strict=results is not None):
            work.result, work.error = result, None

    def _perform_each(self, work: _Work) -> None:
        mark = self._session.mark()
        self.backend.begin_work()
        try:
            self._perform([work])
        except Exception as error:
            if self.backend.is_of_storage(error):
                # The transaction may be gone already, and with it all others of the group.
                raise
            self.backend.undo_work()
            self._session.forget_effects(mark)
            work.error = error

    def _undo(self) -> None:
        self._session.forget_effects(0)
        try:
            self.backend.undo()
        except Exception:
            _log.debug("no transaction to roll back", exc_info=True)

    def _fail(self, group: list[_Work], error: Exception) -> None:
        """Note of all work that it could not be stored, but of what until_stored, which is done again."""
        failure = error
        if not self.backend.is_of_storage(error):
            _log.error("a transaction could not be committed; its work was undone", exc_info=error)
        else:
            reason = str(error).partition("\n")[0]
            failure = StorageFailed(f"cannot store: {reason}")
            if not self._is_failing:
                _log.error("cannot store (%s); requests that change something are refused until it can be done", reason)
                _perform_effect(self.interrupted)
            self._is_failing = True
            self._postponed = [work for work in group if work.until_stored and not self._is_closing]
        for work in group:
            work.error = failure

    def _note_success(self) -> None:
        if self._is_failing:
            self._is_failing = False
            _log.warning("storing works again")
            _perform_effect(self.resumed)


@dataclass(slots=True)
class _Part:
    """Work of one kind that is run at once, and what it touches; ``None`` where it has to be alone."""

    works: list[_Work]
    conflict_keys: set[str] | None

    def meets(self, work: _Work) -> bool:
        """Whether other work touches any of the same, so that the order of the two matters."""
        return (
            self.conflict_keys is None
            or work.conflict_keys is None
            or not self.conflict_keys.isdisjoint(work.conflict_keys)
        )

    def add(self, work: _Work) -> None:
        """Run this with the others."""
        self.works.append(work)
        if work.conflict_keys is None:
            self.conflict_keys = None
        elif self.conflict_keys is not None:
            self.conflict_keys.update(work.conflict_keys)


def _together(group: Sequence[_Work]) -> list[list[_Work]]:
    """The work of a group in its order, but what may be run together with earlier work of its kind is run with that."""
    parts: list[_Part] = []
    for work in group:
        part = _part_for(work, parts) if work.items is not None else None
        if part is None:
            part = _Part([], set())
            parts.append(part)
        part.add(work)
    return [part.works for part in parts]


def _part_for(work: _Work, parts: Sequence[_Part]) -> _Part | None:
    """The part that work can be run with: the last one of its kind, if none behind that touches any of the same."""
    for part in reversed(parts):
        first = part.works[0]
        if first.items is not None and first.run == work.run:
            return part
        if part.meets(work):
            return None
    return None


def _conflict_keys_of(group: Sequence[_Work]) -> set[str] | None:
    """Return what the work of a group touches together; ``None`` where some of it has to be alone."""
    conflict_keys = [work.conflict_keys for work in group]
    return (
        None if None in conflict_keys else set(chain.from_iterable(each for each in conflict_keys if each is not None))
    )


def _perform_effect(effect: Callable[[], None]) -> None:
    try:
        effect()
    except Exception:
        _log.exception("an effect of a transaction failed")
