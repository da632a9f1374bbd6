"""Functions that the notebook of the benchmark ``widgets`` calls in its kernel."""

from __future__ import annotations

import gc
import json
import os
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from machine import resident_bytes

from mirror_sdk import Event, EventKind, MirrorClient
from mirror_sdk.values import decode
from mirror_sdk.widgets import EventWatcher, FleetTable
from mirror_sdk.widgets.feed import feed_of
from mirror_sdk.widgets.models.watcher_model import series_text

__all__ = ["EventWatcher", "FleetTable", "Flood", "client", "fill", "page_address", "usage", "write"]

_PATH = "/3303/0/5700"
_SETTLED_SECONDS = 10

client = MirrorClient.from_env()


class Flood:
    """Publishes events at a rate to the widgets of the client, until :meth:`stop`.

    Attributes:
        first: The number of the first event in the watcher.
    """

    def __init__(self, watcher: EventWatcher, *, rate: int, lines: int = 4) -> None:
        self._rate = rate
        self._lines = lines
        self._times: list[float] = []
        self.first = watcher.model.total + 1
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        feed = feed_of(client)
        began = time.monotonic()
        while not self._stopped.wait(0.005):
            while len(self._times) < (time.monotonic() - began) * self._rate:
                number = len(self._times)
                self._times.append(time.time())
                feed._publish(_event(number, number % self._lines, datetime.now(UTC)))

    def stop(self) -> list[float]:
        """Stop, and return the time of each event."""
        self._stopped.set()
        self._thread.join()
        return self._times


def fill(watcher: EventWatcher, lines: int, points: int) -> None:
    """Add lines to the watcher whose points are a second apart."""
    begin = datetime.now(UTC) - timedelta(seconds=points)
    with watcher._live.lock:
        for point in range(points):
            at = begin + timedelta(seconds=point)
            watcher.model.receive([_event(point, line, at) for line in range(lines)])
        watcher.model.follow(None)
        watcher.model.plot_texts([series_text(key) for key in watcher.model._newest])


def page_address() -> str:
    """Return the address of the server's page with the access key."""
    return f"{os.environ['API_HOST']}/#key={os.environ['API_KEY']}"


def usage(before: dict[str, float] | None = None) -> dict[str, float]:
    """Return threads, sockets and memory, after waiting some seconds until they are not above ``before``."""
    end = time.monotonic() + _SETTLED_SECONDS
    while True:
        gc.collect()
        sockets = sum("socket:" in _target(one) for one in Path("/proc/self/fd").iterdir())
        found = {"threads": threading.active_count(), "sockets": sockets, "mib": resident_bytes("self") / 2**20}
        settled = before is None or all(found[name] <= before[name] for name in ("threads", "sockets"))
        if settled or time.monotonic() > end:
            return found
        threading.Event().wait(0.2)


def write(file: str, value: object) -> None:
    """Write a value for the benchmark."""
    Path(file).write_text(json.dumps(value), encoding="utf-8")


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:  # closed in the meantime
        return ""


def _event(seq: int, line: int, at: datetime) -> Event:
    value = decode(str((seq + 7 * line) % 97).encode(), "text/plain", _PATH)
    return Event(kind=EventKind.OBSERVATION, received_at=at, seq=seq, device_id=f"d{line}", path=_PATH, value=value)
