"""What is read for longer than an event loop may be held is read on threads of its own."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from mirror_server.service.slots import Slots

T = TypeVar("T")

_THREADS = 2
_MOST_WAITING = 64
_AGAIN_SECONDS = 1


class LongReads:
    """Reads for requests that wait for it, in the order they came.

    Args:
        share: Which part of those that may wait at once one application may have.
    """

    def __init__(self, share: float) -> None:
        what = "questions that take long are being answered"
        self._slots = Slots(_MOST_WAITING, share, what=what, reason="TOO_MANY_QUESTIONS", again_seconds=_AGAIN_SECONDS)
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="long-reads")

    def begin(self, app_id: str, read: Callable[[], T]) -> Future[T]:
        """Read when it is the turn of this; to cancel what has not begun spares it.

        Raises:
            Refusal: Too many wait (429).
        """
        refusal = self._slots.acquire(app_id)
        if refusal is not None:
            raise refusal
        future = self._threads.submit(read)
        future.add_done_callback(lambda _: self._slots.release(app_id))
        return future

    def close(self) -> None:
        """Begin no more, and wait for those that have begun."""
        self._threads.shutdown(cancel_futures=True)
