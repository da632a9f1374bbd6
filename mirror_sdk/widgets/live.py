"""The thread of a live widget.

It makes client calls on other threads, receives events, and refreshes the widget several times a second.

A separate thread refreshes the widget, because the kernel's event loop is blocked while a cell runs. The event loop
would need the lock as well, because JupyterLab sends clicks to a subshell of the kernel, which is another thread.
ipykernel allows comm messages from any thread. So every thread that uses the widget or its model must hold ``lock``.
There are few messages, because all changes since the last step are combined into one refresh.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import TypeVar
from weakref import WeakSet

from mirror_sdk._client import MirrorClient
from mirror_sdk.errors import ClientClosed
from mirror_sdk.events import Event
from mirror_sdk.progress import without_progress
from mirror_sdk.widgets.feed import Subscription, feed_of
from mirror_sdk.widgets.models.model import run_now

T = TypeVar("T")

REFRESH_SECONDS = 0.25
CALLS_AT_ONCE = 8


class Live:
    """The background work of one widget, which runs from :meth:`start` to :meth:`stop`.

    Args:
        client: The client of the mirror.
        receive: A function that is called with the events, in order, and the number of events that were dropped before
            them.
        tick: A function that does the work that is due.
        show: A function that displays changes.
        failed: A function that is called with an error that one of these functions raised.
        is_live: Whether there are threads and events. Otherwise, calls are made at once, and only ``step`` refreshes
            the widget.
    """

    def __init__(
        self,
        client: MirrorClient,
        *,
        receive: Callable[[Sequence[Event], int], object],
        tick: Callable[[], object],
        show: Callable[[], object],
        failed: Callable[[Exception], object],
        is_live: bool = True,
    ) -> None:
        # The lock is reentrant, because a handler shows its outcome while it holds the lock.
        self.lock = threading.RLock()
        self._client = client
        self._receive = receive
        self._tick = tick
        self._show = show
        self._failed = failed
        self._is_live = is_live
        self._stopped = threading.Event()
        self._has_outcome = threading.Event()
        self._calls: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self._threads = 0
        self._outcomes: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self._waited_for = 0
        self._idle = threading.Condition()
        self._subscription: Subscription | None = None

    @property
    def is_running(self) -> bool:
        """Whether the work has been started and not been stopped since then."""
        return self._subscription is not None and not self._stopped.is_set()

    @property
    def problem(self) -> Exception | None:
        """The reason why no events are received, or ``None`` if events are received."""
        return feed_of(self._client).problem if self.is_running else None

    def run(self, call: Callable[[], T], then: Callable[[T], object], failed: Callable[[Exception], object]) -> None:
        """Make a client call on another thread. After the call has ended, the next :meth:`step` delivers its outcome.

        The call does not show a progress bar, because it would appear in the output of an unrelated cell.
        """
        call = without_progress()(call)
        if not self._is_live:
            run_now(call, then, failed)
            return

        with self._idle:
            self._waited_for += 1
            self._calls.put(lambda: run_now(call, self._later(then), self._later(failed)))
            if self._threads == CALLS_AT_ONCE:
                return
            self._threads += 1
        # These are daemon threads and not a pool, because the kernel would wait for a pool when it ends, and a read may
        # take a minute.
        threading.Thread(target=self._make_calls, name="mirror-widget-call", daemon=True).start()

    def _make_calls(self) -> None:
        while True:
            with self._idle:
                if self._calls.empty() or self._stopped.is_set():
                    self._threads -= 1
                    return
                call = self._calls.get()
            call()

    def wait_until_idle(self, timeout_seconds: float) -> None:
        """Wait until the outcomes of all calls were delivered, but at most ``timeout_seconds``."""
        with self._idle:
            self._idle.wait_for(lambda: not self._waited_for or self._stopped.is_set(), timeout_seconds)

    def start(self) -> None:
        """Start to receive events and to refresh the widget."""
        if self._is_live:
            self._subscription = feed_of(self._client).subscribe()
            _running.add(self)
            threading.Thread(target=self._run, name="mirror-widget", daemon=True).start()

    def stop(self) -> None:
        """Stop the work, and ignore later outcomes. Further calls do nothing."""
        self._stopped.set()
        self._has_outcome.set()
        with self._idle:
            self._idle.notify_all()
        _running.discard(self)
        if self._subscription is not None:
            self._subscription.close()

    def step(self) -> None:
        """Deliver the outcomes and events that have arrived, do the work that is due, and display changes."""
        self._run_safely(self._deliver, self._tick, self._show)

    def show(self) -> None:
        """Deliver the outcomes and events that have arrived, and display changes.

        This method does not do the work that is due. A user who types into a field therefore does not cause requests.
        """
        self._run_safely(self._deliver, self._show)

    def _run_safely(self, *actions: Callable[[], object]) -> None:
        with self.lock:
            if self._stopped.is_set():
                return
            try:
                for action in actions:
                    action()
            except Exception as error:
                # Without this, the error would end the thread without a message.
                self._failed(error)

    def _deliver(self) -> None:
        # Only the outcomes that have arrived by now are delivered, so that the step ends even if others arrive quickly.
        for _ in range(self._outcomes.qsize()):
            try:
                self._outcomes.get_nowait()()
            except Empty:
                break
        if self._subscription is not None:
            events, overrun = self._subscription.drain()
            self._receive(events, overrun)
            feed_of(self._client).ensure_running()

    def _later(self, deliver: Callable[[T], object]) -> Callable[[T], None]:
        def deliver_now(outcome: T) -> None:
            try:
                deliver(outcome)
            finally:
                with self._idle:
                    self._waited_for -= 1
                    self._idle.notify_all()

        def add(outcome: T) -> None:
            self._outcomes.put(lambda: deliver_now(outcome))
            self._has_outcome.set()

        return add

    def _run(self) -> None:
        while not self._stopped.is_set():
            # The first outcome after a pause is displayed at once. Others wait, so that there are few refreshes.
            is_early = self._has_outcome.wait(REFRESH_SECONDS)
            self._has_outcome.clear()
            self.step()
            if is_early and self._stopped.wait(REFRESH_SECONDS):
                return
            if isinstance(self.problem, ClientClosed):
                # The content remains, with a notice from this step.
                self.step()
                self.stop()


_running: WeakSet[Live] = WeakSet()


@atexit.register
def stop_all() -> None:
    """Stop all running widgets."""
    for live in list(_running):
        live.stop()
