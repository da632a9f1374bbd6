"""Group commit: one thread runs all work that waits in one transaction, and answers when it is on disk."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from mirror_server.store.session import Session

_log = logging.getLogger(__name__)

T = TypeVar("T")
_Work = Callable[[Session], Any]
_Outcome = tuple["Future[Any]", Any, BaseException | None]

_LARGEST_GROUP = 500


class Writer:
    """The only one who writes; work runs in the order it was submitted."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._queue: queue.SimpleQueue[tuple[_Work, Future[Any]] | None] = queue.SimpleQueue()
        self._unfinished = 0
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self._thread.start()

    def submit(self, work: Callable[[Session], T]) -> Future[T]:
        """Run ``work`` in a transaction.

        The future gives its result when the transaction is on disk. If ``work`` raises, what it wrote is undone, its
        effects are dropped, and the future raises the same; the other work of the transaction is not touched.
        """
        future: Future[T] = Future()
        with self._changed:
            self._unfinished += 1
        self._queue.put((work, future))
        return future

    def count_waiting(self) -> int:
        """How much work is submitted and not done."""
        return self._unfinished

    def settle(self, timeout_seconds: float) -> bool:
        """Wait until nothing is left to do, the effects of what was done and what they submitted included."""
        with self._changed:
            return self._changed.wait_for(lambda: self._unfinished == 0, timeout_seconds)

    def close(self) -> None:
        """Finish what was submitted, then stop."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while True:
            group, closing = self._next_group()
            if group:
                self._process(group)
                with self._changed:
                    self._unfinished -= len(group)
                    self._changed.notify_all()
            if closing:
                return

    def _next_group(self) -> tuple[list[tuple[_Work, Future[Any]]], bool]:
        group = []
        item = self._queue.get()
        while item is not None:
            group.append(item)
            if len(group) == _LARGEST_GROUP:
                return group, False
            try:
                item = self._queue.get_nowait()
            except queue.Empty:
                return group, False
        return group, True

    def _process(self, group: list[tuple[_Work, Future[Any]]]) -> None:
        try:
            self._session.run("BEGIN IMMEDIATE")
            outcomes = [self._perform(work, future) for work, future in group]
            self._session.run("COMMIT")
        except Exception as error:
            _log.exception("a transaction could not be committed; its work was undone")
            self._undo()
            outcomes = [(future, None, error) for _, future in group]
        effects = self._session.take_effects()
        for outcome in outcomes:
            _resolve(*outcome)
        for effect in effects:
            _perform_effect(effect)

    def _perform(self, work: _Work, future: Future[Any]) -> _Outcome:
        mark = self._session.mark()
        self._session.run("SAVEPOINT work")
        try:
            result = work(self._session)
        except Exception as error:
            self._session.run("ROLLBACK TO work")
            self._session.run("RELEASE work")
            self._session.forget_effects(mark)
            return future, None, error
        self._session.run("RELEASE work")
        return future, result, None

    def _undo(self) -> None:
        self._session.take_effects()
        try:
            self._session.run("ROLLBACK")
        except Exception:
            _log.debug("no transaction to roll back", exc_info=True)


def _resolve(future: Future[Any], result: Any, error: BaseException | None) -> None:
    if not future.set_running_or_notify_cancel():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


def _perform_effect(effect: Callable[[], None]) -> None:
    try:
        effect()
    except Exception:
        _log.exception("an effect of a committed transaction failed")
