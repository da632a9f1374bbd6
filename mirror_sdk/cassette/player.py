"""Plays a cassette: finds the recorded response to each request, in the order of the recording.

A poll of the notification log gets its response only after the requests whose recorded responses are earlier.
The result of a write therefore never comes before the write.
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
from mirror_sdk._formatting import visible_line
from mirror_sdk._protocol.client_clock import ClientClock
from mirror_sdk.cassette.cassette_file import CassetteFile, Exchange, Ids, RequestKey
from mirror_sdk.cassette.request_key import is_poll
from mirror_sdk.errors import NotRecorded
from mirror_sdk.wire.routes import CURSOR_HEADER

_REPEATABLE = frozenset({"GET", "HEAD", "PUT", "DELETE"})
_IMMEDIATE = frozenset({"latest"})
# Short, because the request of another thread may make a response due at any moment, and nothing wakes the poll.
_MAX_WAIT_SECONDS = 0.02
_ORDER_SECONDS = 5.0
"""The time for which a poll waits for requests with earlier recorded responses, which may be missing in this run."""
_CURSOR = re.compile("[0-9]{1,19}")
_ID = re.compile(rb'"([\w\-]{1,64})"')


@dataclass(slots=True)
class Played:
    """A recorded response: a status, headers and the chunks of a body, or a failure."""

    status: int | None
    headers: dict[str, str] = field(default_factory=dict)
    chunks: Callable[[], Iterator[bytes]] = lambda: iter(())
    failure: tuple[str, str] | None = None


@dataclass(slots=True)
class Wait:
    """There is no response yet; try again after this many seconds."""

    seconds: float


class Player(ClientClock):
    """Returns recorded responses to requests, on any number of threads.

    It is also the clock of its client, which shows the recorded time of the last response.

    Args:
        path: The file.
        clock: A monotonic clock in seconds, for waits without a response.

    Raises:
        CassetteDamaged: The file is not a cassette, or is a cassette of another format version.
        OSError: The file cannot be read.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.path = path
        self._file = CassetteFile(path)
        manifest = self._file.manifest
        self.base_url: str = manifest.base_url
        self.started_at: datetime = manifest.started_at
        self._clock = clock
        self._lock = threading.Lock()
        self._exchanges = manifest.exchanges
        self._waiting: dict[RequestKey, deque[int]] = defaultdict(deque)
        self._last: dict[RequestKey, int] = {}
        # The file lists them in the order of their responses. Among equal requests, the order of sending counts, and a
        # poll waits only for requests that had been sent before it.
        for number in sorted(range(len(self._exchanges)), key=lambda number: self._exchanges[number].sent_seconds):
            self._waiting[self._exchanges[number].key].append(number)
        self._played: set[int] = set()
        self._causes = deque(sorted(self._cause(number) for number in range(len(self._exchanges))))
        self._started_seconds = manifest.started_seconds
        self._ids = Ids(manifest.seed)
        self._recorded_ids: dict[str, str] = {}
        self._async_ids: dict[bytes, bytes] = {}
        self._cursor = "0"
        self._now = self.started_at
        self._seconds = self._waited = 0.0
        self._moved = clock()
        self._waited_for: tuple[int, float] | None = None
        self._is_closed = False

    def new_async_id(self) -> str:
        """Return the next id, which comes from the seed of the cassette."""
        return self._ids.new()

    def now(self) -> datetime:
        """Return the recorded time of the last response."""
        return self._now

    def seconds(self) -> float:
        """Return the recorded time of the monotonic clock."""
        return self._seconds

    def started_seconds(self, started: float, async_id: str) -> float:
        """Return when a device request started in the recording, or ``started`` if the cassette does not have it."""
        return self._started_seconds.get(self._recorded_ids.get(async_id, async_id), started)

    def received_seconds(self) -> float:
        """Return when the last response arrived in the recording."""
        return self._seconds

    def waiting_seconds(self) -> float:
        """Return the seconds of a wait: as in the recording, plus the time since the last response.

        See :class:`ClientClock`.
        """
        return self._waited + self._clock() - self._moved

    def close(self) -> None:
        """Close the file and end waiting polls."""
        with self._lock:
            self._is_closed = True
            self._file.close()

    def respond(self, key: RequestKey, async_id: str | None, started: float, hold_seconds: float) -> Played | Wait:
        """Return the recorded response to a request.

        Args:
            key: The key of the request.
            async_id: Its async-id.
            started: When it was first sent, by ``waiting_seconds``.
            hold_seconds: How long a poll may wait.

        Raises:
            NotRecorded: The request was not recorded, or was recorded less often and cannot be repeated.
        """
        with self._lock:
            if is_poll(key):
                return self._respond_to_poll(key, started, hold_seconds)
            return self._play(self._next(key), async_id)

    def _next(self, key: RequestKey) -> int:
        """Return the number of the next response; the last one again if the request can be repeated."""
        if waiting := self._waiting.get(key):
            return waiting.popleft()
        if key in self._last and key.method in _REPEATABLE:
            return self._last[key]
        raise self._not_recorded(key)

    def _respond_to_poll(self, key: RequestKey, started: float, hold_seconds: float) -> Played | Wait:
        waiting = self._waiting.get(key)
        after = dict(key.query).get("after", self._cursor)
        is_immediate = after in _IMMEDIATE
        nothing = Played(204, {CURSOR_HEADER: self._cursor if is_immediate else after})
        if self._is_closed:
            return nothing
        if waiting and (is_immediate or self._is_due(waiting[0], hold_seconds)):
            return self._play(waiting.popleft(), None, started)
        if not waiting and not is_immediate and (last := self._last.get(key)) is not None and self._has_entries(last):
            # Several readers may poll from the same position, and the log returns the same entries to each.
            return self._play(last, None)
        waited_seconds = self._clock() - self._moved + self._waited - started
        if is_immediate or waited_seconds >= hold_seconds:
            return nothing
        return Wait(min(_MAX_WAIT_SECONDS, hold_seconds))

    def _is_due(self, number: int, hold_seconds: float) -> bool:
        """Return whether all requests that may have caused this response were sent, or will not be."""
        ended_seconds = self._exchanges[number].ended_seconds
        while self._causes and (self._causes[0][1] in self._played or self._causes[0][1] == number):
            self._causes.popleft()
        if not self._causes or self._causes[0][0] >= ended_seconds:
            return True
        if not hold_seconds or self._waited_seconds_for(self._causes[0][1]) < min(hold_seconds, _ORDER_SECONDS):
            return False
        while self._causes and self._causes[0][0] < ended_seconds:
            self._causes.popleft()
        return True

    def _waited_seconds_for(self, number: int) -> float:
        """Return how long polls have waited for a request, in real time, which other threads need.

        ``waiting_seconds`` jumps to the recorded time with each response, however little real time has passed.
        """
        if self._waited_for is None or self._waited_for[0] != number:
            self._waited_for = number, self._clock()
        return self._clock() - self._waited_for[1]

    def _cause(self, number: int) -> tuple[float, int]:
        """Return the time from which an exchange may have had effects: sending a request, or the response of a poll."""
        exchange = self._exchanges[number]
        if not is_poll(exchange.key):
            return exchange.sent_seconds, number
        return exchange.ended_seconds if self._has_entries(number) else float("inf"), number

    def _has_entries(self, number: int) -> bool:
        return self._exchanges[number].status == 200

    def _play(self, number: int, async_id: str | None, started: float | None = None) -> Played:
        exchange = self._exchanges[number]
        self._last[exchange.key] = number
        # A repeated response must not move the clock back.
        if number not in self._played:
            self._played.add(number)
            self._advance(exchange, started)
        if async_id is not None and exchange.async_id is not None:
            self._async_ids[exchange.async_id.encode()] = async_id.encode()
            self._recorded_ids[async_id] = exchange.async_id
        if is_poll(exchange.key):
            self._cursor = max(self._cursor, _cursor_of(exchange), key=int)
        return Played(exchange.status, exchange.headers, lambda: self._chunks(exchange), exchange.failure)

    def _advance(self, exchange: Exchange, started: float | None) -> None:
        """Advance the clock to the recorded end of an exchange."""
        self._now, self._seconds = exchange.ended_at, exchange.ended_seconds
        exchange_seconds = exchange.ended_seconds - exchange.sent_seconds
        waited = max(self.waiting_seconds(), exchange.ended_seconds, exchange_seconds + (started or 0.0))
        self._waited, self._moved = waited, self._clock()

    def _chunks(self, exchange: Exchange) -> Iterator[bytes]:
        if exchange.body is None:
            return
        chunks = self._file.chunks(exchange.body)
        if any(old != new for old, new in self._async_ids.items()) and _is_json(exchange):
            # Joined, because a chunk may end within an id.
            yield _ID.sub(self._renamed, b"".join(chunks))
            return
        yield from chunks

    def _renamed(self, found: re.Match[bytes]) -> bytes:
        """Replace a recorded async-id by the async-id of the current request."""
        return b'"%b"' % self._async_ids.get(found[1], found[1])

    def _not_recorded(self, key: RequestKey) -> NotRecorded:
        sent = visible_line(str(key))
        same = [str(one) for one in self._waiting if one.method == key.method and not is_poll(one)]
        if key in self._last:
            problem = f"{sent} was sent more often than it was recorded in {self.path}"
        elif str(key) in same:
            problem = f"{sent} was recorded in {self.path} with a different body or different headers"
        else:
            problem = f"{sent} was not recorded in {self.path}; recorded requests: {closest(str(key), same)}"
        return NotRecorded(
            f"{problem}. Requests that depend on the time or on random numbers differ in each run. Record the cassette"
            f" again with client.cassettes.use({str(self.path)!r}, mode='record')"
        )


def _cursor_of(exchange: Exchange) -> str:
    """Return the number of the last entry of a poll; 0 if the response is not from a mirror."""
    cursor = exchange.headers.get(CURSOR_HEADER.lower(), "")
    return cursor if _CURSOR.fullmatch(cursor) else "0"


def _is_json(exchange: Exchange) -> bool:
    return exchange.headers.get("content-type", "").startswith("application/json")
