"""Reads the notification log of a key with long polls, and sleeps in between; lines of JSON.

Arguments: URL and key. The reader stores its own position, as the SDK does. The response accounts for every entry
number: it was read, or lies in a gap that the server reported. A value is the time at which it was submitted, in
milliseconds of the monotonic clock, which all processes of the machine share.
"""

from __future__ import annotations

import base64
import json
import sys
import time
from array import array
from typing import Any

import httpx
import orjson
from measuring import percentile

from mirror_sdk.wire.routes import CURSOR_HEADER, GAP_HEADER, PULL
from mirror_server.notifications.log import MAX_BYTES, MAX_ENTRIES

_HOLD_SECONDS = 2
_SAMPLE = 20
"""The time of one in this many entries is measured."""


class Reader:
    """A reader with its own position, which starts at the first entry."""

    def __init__(self, http: httpx.Client) -> None:
        self._http = http
        self._is_lagging = False
        self._resumed_at = 0.0
        self._caught_up_entries = 0
        self.cursor = self.read_count = self.gap_count = self.unaccounted = 0
        self.gaps: list[tuple[int, int]] = []
        self.catch_ups: list[tuple[int, float]] = []
        self.milliseconds = array("d")

    def sleep(self, seconds: float) -> None:
        """Read nothing. Afterwards, the reader lags until a page reaches the end of the log."""
        time.sleep(seconds)
        self._is_lagging, self._resumed_at, self._caught_up_entries = True, time.perf_counter(), 0

    def poll(self) -> None:
        """Read a page."""
        response = self._http.get(PULL, params={"after": self.cursor, "hold": _HOLD_SECONDS}).raise_for_status()
        received_ms = time.monotonic_ns() / 1e6
        message = orjson.loads(response.content or b"{}")
        entries = [entry for kind in message.values() for entry in kind]
        cursor = int(response.headers[CURSOR_HEADER])
        self._account(cursor, response.headers.get(GAP_HEADER), {entry["seq"] for entry in entries}, len(entries))
        if self._is_lagging:
            self._caught_up_entries += len(entries)
            # The server ends a page early only at its limits.
            if len(entries) < MAX_ENTRIES and len(response.content) < MAX_BYTES:
                self.catch_ups.append((self._caught_up_entries, time.perf_counter() - self._resumed_at))
                self._is_lagging = False
        else:
            sent_ms = (float(base64.b64decode(entry["payload"])) for entry in entries[::_SAMPLE])
            self.milliseconds.extend(received_ms - each for each in sent_ms)

    def _account(self, cursor: int, gap: str | None, numbers: set[int], count: int) -> None:
        missing = range(0)
        if gap is not None:
            first, last = map(int, gap.split("-"))
            missing = range(first, last + 1)
            self.gaps.append((first, last))
        expected = set(range(self.cursor + 1, cursor + 1)).difference(missing)
        self.unaccounted += len(expected ^ numbers) + count - len(numbers)
        self.read_count += count
        self.gap_count += len(missing)
        self.cursor = cursor


def read(http: httpx.Client, *, awake: float, asleep: float, seconds: float) -> dict[str, Any]:
    """Alternate between reading and sleeping. After ``seconds``, read up to the number in the next line of input."""
    reader = Reader(http)
    end_at = time.perf_counter() + seconds
    while (now := time.perf_counter()) < end_at:
        sleep_at = min(now + awake, end_at)
        while time.perf_counter() < sleep_at:
            reader.poll()
        if sleep_at + asleep < end_at:
            reader.sleep(asleep)
    last_seq = json.loads(sys.stdin.readline())["last_seq"]
    while reader.cursor < last_seq:
        reader.poll()
    milliseconds = list(reader.milliseconds)
    return {
        "last_seq": reader.cursor,
        "read": reader.read_count,
        "lost": reader.gap_count,
        "gaps": reader.gaps,
        "unaccounted": reader.unaccounted,
        "catch_ups": reader.catch_ups,
        "p50_ms": percentile(milliseconds, 0.5),
        "p99_ms": percentile(milliseconds, 0.99),
        "worst_ms": max(milliseconds),
    }


def main() -> None:
    url, key = sys.argv[1:]
    with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=60) as http:
        # The imports take longer than a short run.
        print("{}", flush=True)
        print(json.dumps(read(http, **json.loads(sys.stdin.readline()))), flush=True)


if __name__ == "__main__":
    main()
