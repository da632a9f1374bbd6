"""A server in use for a while: what it holds at the begin, in the middle and at the end, and what was lost meanwhile.

Simulated devices report, and are read and written; one application polls, one reads the event stream, one has a
webhook. What grows from the middle to the end is a leak, or a cache that is not full yet. It ends by itself, and is no
part of the benchmarks that are run without a name.

What grew with 300 devices, looked at from within every ten seconds: Python's objects are as many after five minutes as
after one (581,000 blocks), and what malloc holds free stays 20 MB, so nothing leaks. Two caches grew. Encoded pages of
snapshots, of which every change made another one under a key of its own and the old ones stayed until 64 MB were full:
now a page takes the place of what it was, and one page of 0.1 MB is held. SQLite's pages, which follow the database: up
to 32 MB of the writer and 2 MB of each reader; in five minutes 6 MB, of the 6 MB by which the database grew. All of it
ends with the log's own bound (``--keep-log-bytes`` of an application). At the start pyarrow is 40 MB.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
from children import Server, free_port, server
from polls import resident_bytes
from rich.table import Table
from run_settings import Run

from mirror_sdk import MirrorClient
from mirror_sdk.errors import LimitExceeded, MirrorError
from mirror_sdk.webhook import WebhookReceiver
from mirror_server.service import keys
from mirror_server.service.keys import Scope
from mirror_server.store.database import Database

NAME = "soak"
_SWITCH = "/3311/0/5850"
_WRITTEN_DEVICES = 20
_APPLICATIONS = ("poll", "stream", "webhook", "reads", "writes", "values")
_HOLD_SECONDS = 5
_WARM_UP_SHARE = 0.1
_LOOK_SECONDS = 1.0
_END_SECONDS = 30
_LOOPBACK = "127.0.0.0/8"


@dataclass(frozen=True, slots=True)
class Held:
    """What a process holds at one moment."""

    seconds: float
    memory_mb: float
    descriptors: int
    threads: int
    database_mb: float
    wal_mb: float

    @classmethod
    def now(cls, pid: int, database: Path, began: float) -> Held:
        """What the process holds now."""
        process = Path(f"/proc/{pid}")
        return cls(
            seconds=time.monotonic() - began,
            memory_mb=resident_bytes(pid) / 1e6,
            descriptors=len(list((process / "fd").iterdir())),
            threads=len(list((process / "task").iterdir())),
            database_mb=_size_mb(database),
            wal_mb=_size_mb(database.with_name(f"{database.name}-wal")),
        )


class Uses:
    """Everything that uses the server; each use in a thread of its own, until all are over.

    Attributes:
        counts: How often each thing was done, by the name of the use.
        gaps: How many entries each reader was told to have missed.
        errors: How often each error was met.
    """

    def __init__(self, url: str, given: dict[str, str]) -> None:
        self._url = url
        self._keys = given
        self._over = threading.Event()
        self._lock = threading.Lock()
        self.counts: Counter[str] = Counter()
        self.gaps: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Use it, until this is left."""
        uses: dict[str, Callable[[], None]] = {
            "poll": self._poll,
            "stream": self._stream,
            "reads": self._read,
            "writes": self._write,
            "values": self._change_values,
        }
        with self._webhook():
            threads = [threading.Thread(target=self._again, args=use, daemon=True) for use in uses.items()]
            for thread in threads:
                thread.start()
            try:
                yield
            finally:
                self._over.set()
                self._wake_readers()
                for thread in threads:
                    thread.join(_END_SECONDS)

    def _wake_readers(self) -> None:
        """A registration, which every application is told of."""
        with self._http("values") as client:
            device_id = client.get("/v3/devices", params={"limit": 2}).raise_for_status().json()["data"][0]["id"]
            client.post(f"/sim/v1/devices/{device_id}/registration").raise_for_status()

    def _again(self, name: str, use: Callable[[], None]) -> None:
        while not self._over.is_set():
            try:
                use()
            except (httpx.HTTPError, MirrorError) as error:
                self._count(self.errors, f"{name}: {type(error).__name__}: {str(error)[:60]}")
                self._over.wait(1)

    def _count(self, counter: Counter[str], name: str, number: int = 1) -> None:
        with self._lock:
            counter[name] += number

    def _http(self, name: str) -> httpx.Client:
        headers = {"Authorization": f"Bearer {self._keys[name]}"}
        return httpx.Client(base_url=self._url, headers=headers, timeout=60, trust_env=False)

    def _sdk(self, name: str) -> MirrorClient:
        return MirrorClient(self._url, self._keys[name], timeout=60)

    def _poll(self) -> None:
        with self._http("poll") as client:
            _subscribe(client)
            after = "latest"
            while not self._over.is_set():
                answer = client.get("/v2/notification/pull", params={"after": after, "hold": _HOLD_SECONDS})
                answer.raise_for_status()
                after = answer.headers.get("Mirror-Cursor", after)
                if gap := answer.headers.get("Mirror-Gap"):
                    first, last = map(int, gap.split("-"))
                    self._count(self.gaps, "poll", last - first + 1)
                entries = sum(map(len, answer.json().values())) if answer.content else 0
                self._count(self.counts, "poll", entries)

    def _stream(self) -> None:
        with self._http("stream") as client:
            _subscribe(client)
            with client.stream("GET", "/v2/notification/events", params={"after": "latest"}) as answer:
                answer.raise_for_status()
                for line in answer.iter_lines():
                    if line == "event: gap":
                        self._count(self.gaps, "stream")
                    self._count(self.counts, "stream", line.startswith("data:"))
                    if self._over.is_set():
                        return

    @contextmanager
    def _webhook(self) -> Iterator[None]:
        with self._sdk("webhook") as client, WebhookReceiver("127.0.0.1", 0) as receiver:
            client.use_webhook(receiver)
            with self._http("webhook") as plain:
                _subscribe(plain)
            listening = receiver.listen(lambda: None)
            try:
                yield
            finally:
                listening()
                self._count(self.counts, "webhook", receiver.last)
                self._count(self.counts, "webhook, again", receiver.duplicates)
                client.use_long_polling()

    def _read(self) -> None:
        with self._sdk("reads") as client:
            ids = client.list_devices().ids
            for number in range(200):
                if self._over.wait(0.03):
                    return
                client.get_device(random.choice(ids))
                self._count(self.counts, "device object")
                if number % 50 == 0:
                    client.snapshot()
                    self._count(self.counts, "snapshot")

    def _write(self) -> None:
        with self._sdk("writes") as client:
            ids = [device.id for device in client.list_devices(endpoint_type="Written")]
            for number in range(200):
                if self._over.wait(0.1):
                    return
                try:
                    client.write_value(random.choice(ids), _SWITCH, bool(number % 2), timeout=30)
                    self._count(self.counts, "write")
                except LimitExceeded:
                    self._count(self.counts, "write, refused: queue is full")

    def _change_values(self) -> None:
        with self._http("values") as client:
            devices = client.get("/sim/v1/devices").raise_for_status().json()
            ids = [device["id"] for device in (devices if isinstance(devices, list) else devices["data"])]
            for number in range(1000):
                if self._over.wait(0.02):
                    return
                device_id = random.choice(ids)
                path = f"/sim/v1/devices/{device_id}/resources/3303/0/5700"
                answer = client.put(path, json={"value": f"{number % 400 / 10}"})
                answer.raise_for_status()
                self._count(self.counts, "value of a device")


def soak(run: Run, minutes: float, device_count: int) -> tuple[list[Held], Uses, list[Held]]:
    """Use a server for so long; gives begin, middle and end, what was done, and every look at it."""
    database = run.folder / "soak.db"
    with closing(Database(f"sqlite:///{database}")) as opened:
        now = int(time.time() * 1000)
        given = {name: keys.create(opened, name, tuple(Scope), now) for name in _APPLICATIONS}
    with ExitStack() as stack:
        running = stack.enter_context(_server(run, database, device_count))
        _add_written_devices(running, given["values"])
        uses = Uses(running.url, given)
        stack.enter_context(uses.running())
        began = time.monotonic()
        seconds = minutes * 60
        looks: list[Held] = []
        look = partial(Held.now, running.pid, database, began)
        while not looks or looks[-1].seconds < seconds:
            time.sleep(min(_LOOK_SECONDS, seconds / 10))
            looks.append(look())
    return [_at(looks, seconds * share) for share in (_WARM_UP_SHARE, 0.5, 1)], uses, looks


def table(moments: list[Held], uses: Uses, looks: list[Held]) -> Table:
    """What was held, and what was done and lost."""
    shown = Table("", "begin", "middle", "end", "most", highlight=False)
    shown.add_row("after s", *(f"{one.seconds:.0f}" for one in moments), "")
    for name, form in _ROWS.items():
        most = max(getattr(one, name) for one in looks)
        shown.add_row(name.replace("_", " "), *(form(getattr(one, name)) for one in moments), form(most))
    for title, counter in (("", uses.counts), ("gap: ", uses.gaps), ("error: ", uses.errors)):
        for name, count in sorted(counter.items()):
            shown.add_row(f"{title}{name}", "", "", f"{count:,}", "")
    shown.add_row("gaps", "", "", f"{uses.gaps.total():,}", "")
    shown.add_row("errors", "", "", f"{uses.errors.total():,}", "")
    return shown


def as_json(moments: list[Held], uses: Uses, looks: list[Held]) -> dict[str, Any]:
    """The same for programs, with every look."""

    def columns(some: list[Held]) -> dict[str, list[float]]:
        return {name: [getattr(one, name) for one in some] for name in ("seconds", *_ROWS)}

    told = {"counts": dict(uses.counts), "gaps": dict(uses.gaps), "errors": dict(uses.errors)}
    return {"moments": columns(moments), "looks": columns(looks), **told}


_ROWS: dict[str, Callable[[float], str]] = {
    "memory_mb": "{:.1f}".format,
    "descriptors": "{:.0f}".format,
    "threads": "{:.0f}".format,
    "database_mb": "{:.1f}".format,
    "wal_mb": "{:.1f}".format,
}


def _server(run: Run, database: Path, device_count: int) -> Any:
    port = free_port()
    command = [sys.executable, "-m", "mirror_server", "run", "--port", str(port), "--database", f"sqlite:///{database}"]
    command += ["--simulate", str(device_count), "--no-access-log", "--allow-callbacks-to", _LOOPBACK]
    return server("mirror", command, port, folder=run.folder, cores=run.cores.one, ready="/readyz")


def _add_written_devices(running: Server, key: str) -> None:
    headers = {"Authorization": f"Bearer {key}"}
    resources = [{"path": _SWITCH, "value": "0", "observable": True, "writable": True}]
    with httpx.Client(base_url=running.url, headers=headers, timeout=60, trust_env=False) as client:
        for number in range(_WRITTEN_DEVICES):
            device = {"endpoint_name": f"written-{number}", "endpoint_type": "Written", "resources": resources}
            client.post("/sim/v1/devices", json=device).raise_for_status()


def _subscribe(client: httpx.Client) -> None:
    """To all there is."""
    client.put("/v2/subscriptions", params={"apply": "now"}, json=[{}]).raise_for_status()


def _at(looks: list[Held], seconds: float) -> Held:
    return min(looks, key=lambda one: abs(one.seconds - seconds))


def _size_mb(path: Path) -> float:
    try:
        return path.stat().st_size / 1e6
    except FileNotFoundError:
        return 0.0
