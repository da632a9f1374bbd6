"""Plays a cassette: finds for each request what was answered to it, in the order of the recording.

A poll of the notification log is answered no earlier than what the log then had could be known: the requests that were
answered before it in the recording have to be made first. So an answer to a write never comes before the write.
"""

from __future__ import annotations

import re
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from mirror_sdk._arguments import closest
from mirror_sdk._protocol.client_clock import ClientClock
from mirror_sdk._visible import visible_line
from mirror_sdk.cassette.asking import is_poll
from mirror_sdk.cassette.content import CassetteFile, Exchange, Ids, RequestKey
from mirror_sdk.errors import NotRecorded
from mirror_sdk.wire.routes import CURSOR_HEADER

_REPEATABLE = frozenset({"GET", "HEAD", "PUT", "DELETE"})
_AT_ONCE = frozenset({"latest"})
_LONGEST_TURN_SECONDS = 0.02
_ORDER_SECONDS = 5.0
"""For how long polls wait for each request that was answered before them, and that may never be made this time."""
_CURSOR = re.compile("[0-9]{1,19}")
_ID = re.compile(rb'"([\w\-]{1,64})"')


@dataclass(slots=True)
class Played:
    """What is answered: a status, headers and the pieces of a body, or a failure."""

    status: int | None
    headers: dict[str, str] = field(default_factory=dict)
    pieces: Callable[[], Iterator[bytes]] = lambda: iter(())
    failure: tuple[str, str] | None = None


@dataclass(slots=True)
class Wait:
    """Nothing is answered yet; look again in so many seconds."""

    seconds: float


class Player(ClientClock):
    """Answers requests out of a cassette, from any number of threads.

    It is the clock of its client too: it stands where the recording did when the last answer was given.

    Args:
        path: The file.
        clock: Seconds, of a clock that only goes on: by it what is not answered is waited for.

    Raises:
        CassetteDamaged: It is no cassette, or one of another version.
        OSError: The file cannot be read.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.path = path
        self._file = CassetteFile(path)
        manifest = self._file.manifest
        self.base_url: str = manifest.base_url
        self.begun_at: datetime = manifest.begun_at
        self._clock = clock
        self._lock = threading.Lock()
        self._exchanges = manifest.exchanges
        self._waiting: dict[RequestKey, deque[int]] = defaultdict(deque)
        self._last: dict[RequestKey, int] = {}
        # In the order they were sent, though they stand in that of their answers: of requests that are the same, the
        # first that is made is the first that was, and a poll waits for no more of them than had been sent.
        for number in sorted(range(len(self._exchanges)), key=lambda number: self._exchanges[number].sent_seconds):
            self._waiting[self._exchanges[number].asked].append(number)
        self._played: set[int] = set()
        self._causes = deque(sorted(self._cause(number) for number in range(len(self._exchanges))))
        self._begun = manifest.begun_seconds
        self._ids = Ids(manifest.seed)
        self._recorded_ids: dict[str, str] = {}
        self._async_ids: dict[bytes, bytes] = {}
        self._cursor = "0"
        self._now = self.begun_at
        self._seconds = self._waited = 0.0
        self._moved = clock()
        self._awaited: tuple[int, float] | None = None
        self._is_closed = False

    def new_async_id(self) -> str:
        """See :class:`ClientClock`."""
        return self._ids.new()

    def now(self) -> datetime:
        """See :class:`ClientClock`."""
        return self._now

    def seconds(self) -> float:
        """See :class:`ClientClock`."""
        return self._seconds

    def begun_seconds(self, begun: float, async_id: str) -> float:
        """See :class:`ClientClock`."""
        return self._begun.get(self._recorded_ids.get(async_id, async_id), begun)

    def received_seconds(self) -> float:
        """See :class:`ClientClock`."""
        return self._seconds

    def waiting_seconds(self) -> float:
        """See :class:`ClientClock`: as in the recording, and where nothing is answered as the clock here."""
        return self._waited + self._clock() - self._moved

    def close(self) -> None:
        """Close the file, and end the polls that are held."""
        with self._lock:
            self._is_closed = True
            self._file.close()

    def answer(self, asked: RequestKey, async_id: str | None, begun: float, hold_seconds: float) -> Played | Wait:
        """What was answered to a request.

        Args:
            asked: What is asked.
            async_id: Under which async-id.
            begun: When it was first asked, by ``waiting_seconds``.
            hold_seconds: For how long a poll may be held.

        Raises:
            NotRecorded: It was not asked in the recording, or is asked once more and must not be.
        """
        with self._lock:
            if is_poll(asked):
                return self._answer_poll(asked, begun, hold_seconds)
            return self._play(self._next(asked), async_id)

    def _next(self, asked: RequestKey) -> int:
        """The number of what was answered next to this; the last one again, of what may be asked again and again."""
        if waiting := self._waiting.get(asked):
            return waiting.popleft()
        if asked in self._last and asked.method in _REPEATABLE:
            return self._last[asked]
        raise self._not_recorded(asked)

    def _answer_poll(self, asked: RequestKey, begun: float, hold_seconds: float) -> Played | Wait:
        waiting = self._waiting.get(asked)
        after = dict(asked.query).get("after", self._cursor)
        is_at_once = after in _AT_ONCE
        nothing = Played(204, {CURSOR_HEADER: self._cursor if is_at_once else after})
        if self._is_closed:
            return nothing
        if waiting and (is_at_once or self._is_due(waiting[0], hold_seconds)):
            return self._play(waiting.popleft(), None, begun)
        if not waiting and not is_at_once and (told := self._last.get(asked)) is not None and self._brings(told):
            return self._play(told, None)
        waited_seconds = self._clock() - self._moved + self._waited - begun
        if is_at_once or waited_seconds >= hold_seconds:
            return nothing
        return Wait(min(_LONGEST_TURN_SECONDS, hold_seconds))

    def _is_due(self, number: int, hold_seconds: float) -> bool:
        """Whether all has been asked for that may have caused what is answered, or will not be."""
        answered_seconds = self._exchanges[number].answered_seconds
        while self._causes and (self._causes[0][1] in self._played or self._causes[0][1] == number):
            self._causes.popleft()
        if not self._causes or self._causes[0][0] >= answered_seconds:
            return True
        if not hold_seconds or self._awaited_seconds(self._causes[0][1]) < min(hold_seconds, _ORDER_SECONDS):
            return False
        while self._causes and self._causes[0][0] < answered_seconds:
            self._causes.popleft()
        return True

    def _awaited_seconds(self, number: int) -> float:
        """How long polls have waited for a request, by the clock here: a request on another thread takes its own time.

        ``waiting_seconds`` leaps with each answer to where the recording was, however little has passed.
        """
        if self._awaited is None or self._awaited[0] != number:
            self._awaited = number, self._clock()
        return self._clock() - self._awaited[1]

    def _cause(self, number: int) -> tuple[float, int]:
        """From when on an exchange may have caused something: a request once it is sent, a poll once it brought it."""
        exchange = self._exchanges[number]
        if not is_poll(exchange.asked):
            return exchange.sent_seconds, number
        return exchange.answered_seconds if self._brings(number) else float("inf"), number

    def _brings(self, number: int) -> bool:
        return self._exchanges[number].status == 200

    def _play(self, number: int, async_id: str | None, begun: float | None = None) -> Played:
        exchange = self._exchanges[number]
        self._last[exchange.asked] = number
        if number not in self._played:
            self._played.add(number)
            self._move(exchange, begun)
        if async_id is not None and exchange.async_id is not None:
            self._async_ids[exchange.async_id.encode()] = async_id.encode()
            self._recorded_ids[async_id] = exchange.async_id
        if is_poll(exchange.asked):
            self._cursor = max(self._cursor, _cursor_of(exchange), key=int)
        return Played(exchange.status, exchange.headers, lambda: self._pieces(exchange), exchange.failure)

    def _move(self, exchange: Exchange, begun: float | None) -> None:
        """Go on to where the recording was."""
        self._now, self._seconds = exchange.answered_at, exchange.answered_seconds
        held_seconds = exchange.answered_seconds - exchange.sent_seconds
        waited = max(self.waiting_seconds(), exchange.answered_seconds, held_seconds + (begun or 0.0))
        self._waited, self._moved = waited, self._clock()

    def _pieces(self, exchange: Exchange) -> Iterator[bytes]:
        if exchange.body is None:
            return
        pieces = self._file.pieces(exchange.body)
        if any(old != new for old, new in self._async_ids.items()) and _is_json(exchange):
            yield _ID.sub(self._renamed, b"".join(pieces))
            return
        yield from pieces

    def _renamed(self, found: re.Match[bytes]) -> bytes:
        """An async-id of the recording is the one under which the request was made this time."""
        return b'"%b"' % self._async_ids.get(found[1], found[1])

    def _not_recorded(self, asked: RequestKey) -> NotRecorded:
        is_known = asked in self._last
        same = [str(one) for one in self._waiting if one.method == asked.method and not is_poll(one)]
        which = "was made more often than it was recorded" if is_known else "was not recorded"
        near = f"; of those that were, {closest(str(asked), same)}"
        if str(asked) in same:
            near = " as it was made now: another body or header was sent"
        near = "" if is_known else near
        return NotRecorded(
            f"{visible_line(str(asked))} {which} in {self.path}{near}. What depends on the time of day or on chance is"
            f" another request each time. Record it anew with client.cassettes.use({str(self.path)!r}, mode='record')"
        )


def _cursor_of(exchange: Exchange) -> str:
    """The number of the last entry that a poll brought; 0 where something else than a mirror answered."""
    cursor = exchange.headers.get(CURSOR_HEADER.lower(), "")
    return cursor if _CURSOR.fullmatch(cursor) else "0"


def _is_json(exchange: Exchange) -> bool:
    return exchange.headers.get("content-type", "").startswith("application/json")
