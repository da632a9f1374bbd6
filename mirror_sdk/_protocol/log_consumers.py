# Made from async_log_consumers.py by .ci/make_sync_twins.py: a change belongs there, not here.
"""Readers of the notification log, and waits for its entries. Source: wire.md 4.

No reader runs in the background, because the waiting thread reads the log itself. One of the threads that wait for a
response reads for all of them. When that thread leaves, the next one takes over. Only a :class:`Watch` owns a thread.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from types import TracebackType
from typing import NoReturn, Self

from mirror_sdk._fork import cannot_be_pickled, register_fork_handler
from mirror_sdk._protocol.deadline import left_of
from mirror_sdk._protocol.defaults import (
    HOLD_SECONDS,
    MAX_ERRORS,
    MAX_FETCH_PAUSE_SECONDS,
    MAX_FETCH_SECONDS,
    STALE_AFTER_SECONDS,
)
from mirror_sdk._protocol.event_buffer import EventBuffer, Patience
from mirror_sdk._protocol.gap_warnings import warn_of_gap
from mirror_sdk._protocol.log_cursor import poll_limit
from mirror_sdk._protocol.log_reader import LogReader
from mirror_sdk._protocol.response_matcher import AwaitedResponse, ResponseMatcher
from mirror_sdk._warnings import SourceLine, calling_line
from mirror_sdk._workers import Condition, Worker
from mirror_sdk.errors import MirrorError
from mirror_sdk.events import Event, every_event, read_events, utc_now
from mirror_sdk.wire.log_entries import Batch
from mirror_sdk.wire.notifications import AsyncResponse
from mirror_sdk.wire.routes import DEFAULT_HOLD_SECONDS

_log = logging.getLogger(__name__)


class ResponseRouter:
    """Waits for responses to device requests, for any number of threads, with one poll at a time.

    A loss of log entries is stored only for the pending responses, because no other request is affected. After a fork,
    the child process reads from the same position with its own reader. Both processes receive the responses to earlier
    requests.
    """

    def __init__(
        self, reader: LogReader, matcher: ResponseMatcher, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.reader: LogReader = reader
        self.matcher: ResponseMatcher = matcher
        self._clock = clock
        self.called_from: SourceLine | None = calling_line()
        # Guards the flags, the matcher and the position. It is free during a poll, which the service may hold for long.
        self._changed = Condition()
        # Only one caller polls at a time. The second of two polls from one position would be rejected as a repetition.
        self._is_reading = False
        self._is_seeking = False
        self._is_holding = False
        self._has_early_responses = False
        self._last_read_at = clock()
        self._position = reader.position
        register_fork_handler(self)

    def _after_fork_in_child(self) -> None:
        """Restart without a reader in the child. Entries that the parent read but did not deliver are read again."""
        self._changed = Condition()
        self._is_reading = self._is_seeking = self._is_holding = False
        self.reader = self.reader.at(self._position)

    def expect(self, async_id: str, within_seconds: float = math.inf) -> AwaitedResponse:
        """Return the awaited response to a request. Call this before you send the request.

        Raises:
            MirrorError: The position in the log at which the wait starts could not be found.
        """
        most_seconds = min(left_of(within_seconds), DEFAULT_HOLD_SECONDS)
        with self._changed:
            # A reader that has lost its position is already searching for it. A second search could skip entries in
            # between.
            self._changed.wait_for(
                lambda: not self._is_reading or (self.reader.has_position and not self._is_seeking), most_seconds
            )
            if not self._is_reading and self._is_stale():
                self._is_reading = self._is_seeking = True
                try:
                    self.reader.go_to_end(within_seconds)
                finally:
                    self._is_seeking = False
                    self._release_reader()
                self._position = self.reader.position
                self._last_read_at = self._clock()
                # The skipped entries include the ones of early responses, which will therefore not arrive a second
                # time.
                self.matcher.pass_over_log()
            return self.matcher.expect(async_id)

    @contextmanager
    def submitting(self, awaited_response: AwaitedResponse, max_hold_seconds: float) -> Iterator[int]:
        """Yield how many seconds the service may delay the 202 of a request for its response, 0 for none.

        A single waiting request then needs no poll. If several requests wait, one poll returns all responses. This is
        faster than an open connection for each of them.
        """
        with self._changed:
            is_hold_useful = (
                left_of(max_hold_seconds) >= 2 * HOLD_SECONDS
                and not (self._is_reading or self._is_holding)
                and self.matcher.may_accept
            )
            self._is_holding |= is_hold_useful
        if not is_hold_useful:
            yield 0
            return
        try:
            yield HOLD_SECONDS
        except BaseException:
            self.matcher.give_up(awaited_response)
            raise
        finally:
            # No lock is needed, because only the caller that has set the flag gets here.
            self._is_holding = False

    def accept(self, response: AsyncResponse) -> None:
        """Deliver a response that arrived with the 202 of its request instead of through the log."""
        with self._changed:
            is_next = not self._is_reading and self.reader.skip_entry(response.seq)
            if is_next:
                self._position = self.reader.position
                self._last_read_at = self._clock()
            self.matcher.accept(response, comes_again=not is_next)
            self._has_early_responses = True
            self._changed.notify_all()

    def catch_up(self, within_seconds: float) -> None:
        """Read the log up to the responses that arrived with a 202.

        A new channel would otherwise send these entries again.

        Raises:
            MirrorError: The log could not be read, and another attempt would not help.
        """
        with self._changed:
            if self._is_reading or not self._has_early_responses:
                return
            self._is_reading = True
        try:
            while self._read(0, within_seconds).entries:
                pass
        finally:
            self._release_reader()

    def wait(self, awaited_response: AwaitedResponse, timeout_seconds: float) -> AsyncResponse | None:
        """Return the response, or ``None`` if it did not arrive in time and is not at the end of the log.

        Raises:
            MirrorError: A request failed for a reason that waiting would not fix.
        """
        deadline = self._clock() + timeout_seconds
        is_at_end = False
        while (remaining_seconds := deadline - self._clock()) > 0:
            if not self._acquire_reader(awaited_response, remaining_seconds):
                is_at_end = True
                break
            try:
                # Less time may be left, because this caller has waited for another one that was reading.
                remaining_seconds = max(deadline - self._clock(), 0)
                within_seconds = poll_limit(timeout_seconds, remaining_seconds)
                batch = self._read(min(remaining_seconds, DEFAULT_HOLD_SECONDS), within_seconds)
                is_at_end = not batch.entries
            finally:
                self._release_reader()
        # The last poll returned entries, so more may already be available. A wait of 0 seconds has not polled at all.
        if not is_at_end:
            self.fetch_available([awaited_response], poll_limit(timeout_seconds, 0))
        return awaited_response.response

    def fetch_available(self, awaited_responses: Iterable[AwaitedResponse], within_seconds: float = math.inf) -> None:
        """Read the current entries of the log without waiting, until these responses have been found.

        Temporary failures are retried for a few seconds. After that, ``last_failure`` contains the failure.

        Raises:
            MirrorError: A request failed for a reason that another attempt would not fix.
        """
        pending = [awaited_response for awaited_response in awaited_responses if awaited_response.response is None]
        with self._changed:
            is_reader = not self._is_reading
            self._is_reading = True
            # The current reader may hold its poll open for long, or may lag, so this caller reads separately.
            reader = self.reader if is_reader else self.reader.at(self._position)
        try:
            self._fetch_available(reader, pending, within_seconds)
        finally:
            if is_reader:
                self._release_reader()

    def _fetch_available(self, reader: LogReader, pending: Sequence[AwaitedResponse], within_seconds: float) -> None:
        deadline = self._clock() + min(within_seconds, MAX_FETCH_SECONDS)
        async_ids = {awaited_response.async_id for awaited_response in pending}
        while any(awaited_response.response is None for awaited_response in pending) and self._clock() < deadline:
            pause_seconds = reader.pause_seconds
            if pause_seconds > MAX_FETCH_PAUSE_SECONDS:
                return
            if reader is self.reader:
                batch = self._read(pause_seconds, within_seconds)
            else:
                batch = reader.read(pause_seconds, within_seconds)
                with self._changed:
                    for entry in batch.entries:
                        self.matcher.feed_responses([entry], async_ids)
            # A pause and a failure return no entries either, but they do not mean that this is the end of the log.
            if not pause_seconds and not batch.entries and reader.last_failure is None:
                return

    def _is_stale(self) -> bool:
        """Return whether to continue at the end of the log, because no request waits for the entries before it."""
        idle_seconds = self._clock() - self._last_read_at
        return not self.reader.has_position or (idle_seconds > STALE_AFTER_SECONDS and not self.matcher.waiting)

    def _acquire_reader(self, awaited_response: AwaitedResponse, timeout_seconds: float) -> bool:
        """Become the reader, or return ``False`` if the response arrives or another caller still reads."""
        with self._changed:
            self._changed.wait_for(
                lambda: awaited_response.response is not None or not self._is_reading, timeout_seconds
            )
            if awaited_response.response is not None or self._is_reading:
                return False
            self._is_reading = True
            return True

    def _release_reader(self) -> None:
        with self._changed:
            self._is_reading = False
            self._changed.notify_all()

    def _read(self, hold_seconds: float, within_seconds: float) -> Batch:
        batch = self.reader.read(hold_seconds, within_seconds)
        # The position has already moved, so an entry that is not delivered now would be lost.
        unreadable = self._deliver_batch(batch)
        warn_of_gap(None, unreadable, self.called_from)
        return batch

    def _deliver_batch(self, batch: Batch) -> set[str]:
        """Deliver the entries, and return the names of the lists that contain unreadable entries."""
        unreadable: set[str] = set()
        with self._changed:
            if batch.gap is not None:
                self.matcher.note_loss(batch.gap.first_seq, batch.gap.last_seq)
            for entry in batch.entries:
                unreadable |= self.matcher.feed([entry])
            # Updated only after delivery, because a forked child and a separate reader start at this position.
            self._position = self.reader.position
            self._last_read_at = self._clock()
            self._has_early_responses = self._has_early_responses and batch.seq is None
        return unreadable


class Events(Iterator[Event]):
    """An iterator over events as they arrive. It ends if no event arrives for a while.

    The iterator includes every event from the call of ``client.events()`` on.

    A program can stop at any event. A new iterator with ``after=events.position`` continues there without loss or
    repetition.

    >>> events = client.events(limit=1)
    >>> client.subscribe(station, "/3303/0/5700")
    >>> for event in events:
    ...     print(event.kind, event.value, events.position)
    observation 21.5 3
    """

    def __init__(
        self,
        reader: LogReader,
        *,
        timeout_seconds: float,
        outage_seconds: float | None = None,
        limit: int | None = None,
        accepts: Callable[[Event], bool] = every_event,
        find_filter: Callable[[], Callable[[Event], bool]] | None = None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._reader = reader
        self._timeout_seconds = timeout_seconds
        self._outage_seconds = outage_seconds
        self._find_filter = find_filter
        self._clock = clock
        self._now = now
        self._buffer = EventBuffer(reader.position, limit, accepts, called_from=calling_line())
        # If several threads use the iterator, each of them gets the next event.
        self._lock = threading.Lock()
        register_fork_handler(self)
        self._start()

    def _after_fork_in_child(self) -> None:
        """Restart without a waiting caller in the child process. The next step repeats an interrupted request."""
        self._lock = threading.Lock()

    def __reduce__(self) -> NoReturn:
        """Raise an error, because this object cannot be pickled."""
        raise cannot_be_pickled(self, "send their position, and continue with client.events(after=position)")

    @property
    def position(self) -> int | None:
        """The number of the last log entry that was read. Pass it as ``after=`` to continue after it later.

        The position is exact after each event, and includes events that filters leave out. Before the first event, it
        is the position at which the iterator starts. If the service does not number each entry (``Event.seq``), the
        position advances only after the last event of a message.
        """
        return self._buffer.position

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Event:
        with self._lock:
            event = None if self._buffer.is_over else self._next_event()
            if event is None:
                # A synchronous iterator that has ended never continues. An asynchronous one continues at the next step.
                self._buffer.end()
                raise StopIteration
            return event

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Do nothing, because the iterator uses no resources between two steps."""

    def _next_event(self) -> Event | None:
        # The time that the program spends on an event does not count as waiting.
        patience = Patience(self._timeout_seconds, self._outage_seconds, self._clock)
        event = self._buffer.pop()
        # All available events are returned, however short the time is.
        is_at_end = False
        while event is None and ((remaining_seconds := patience.left_seconds) > 0 or not is_at_end):
            hold_seconds = min(max(remaining_seconds, 0), DEFAULT_HOLD_SECONDS)
            began_at = self._clock()
            batch = self._reader.read(hold_seconds, patience.poll_limit_seconds(hold_seconds))
            self._buffer.add(batch, self._now())
            event = self._buffer.pop()
            if event is None:
                patience.note(self._reader.last_failure, began_at)
            # New entries may arrive as fast as they are read, so the reader might never reach the end of the log.
            is_at_end = not batch.entries or -remaining_seconds > MAX_FETCH_SECONDS
        return event

    def _start(self) -> None:
        # A reader that loses its position later continues reading, so that it reports the loss before it finds a new
        # one.
        if self._buffer.position is None:
            if not self._reader.has_position:
                self._reader.go_to_end(poll_limit(self._timeout_seconds, self._timeout_seconds))
            self._buffer.position = self._reader.position
        if self._find_filter is not None:
            self._buffer.accepts, self._find_filter = self._find_filter(), None


class Watch:
    """A watch, which calls a function for each event in a separate thread, until you stop it.

    You can use a watch in a ``with`` statement, which stops it at the end. An error in the callback is logged and
    stored, and the watch continues. A failed request ends the watch only if another attempt would not help, and the
    error is logged and stored. In a child process the watch is stopped, because the thread stays with the parent.
    """

    def __init__(
        self,
        reader: LogReader,
        callback: Callable[[Event], object],
        accepts: Callable[[Event], bool],
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._reader = reader
        self._callback = callback
        self._accepts = accepts
        self._now = now
        self._errors: deque[Exception] = deque(maxlen=MAX_ERRORS)
        self._worker = Worker("mirror-watch")
        self._worker.start(self._run)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def __reduce__(self) -> NoReturn:
        """Raise an error, because this object cannot be pickled."""
        raise cannot_be_pickled(self, "start another one there with client.watch()")

    def __repr__(self) -> str:
        return f"<Watch {'running' if self.is_running else 'stopped'}, {len(self._errors)} errors>"

    @property
    def is_running(self) -> bool:
        """Whether the watch is running."""
        return self._worker.is_running

    @property
    def last_failure(self) -> MirrorError | None:
        """The error of the last poll, or ``None`` if that poll succeeded. After an error, the watch polls again."""
        return self._reader.last_failure

    @property
    def errors(self) -> tuple[Exception, ...]:
        """The last 100 errors that the callback raised or that occurred in the watch itself, with the oldest first."""
        return tuple(self._errors)

    def stop(self, timeout: float = 10.0) -> None:
        """Stop the watch. No callback starts after this method has returned.

        A running callback has ``timeout`` seconds to end. The thread ends with its open poll, after half a minute at
        most.

        >>> watch = client.watch(print)
        >>> watch.stop()
        >>> watch.is_running
        False
        """
        self._worker.stop(timeout)

    def _run(self) -> None:
        try:
            while not self._worker.is_stopped:
                self._deliver(self._reader.read(DEFAULT_HOLD_SECONDS))
        except Exception as error:
            # After a stop, an error is expected, because closing the client interrupts an open poll.
            if not self._worker.is_stopped:
                _log.exception("a watch ended")
                self._errors.append(error)

    def _deliver(self, batch: Batch) -> None:
        for event in read_events(batch, self._now()):
            if not self._accepts(event):
                continue
            with self._worker.step:
                # The watch may have been stopped since the event was read, and no callback may start after a stop.
                if self._worker.is_stopped:
                    return
                try:
                    self._callback(event)
                except Exception as error:
                    _log.exception("the callback of a watch failed")
                    self._errors.append(error)
