"""A player of cassettes, which finds the recorded response to each request.

Responses come in the order of the recording. A poll of the notification log gets its response only after the requests
that had earlier responses in the recording. The result of a write therefore never arrives before the write.
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
# The interval is short, because a request of another thread can allow a response at any time, and nothing wakes the
# poll.
_MAX_WAIT_SECONDS = 0.02
_ORDER_SECONDS = 5.0
"""The time for which a poll waits for requests with earlier recorded responses, in seconds.

Such requests may be missing in this run.
"""
_CURSOR = re.compile("[0-9]{1,19}")
_ID = re.compile(rb'"([\w\-]{1,64})"')


@dataclass(slots=True)
class Played:
    """A recorded response, which is either a status, headers and the chunks of a body, or a failure."""

    status: int | None
    headers: dict[str, str] = field(default_factory=dict)
    chunks: Callable[[], Iterator[bytes]] = lambda: iter(())
    failure: tuple[str, str] | None = None


@dataclass(slots=True)
class Wait:
    """The result if there is no response yet. The caller must try again after this many seconds."""

    seconds: float


class Player(ClientClock):
    """A player that returns recorded responses to requests. Any number of threads can use it at the same time.

    The player is also the clock of its client. The clock shows the recorded time of the last response.

    Args:
        path: The path of the cassette file.
        clock: A monotonic clock in seconds, which measures waits without a response.

    Raises:
        CassetteDamaged: The file is not a cassette, or it is a cassette of another format version.
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
        # The file lists exchanges in the order of their responses. Here they are sorted by the order of sending, which
        # decides between equal requests. A poll waits only for requests that had been sent before it.
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
        """Return a new async-id, as :class:`ClientClock` defines it."""
        return self._ids.new()

    def now(self) -> datetime:
        """Return the current time, as :class:`ClientClock` defines it."""
        return self._now

    def seconds(self) -> float:
        """Return the time of the monotonic clock, as :class:`ClientClock` defines it."""
        return self._seconds

    def started_seconds(self, started: float, async_id: str) -> float:
        """Return the start time of a device request, as :class:`ClientClock` defines it."""
        return self._started_seconds.get(self._recorded_ids.get(async_id, async_id), started)

    def received_seconds(self) -> float:
        """Return the time of the last response, as :class:`ClientClock` defines it."""
        return self._seconds

    def waiting_seconds(self) -> float:
        """See :class:`ClientClock`.

        The result is the time as in the recording, plus the time since the last response.
        """
        return self._waited + self._clock() - self._moved

    def close(self) -> None:
        """Close the file and end all waiting polls."""
        with self._lock:
            self._is_closed = True
            self._file.close()

    def respond(self, key: RequestKey, async_id: str | None, started: float, hold_seconds: float) -> Played | Wait:
        """Return the recorded response to a request.

        Args:
            key: The key of the request.
            async_id: The async-id of the request.
            started: The time at which the request was first sent, as ``waiting_seconds`` returned it.
            hold_seconds: The time for which a poll may wait, in seconds.

        Raises:
            NotRecorded: The request was not recorded, or it was recorded fewer times and cannot be repeated.
        """
        with self._lock:
            if is_poll(key):
                return self._respond_to_poll(key, started, hold_seconds)
            return self._play(self._next(key), async_id)

    def _next(self, key: RequestKey) -> int:
        """Return the number of the next response.

        If the request can be repeated, the last response is used again.
        """
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
            # Several readers may poll from the same position. The log returns the same entries to each of them.
            return self._play(last, None)
        waited_seconds = self._clock() - self._moved + self._waited - started
        if is_immediate or waited_seconds >= hold_seconds:
            return nothing
        return Wait(min(_MAX_WAIT_SECONDS, hold_seconds))

    def _is_due(self, number: int, hold_seconds: float) -> bool:
        """Return whether all requests that may have caused this response were sent or will not be sent."""
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
        """Return how long polls have waited for a request, in real time.

        Real time is used because other threads need it to send the request. ``waiting_seconds`` instead jumps to the
        recorded time with each response, even if little real time has passed.
        """
        if self._waited_for is None or self._waited_for[0] != number:
            self._waited_for = number, self._clock()
        return self._clock() - self._waited_for[1]

    def _cause(self, number: int) -> tuple[float, int]:
        """Return the time from which an exchange may have had effects.

        This is the time at which a request was sent, or the time of the response to a poll.
        """
        exchange = self._exchanges[number]
        if not is_poll(exchange.key):
            return exchange.sent_seconds, number
        return exchange.ended_seconds if self._has_entries(number) else float("inf"), number

    def _has_entries(self, number: int) -> bool:
        return self._exchanges[number].status == 200

    def _play(self, number: int, async_id: str | None, started: float | None = None) -> Played:
        exchange = self._exchanges[number]
        self._last[exchange.key] = number
        # A repeated response must not set the clock back.
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
            # The chunks are joined, because a chunk may end within an id.
            yield _ID.sub(self._renamed, b"".join(chunks))
            return
        yield from chunks

    def _renamed(self, found: re.Match[bytes]) -> bytes:
        """Replace a recorded async-id with the async-id of the current request."""
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
    """Return the number of the last entry of a poll. It is 0 if the response does not come from a mirror."""
    cursor = exchange.headers.get(CURSOR_HEADER.lower(), "")
    return cursor if _CURSOR.fullmatch(cursor) else "0"


def _is_json(exchange: Exchange) -> bool:
    return exchange.headers.get("content-type", "").startswith("application/json")
