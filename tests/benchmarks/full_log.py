"""The notification log of one application that is subscribed to all resources of a fleet that reports fast.

Devices report at a fixed rate, all resources of a device in one group. An observation is one log entry, of about 240
bytes, so at 10,000 entries per second the default limit of 50 MB is reached after 20 seconds. From then on, the server
deletes as much as it stores. One reader repeatedly sleeps for half of that time, so that it lags, and must catch up
without a gap. Another sleeps one and a half times as long, and must receive a gap with the exact numbers of the entries
that it missed. Another key reads device objects (E1) meanwhile. For ten minutes, run it with ``--log-seconds 600``.

On two idle cores, ten minutes stored all of the 10,000 per second, with 60 us of CPU per entry. An entry was on disk
after 31 ms and reached the reader after 120 ms (p99; p50 1.85 ms). The reader caught up at 6.3 times the rate, and the
server used 168 MB. No number was lost without a gap, and the reader with short pauses lost nothing. E1 had a p99 of 16
ms and took at most 103 ms. With a load of 8 to 10, entries waited for the disk for up to 6.6 s, the reader lost 0.4 %
in gaps, and one E1 took 1.7 s. Observations that wait to be stored are not limited, and used up to 665 MB.

Almost half of the writer's time is the commit. Adding up the sizes of all entries at each deletion took 220 ms. The p99
until an entry was on disk was then 0.4, 0.6, 1.1 and 23 s in four runs of a minute with a load of 6 to 15. Reading only
what is deleted gave 0.06, 0.13, 2 and 15 s. Other load on the machine caused more of the difference than the change.
"""

from __future__ import annotations

import itertools
import sqlite3
import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any

from children import Server, program
from filling import Filled, fill
from machine import most_resident_bytes
from measuring import Figure, at_least, at_most, percentile
from run_settings import Run
from serving import client_of, copy, database_path, devices_in

from mirror_server.hooks import open_database
from mirror_server.service import keys
from mirror_server.service.keys import Scope

NAME = "full_log"
_DEFAULT_LIMIT = 50_000_000
_ENTRY_BYTES = 240
_E1_PAUSE_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Measured:
    """The results of the device side and of both readers, and what the server used."""

    stored: dict[str, Any]
    steady: dict[str, Any]
    sleeper: dict[str, Any]
    e1_ms: list[float]
    resident_mb: float
    file_mb: float
    log_mb: float


def measure(run: Run) -> Iterator[Figure]:
    filled = fill(
        run.folder / "full-log.db",
        device_count=run.scale.devices,
        resource_count=run.scale.resources,
        subscribed_count=run.scale.resources,
    )
    rate = run.scale.log_rate
    limit = min(_DEFAULT_LIMIT, int(rate * run.scale.log_seconds * _ENTRY_BYTES / 3))
    measured = report_and_read(run, filled, limit)
    stored = measured.stored
    what = f"stored / reported, {rate:,} per second"
    yield Figure(NAME, what, stored["rate"] / rate, "x", at_least(0.99), {"stored": stored["rate"]}, "/s")
    yield Figure(NAME, "until on disk, p99", stored["p99_ms"], "ms", None, {"longest": stored["worst_ms"]}, "ms")
    yield Figure(NAME, "CPU time of the server per entry", stored["cpu_us"], "us")
    yield from reading(measured, rate)
    yield Figure(NAME, "stored entries / limit", 1e6 * measured.log_mb / limit, "x", at_most(1))
    # The log of SQLite is one file of 32 MB, so a ratio would say nothing about a smaller limit.
    yield Figure(NAME, "growth of the files of the database", measured.file_mb, "MB", at_most(150))
    yield Figure(NAME, "memory of the server at most", measured.resident_mb, "MB", at_most(600))
    yield Figure(NAME, "E1 of another key, p50", percentile(measured.e1_ms, 0.5), "ms")
    yield Figure(NAME, "E1 of another key, p99", percentile(measured.e1_ms, 0.99), "ms")
    yield Figure(NAME, "E1 of another key, longest", max(measured.e1_ms), "ms", at_most(250))


def reading(measured: Measured, rate: int) -> Iterator[Figure]:
    """Yield the figures of the readers. Every entry number was read once, or lies in one reported gap."""
    steady, sleeper, count = measured.steady, measured.sleeper, measured.stored["count"]
    speeds = [number / seconds for number, seconds in steady["catch_ups"]]
    yield Figure(NAME, "entry to reader, p50", steady["p50_ms"], "ms", at_most(100))
    yield Figure(NAME, "entry to reader, p99", steady["p99_ms"], "ms", at_most(500))
    times = statistics.median(speeds) / rate
    sides = {"median": times * rate, "slowest": min(speeds)}
    yield Figure(NAME, "catching up / reported", times, "x", at_least(2), sides, "/s", {"": speeds})
    unaccounted = sum(each["unaccounted"] + abs(each["last_seq"] - count) for each in (steady, sleeper))
    yield Figure(NAME, "lost without a gap", unaccounted, "entries", at_most(0))
    yield Figure(NAME, "lost by the reader with short pauses", steady["lost"], "entries", at_most(0))
    sides = {"read": sleeper["read"], "sent": count}
    what = f"lost by the reader with long pauses, in {len(sleeper['gaps'])} gaps"
    yield Figure(NAME, what, sleeper["lost"], "entries", None, sides, "entries")


def report_and_read(run: Run, filled: Filled, limit: int) -> Measured:
    """Let devices report, while two readers read the log and another key reads device objects."""
    rate, seconds = run.scale.log_rate, run.scale.log_seconds
    full_seconds = limit / _ENTRY_BYTES / rate
    other_key = create_key(filled)
    url = copy(run, filled, "full-log-copy")
    path = database_path(run, url)
    empty_mb = path.stat().st_size / 1e6
    with ExitStack() as stack:
        server, devices = stack.enter_context(devices_in(run, url, run.cores.one, f"keep_log_bytes={limit}"))
        arguments = (server.url, filled.key)
        steady, sleeper = (
            stack.enter_context(program("log_reader.py", *arguments, folder=run.folder, cores=run.cores.client))
            for _ in range(2)
        )
        for reader, asleep in ((steady, full_seconds / 2), (sleeper, full_seconds * 1.5)):
            reader.receive()
            reader.send(awake=full_seconds / 2, asleep=asleep, seconds=seconds)
        devices.send(do="report", device_ids=filled.device_ids, paths=filled.paths, seconds=seconds, rate=rate)
        e1_ms = read_objects(server, filled, other_key, seconds)
        stored = devices.receive()
        for reader in (steady, sleeper):
            reader.send(last_seq=stored["count"])
        with closing(sqlite3.connect(path)) as connection:
            (log_bytes,) = connection.execute("SELECT max(stored_bytes) FROM logs").fetchone()
        return Measured(
            stored=stored,
            steady=steady.receive(),
            sleeper=sleeper.receive(),
            e1_ms=e1_ms,
            resident_mb=most_resident_bytes(server.pid) / 1e6,
            file_mb=sum(each.stat().st_size for each in path.parent.glob(f"{path.name}*")) / 1e6 - empty_mb,
            log_mb=log_bytes / 1e6,
        )


def create_key(filled: Filled) -> str:
    """Return a key of an application that has no subscriptions."""
    with closing(open_database(filled.url)) as database:
        return keys.create(database, "other", tuple(Scope), int(time.time() * 1000))


def read_objects(server: Server, filled: Filled, key: str, seconds: float) -> list[float]:
    """Return the milliseconds of requests for device objects, with a pause after each."""
    milliseconds = []
    end_at = time.perf_counter() + seconds
    with client_of(server, key) as http:
        for device_id in itertools.cycle(filled.device_ids):
            began = time.perf_counter()
            if began > end_at:
                return milliseconds
            http.get(f"/v3/devices/{device_id}/echo").raise_for_status()
            milliseconds.append(1000 * (time.perf_counter() - began))
            time.sleep(_E1_PAUSE_SECONDS)
    return milliseconds
