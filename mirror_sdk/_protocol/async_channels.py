"""Reading the notification log, and waiting for what it brings. Source: wire.md 4.

Whoever waits reads: nothing runs in the background. Of all tasks that wait for an answer one reads for all; when it
ends or is cancelled, the next one takes over. Only an :class:`AsyncWatch` owns a task.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from types import TracebackType
from typing import NoReturn, Self

from mirror_sdk._caller import SourceLine, calling_line
from mirror_sdk._fork import cannot_be_pickled, register_fork_handler
from mirror_sdk._off_loop import Turns, to_the_end
from mirror_sdk._protocol.async_log_reader import AsyncLogReader
from mirror_sdk._protocol.cursor import poll_limit
from mirror_sdk._protocol.deadline import left_of
from mirror_sdk._protocol.defaults import (
    ERRORS_KEPT,
    HELD_SECONDS,
    LONGEST_LOOK_SECONDS,
    LONGEST_PAUSE_OF_LOOK_SECONDS,
    STALE_AFTER_SECONDS,
)
from mirror_sdk._protocol.event_buffer import EventBuffer, Patience
from mirror_sdk._protocol.gaps import warn_of
from mirror_sdk._protocol.inbox import Expectation, Inbox
from mirror_sdk._tasks import AsyncCondition, AsyncWorker, finish_call
from mirror_sdk.errors import MirrorError
from mirror_sdk.events import Event, every_event, read_events, utc_now
from mirror_sdk.wire.log_entries import Batch
from mirror_sdk.wire.notifications import AsyncResponse
from mirror_sdk.wire.routes import DEFAULT_HOLD_SECONDS

_log = logging.getLogger(__name__)


class AsyncResponseRouter:
    """Waits for answers to device requests, for any number of tasks of one loop, with one poll at a time.

    What was lost of the log is noted where an answer is awaited, and nobody else is told of it: who has all answers has
    lost nothing. In a child process it has a reader of its own, from where it was at the fork: what was asked before is
    answered to both.
    """

    def __init__(self, reader: AsyncLogReader, inbox: Inbox, clock: Callable[[], float] = time.monotonic) -> None:
        self.reader: AsyncLogReader = reader
        self.inbox: Inbox = inbox
        self._clock = clock
        self.called_from: SourceLine | None = calling_line()
        self._changed = AsyncCondition()
        self._is_reading = False
        self._is_seeking = False
        self._is_holding = False
        self._is_ahead = False
        self._last_read_at = clock()
        self._position = reader.position
        register_fork_handler(self)

    def _after_fork_in_child(self) -> None:
        """Nobody reads here. What was read in the parent and not yet handed out is read again."""
        self._changed = AsyncCondition()
        self._is_reading = self._is_seeking = self._is_holding = False
        self.reader = self.reader.at(self._position)

    async def expect(self, async_id: str, within_seconds: float = math.inf) -> Expectation:
        """The place for an answer; to be taken before the request is sent.

        Raises:
            MirrorError: The position from which to wait for it could not be found.
        """
        most_seconds = min(left_of(within_seconds), DEFAULT_HOLD_SECONDS)
        with self._changed:
            # A reader that has lost its position is about to find it; a second search could skip what came between.
            await self._changed.wait_for(
                lambda: not self._is_reading or (self.reader.has_position and not self._is_seeking), most_seconds
            )
            if not self._is_reading and self._is_stale():
                self._is_reading = self._is_seeking = True
                try:
                    await self.reader.go_to_end(within_seconds)
                finally:
                    self._is_seeking = False
                    self._end_turn()
                self._position = self.reader.position
                self._last_read_at = self._clock()
                self.inbox.pass_over_log()
            return self.inbox.expect(async_id)

    @contextmanager
    def submitting(self, expectation: Expectation, most_held_seconds: float) -> Iterator[int]:
        """While a request is sent: give the seconds that the service may hold its 202 for the response, 0 for none.

        A request that waits alone needs no poll then. For many that wait, one poll brings all responses; a connection
        that is held open for each of them would take longer.
        """
        with self._changed:
            is_held = (
                left_of(most_held_seconds) >= 2 * HELD_SECONDS
                and not (self._is_reading or self._is_holding)
                and self.inbox.may_take
            )
            self._is_holding |= is_held
        if not is_held:
            yield 0
            return
        try:
            yield HELD_SECONDS
        except BaseException:
            self.inbox.give_up(expectation)
            raise
        finally:
            self._is_holding = False

    def take(self, answer: AsyncResponse) -> None:
        """Hand out an answer that came with its request, beside the log."""
        with self._changed:
            is_next = not self._is_reading and self.reader.skip_entry(answer.seq)
            if is_next:
                self._position = self.reader.position
                self._last_read_at = self._clock()
            self.inbox.take(answer, comes_again=not is_next)
            self._is_ahead = True
            self._changed.notify_all()

    async def catch_up(self, within_seconds: float) -> None:
        """Read what came with requests in the log, too: what no reader was given, a new channel brings again.

        Raises:
            MirrorError: The log could not be read, and asking again would not mend that.
        """
        with self._changed:
            if self._is_reading or not self._is_ahead:
                return
            self._is_reading = True
        try:
            while (await self._read(0, within_seconds)).entries:
                pass
        finally:
            self._end_turn()

    async def wait(self, expectation: Expectation, timeout_seconds: float) -> AsyncResponse | None:
        """The answer, or ``None`` when it did not come in time, nor is among all that is there then.

        Raises:
            MirrorError: A failure that waiting would not mend.
        """
        deadline = self._clock() + timeout_seconds
        is_at_end = False
        while (remaining_seconds := deadline - self._clock()) > 0:
            if not await self._take_turn(expectation, remaining_seconds):
                is_at_end = True
                break
            try:
                # Less may be left by now: another one was reading.
                remaining_seconds = max(deadline - self._clock(), 0)
                within_seconds = poll_limit(timeout_seconds, remaining_seconds)
                batch = await self._read(min(remaining_seconds, DEFAULT_HOLD_SECONDS), within_seconds)
                is_at_end = not batch.entries
            finally:
                self._end_turn()
        if not is_at_end:
            await self.look([expectation], poll_limit(timeout_seconds, 0))
        return expectation.response

    async def look(self, expectations: Iterable[Expectation], within_seconds: float = math.inf) -> None:
        """Read all that is there now, or as much of it as it takes to answer these; nothing is waited for.

        A failure that may pass is asked past, for a few seconds; what it is then stands in ``last_failure``.

        Raises:
            MirrorError: A failure that asking again would not mend.
        """
        awaited = [expectation for expectation in expectations if expectation.response is None]
        with self._changed:
            is_turn = not self._is_reading
            self._is_reading = True
            # Who reads may hold a poll open for long, or be behind: it is looked at beside.
            reader = self.reader if is_turn else self.reader.at(self._position)
        try:
            await self._look(reader, awaited, within_seconds)
        finally:
            if is_turn:
                self._end_turn()

    async def _look(self, reader: AsyncLogReader, awaited: Sequence[Expectation], within_seconds: float) -> None:
        deadline = self._clock() + min(within_seconds, LONGEST_LOOK_SECONDS)
        async_ids = {expectation.async_id for expectation in awaited}
        while any(expectation.response is None for expectation in awaited) and self._clock() < deadline:
            pause_seconds = reader.pause_seconds
            if pause_seconds > LONGEST_PAUSE_OF_LOOK_SECONDS:
                return
            if reader is self.reader:
                batch = await self._read(pause_seconds, within_seconds)
            else:
                batch = await reader.read(pause_seconds, within_seconds)
                turns = Turns()  # asynchronous alone: thousands may be there already
                with self._changed:
                    for entry in batch.entries:
                        self.inbox.feed_answers([entry], async_ids)
                        await turns.give()  # asynchronous alone
            if not pause_seconds and not batch.entries and reader.last_failure is None:
                return

    def _is_stale(self) -> bool:
        """Whether to begin at the end again: while nobody waits, what passes is of no interest, nor is its loss."""
        idle_seconds = self._clock() - self._last_read_at
        return not self.reader.has_position or (idle_seconds > STALE_AFTER_SECONDS and not self.inbox.waiting)

    async def _take_turn(self, expectation: Expectation, timeout_seconds: float) -> bool:
        """Whether to read now; ``False`` when the answer came, or the time is over while another one reads."""
        with self._changed:
            await self._changed.wait_for(
                lambda: expectation.response is not None or not self._is_reading, timeout_seconds
            )
            if expectation.response is not None or self._is_reading:
                return False
            self._is_reading = True
            return True

    def _end_turn(self) -> None:
        """Let another one read."""
        with self._changed:
            self._is_reading = False
            self._changed.notify_all()

    async def _read(self, hold_seconds: float, within_seconds: float) -> Batch:
        batch = await self.reader.read(hold_seconds, within_seconds)
        # The position has moved on: what is left out now would be lost.
        unreadable = await to_the_end(self._take_in(batch))
        warn_of(None, unreadable, self.called_from)
        return batch

    async def _take_in(self, batch: Batch) -> set[str]:
        """Hand out what was read; gives the lists in which something could not be."""
        unreadable: set[str] = set()
        turns = Turns()  # asynchronous alone: thousands may be there already
        with self._changed:
            if batch.gap is not None:
                self.inbox.note_loss(batch.gap.first_seq, batch.gap.last_seq)
            for entry in batch.entries:
                unreadable |= self.inbox.feed([entry])
                await turns.give()  # asynchronous alone
            # Moves only with what was handed out: a child of a fork, and who looks beside, begin from here.
            self._position = self.reader.position
            self._last_read_at = self._clock()
            self._is_ahead = self._is_ahead and batch.seq is None
        return unreadable


class AsyncEvents(AsyncIterator[Event]):
    """Events as they come, for ``async for``, until none came for so long.

    They begin at the call that makes it: whatever else the client is asked for afterwards is sent after that. What
    others cause is seen from a moment later on; ``async with client.events() as events:`` waits for that moment. Where
    no event loop runs at the call, they begin with the first step. A step that is cancelled loses nothing; the next
    one goes on.

    ``position`` is the number to go on behind: a program may stop anywhere, and another iterator with
    ``after=events.position`` gives what follows, without loss or repetition.

    >>> events = client.events(limit=1)
    >>> await client.subscribe(station, "/3303/0/5700")
    >>> async for event in events:
    ...     print(event.kind, event.value, events.position)
    observation 21.5 3
    """

    def __init__(
        self,
        reader: AsyncLogReader,
        *,
        timeout_seconds: float,
        outage_seconds: float | None = None,
        limit: int | None = None,
        wants: Callable[[Event], bool] = every_event,
        find_wanted: Callable[[], Awaitable[Callable[[Event], bool]]] | None = None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._reader = reader
        self._timeout_seconds = timeout_seconds
        self._outage_seconds = outage_seconds
        self._find_wanted = find_wanted
        self._clock = clock
        self._now = now
        self._buffer = EventBuffer(reader.position, limit, wants, called_from=calling_line())
        self._turns = Turns(clock)  # asynchronous alone: thousands may be there already
        # Each of several tasks gets the next event.
        self._turn = asyncio.Lock()
        self._beginning: asyncio.Task[None] | None = None  # asynchronous alone: a constructor cannot wait
        self._failure: Exception | None = None  # asynchronous alone
        register_fork_handler(self)
        # synchronous alone: self._begin()

    def _after_fork_in_child(self) -> None:
        """Nobody takes events here. What one had asked for is asked for again."""
        self._turn = asyncio.Lock()
        self._beginning = None  # asynchronous alone

    def __reduce__(self) -> NoReturn:
        raise cannot_be_pickled(self, "send their position, and go on behind it with client.events(after=position)")

    @property
    def position(self) -> int | None:
        """Number of the entry to go on behind, exact after each event, and past those that are not wanted.

        Before the first event it is where they begin, ``None`` until that is known. Where the service does not tell
        the number of each entry (``Event.seq``), it stays before a message until its last event was taken.
        """
        return self._buffer.position

    def begin(self) -> asyncio.Task[None]:  # asynchronous alone
        """Have it begin now, on a task of the running loop, whose failure the next step raises.

        ``client.events()`` has done that; there is nothing else to do before ``async for``.

        >>> events = client.events(timeout=0)
        >>> await events.begin()
        >>> [event async for event in events]
        []
        """
        self._beginning = asyncio.get_running_loop().create_task(self._begin_beside(), name="mirror-events")
        return self._beginning

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        async with self._turn:
            event = None if self._buffer.is_over else await self._take()
            if event is None:
                # An iterator that has ended stays so; an asynchronous one goes on at the next step.
                # synchronous alone: self._buffer.end()
                raise StopAsyncIteration
            return event

    async def __aenter__(self) -> Self:
        async with self._turn:  # asynchronous alone
            await self._begun()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Nothing is held between two steps."""

    async def _take(self) -> Event | None:
        await self._begun()  # asynchronous alone
        await self._turns.give()  # asynchronous alone
        # The time the taker spends on an event does not count.
        patience = Patience(self._timeout_seconds, self._outage_seconds, self._clock)
        event = self._buffer.take()
        # However short the time, all that is there already is given.
        is_at_end = False
        while event is None and ((remaining_seconds := patience.left_seconds) > 0 or not is_at_end):
            hold_seconds = min(max(remaining_seconds, 0), DEFAULT_HOLD_SECONDS)
            began_at = self._clock()
            batch = await self._reader.read(hold_seconds, patience.poll_limit_seconds(hold_seconds))
            self._buffer.add(batch, self._now())
            event = self._buffer.take()
            if event is None:
                patience.note(self._reader.last_failure, began_at)
            is_at_end = not batch.entries or -remaining_seconds > LONGEST_LOOK_SECONDS
        return event

    async def _begun(self) -> None:  # asynchronous alone
        """Wait until it has begun; one that failed, or was cancelled with its loop, begins anew at the next step."""
        beginning = self._beginning
        # Of a loop that is another one, such as that of an asyncio.run() before, nothing comes any more.
        if beginning and not beginning.done() and beginning.get_loop() is asyncio.get_running_loop():
            await asyncio.wait([beginning])
        self._beginning = None
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        await self._begin()

    async def _begin(self) -> None:
        # A reader that lost its place later finds it by reading, so that the loss is told first.
        if self._buffer.position is None:
            if not self._reader.has_position:
                await self._reader.go_to_end(poll_limit(self._timeout_seconds, self._timeout_seconds))
            self._buffer.position = self._reader.position
        if self._find_wanted is not None:
            self._buffer.wants, self._find_wanted = await self._find_wanted(), None

    async def _begin_beside(self) -> None:  # asynchronous alone
        try:
            await self._begin()
        except Exception as error:
            self._failure = error


class AsyncWatch:
    """Calls back for each event, from a task of its own, until it is stopped.

    It can be used in an ``async with`` statement, which stops it at the end. The callback may be a plain function or
    an ``async`` one. An error in the callback is logged and kept, and the watch goes on. A failure that asking again
    would not mend ends it, logged and kept as well. In a child process it is stopped: the task stays with the parent.
    """

    def __init__(
        self,
        reader: AsyncLogReader,
        callback: Callable[[Event], object],
        wants: Callable[[Event], bool],
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._reader = reader
        self._callback = callback
        self._wants = wants
        self._now = now
        self._errors: deque[Exception] = deque(maxlen=ERRORS_KEPT)
        self._turns = Turns()  # asynchronous alone
        self._worker = AsyncWorker("mirror-watch")
        self._worker.start(self._run)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()

    def __reduce__(self) -> NoReturn:
        raise cannot_be_pickled(self, "begin another one there with client.watch()")

    def __repr__(self) -> str:
        return f"<AsyncWatch {'running' if self.is_running else 'stopped'}, {len(self._errors)} errors>"

    @property
    def is_running(self) -> bool:
        """Whether it still calls back."""
        return self._worker.is_running

    @property
    def last_failure(self) -> MirrorError | None:
        """Why the last poll failed and is tried again; ``None`` when it did not."""
        return self._reader.last_failure

    @property
    def errors(self) -> tuple[Exception, ...]:
        """What went wrong, oldest first; the newest 100 are kept."""
        return tuple(self._errors)

    async def stop(self, timeout: float = 10.0) -> None:
        """End it. No call begins after this returns.

        A callback that is under way is cancelled, and given ``timeout`` seconds to end.

        >>> watch = await client.watch(print)
        >>> await watch.stop()
        >>> watch.is_running
        False
        """
        await self._worker.stop(timeout)

    async def _run(self) -> None:
        try:
            while not self._worker.is_stopped:
                await self._deliver(await self._reader.read(DEFAULT_HOLD_SECONDS))
        except Exception as error:
            # A client that is closed under an open poll fails it: after a stop that is not news.
            if not self._worker.is_stopped:
                _log.exception("a watch ended")
                self._errors.append(error)

    async def _deliver(self, batch: Batch) -> None:
        for event in read_events(batch, self._now()):
            await self._turns.give()  # asynchronous alone
            if not self._wants(event):
                continue
            with self._worker.step:
                if self._worker.is_stopped:
                    return
                try:
                    await finish_call(self._callback(event))
                except Exception as error:
                    _log.exception("the callback of a watch failed")
                    self._errors.append(error)
