"""Devices over CoAP against simulated ones: notifications, reads, registrations, and the rate of concurrent E1.

The devices are bare sockets in a separate process (``coap_devices.py``). A notification counts when it is on disk in
the log of one subscribed application. Notifications are sent while at most a few thousand are in flight, so that the
server is always busy and the socket's buffer never overflows. They are compared with observations submitted one by one
at the interface of a device backend, as simulated devices do (``device_side.py``).

On two loaded cores: 27,000 a second against 36,000, none of 5,000 a second lost, a read 1.0 times as long, 10,000
registrations in 6 s, and 4 to 7 KiB per device. A notification costs 37 us of the server's CPU if many wait, and 75 if
2,000 a second arrive evenly. It was 142 before values that arrive within 20 ms were stored together, and 105 with 5 ms.

A later measurement on a loaded machine, by the CPU time of the threads and alternating in one run: 72 us when the
socket was read every 10 ms, and 55 with 40 ms and fewer objects (59 and 52 at 5,000 a second, none lost). Of the 55,
the socket thread takes 22 and the writer 33, most of it in SQLite. During E1 it is 67 and 54, including the extra cost
of E1's requests because of cold caches. With 40 commits a second of one value each, these cost nothing more. A value
waits at most 40 ms; before, it was 30.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from children import Program, Server, free_port, program
from device_object import object_requests
from filling import Filled, fill
from machine import resident_bytes
from measuring import Figure, alternate, at_least, at_most, ratio
from run_settings import Run
from serving import add_devices, client_of, copy, database_path, mirror_on, observation_rate, with_device_side

from mirror_sdk import MirrorClient

NAME = "real_devices"
_PATH = "/3303/0/5700"
_ON_THE_WAY = 3000
_BURST = 500
_LOSSLESS_RATE = 5000
_CONCURRENT_RATE = 2000
_SHORT_ROUNDS = 3
"""Number of short rounds that take as long as one measurement of another rate."""
_LEAD_SECONDS = 1.0
"""Notifications start before the requests and continue this much longer."""
_QUIET_SECONDS = 5.0
_REQUESTS = 10_000


def measure(run: Run) -> Iterator[Figure]:
    yield from notifications_and_reads(run)
    yield from registrations(run)


def notifications_and_reads(run: Run) -> Iterator[Figure]:
    filled = fill(run.folder / "coap.db", device_count=run.scale.coap_devices, resource_count=1)
    with ExitStack() as stack:
        _, simulated = stack.enter_context(with_device_side(run, filled, run.cores.one))
        server, fleet, log = stack.enter_context(with_coap(run, filled))
        subscribe(server, filled.key)
        fleet.call(do="register", prefix="notifying", number=run.scale.coap_devices)
        fleet.call(do="observed", number=run.scale.coap_devices)
        # The first values also create entries.
        settle(log, len(log) + run.scale.coap_devices)
        sides: dict[str, Callable[[], float]] = {
            "CoAP": lambda: notification_rate(fleet, log, run.scale.seconds),
            "simulated": lambda: observation_rate(run, filled, simulated),
        }
        samples = alternate(sides, run.scale.rounds)
        yield ratio(NAME, "notifications / simulated observations", samples, "CoAP", "simulated", "/s", at_least(0.5))
        lost = lost_at(fleet, log, _LOSSLESS_RATE, run.scale.seconds)
        yield Figure(NAME, f"lost of {_LOSSLESS_RATE} notifications a second", lost, "", at_most(0))
        yield read_ratio(run, server, filled.key)
        yield during_notifications(run, server, filled, fleet, log)


def registrations(run: Run) -> Iterator[Figure]:
    number = run.scale.coap_registrations
    filled = fill(run.folder / "registering.db", device_count=1, resource_count=1)
    with with_coap(run, filled) as (server, fleet, _):
        # The first devices load modules and caches, which should not count.
        fleet.call(do="register", prefix="first", number=max(1, number // 100))
        before = resident_bytes(server.pid)
        response = fleet.call(do="register", prefix="all", number=number)
        grown = resident_bytes(server.pid) - before
        with MirrorClient(server.url, filled.key) as client:
            listed = [device.endpoint_name or "" for device in client.devices.list()]
    mine = [name for name in listed if name.startswith("all-")]
    missing = number - len(set(mine)) + len(mine) - len(set(mine)) + response["refused"]
    what = f"{number} devices registering at once"
    yield Figure(NAME, f"{what}: missing or twice", missing, "", at_most(0), {"places": response["places"]})
    yield Figure(NAME, f"{what}: time", response["seconds"], "s", sides={"sent again": response["sent_again"]})
    yield Figure(NAME, "memory of a registered device", max(grown, 1) / number / 1024, "KiB", at_most(20))


class Log:
    """The length of the application's log, on disk."""

    def __init__(self, database: Path, key: str) -> None:
        self._database = database
        self._app_id = key.split("_")[1]

    def __len__(self) -> int:
        with closing(sqlite3.connect(f"file:{self._database}?mode=ro", uri=True, timeout=30)) as connection:
            row = connection.execute("SELECT last_seq FROM logs WHERE app_id = ?", [self._app_id]).fetchone()
        return int(row[0])


@contextmanager
def with_coap(run: Run, filled: Filled) -> Iterator[tuple[Server, Program, Log]]:
    """Run a mirror with a CoAP port, and yield it, the program of the devices, and the log."""
    port = free_port()
    database = copy(run, filled, f"coap-{port}")
    options = ("--simulate", "0", "--coap", f"127.0.0.1:{port}")
    with ExitStack() as stack:
        server = stack.enter_context(mirror_on(run, database, run.cores.one, *options))
        fleet = stack.enter_context(program("coap_devices.py", str(port), folder=run.folder, cores=run.cores.client))
        yield server, fleet, Log(database_path(run, database), filled.key)


def subscribe(server: Server, key: str) -> None:
    rules = [{"endpoint-name": "notifying-*", "resource-path": [_PATH]}]
    with client_of(server, key) as http:
        http.put("/v2/subscriptions", json=rules).raise_for_status()


def notification_rate(fleet: Program, log: Log, seconds: float) -> float:
    """Return the notifications per second that are on disk, while some are always in flight."""
    began, before, sent = time.perf_counter(), len(log), 0
    while (now := time.perf_counter()) - began < seconds:
        if sent - (len(log) - before) < _ON_THE_WAY:
            sent += fleet.call(do="notify", number=_BURST)["sent"]
    arrived = len(log) - before
    rate = arrived / (now - began)
    settle(log, before + sent)
    return rate


def settle(log: Log, expected: int) -> int:
    """Wait until no more entries arrive, and return how many are missing."""
    length, since = len(log), time.monotonic()
    while length < expected and time.monotonic() - since < _QUIET_SECONDS:
        time.sleep(0.01)
        now = len(log)
        if now > length:
            length, since = now, time.monotonic()
    return max(0, expected - length)


def lost_at(fleet: Program, log: Log, rate: float, seconds: float) -> int:
    """Return how many notifications of a constant rate never reach the log."""
    before = len(log)
    sent = fleet.call(do="notify", number=int(rate * seconds), rate=rate)["sent"]
    return settle(log, before + sent)


def read_ratio(run: Run, server: Server, key: str) -> Figure:
    """Measure a read up to its response: from a device over CoAP, and from a simulated one."""
    with MirrorClient(server.url, key) as client:
        (real,) = client.devices.list(endpoint_name="notifying-0").ids

        def read(device_id: str) -> float:
            began = time.perf_counter()
            for _ in range(run.scale.calls):
                client.read_value(device_id, _PATH)
            return 1000 * (time.perf_counter() - began) / run.scale.calls

        (simulated,) = add_devices(server, key, 1, _PATH, "21.5")
        samples = alternate({"CoAP": partial(read, real), "simulated": partial(read, simulated)}, run.scale.rounds)
    return ratio(NAME, "read, CoAP / simulated", samples, "CoAP", "simulated", "ms", at_most(2.5))


def during_notifications(run: Run, server: Server, filled: Filled, fleet: Program, log: Log) -> Figure:
    """Measure E1 with and without notifications in many short rounds, so that other load affects both sides alike.

    A notification costs about 50 us, so 2000 per second take a tenth of the capacity. Two long rounds differ by as
    much.
    """
    requests = object_requests(filled)[:_REQUESTS]
    seconds = run.scale.seconds / _SHORT_ROUNDS
    shortly = replace(run, scale=replace(run.scale, seconds=seconds))

    def while_they_notify() -> float:
        before = len(log)
        fleet.send(do="notify", number=int(_CONCURRENT_RATE * (seconds + _LEAD_SECONDS)), rate=_CONCURRENT_RATE)
        settle(log, before + 1)
        rate = shortly.rate(server, requests)
        fleet.receive()
        return rate

    sides: dict[str, Callable[[], float]] = {
        "alone": partial(shortly.rate, server, requests),
        "during": while_they_notify,
    }
    samples = alternate(sides, _SHORT_ROUNDS * run.scale.rounds)
    what = f"E1 during {_CONCURRENT_RATE} notifications a second / alone"
    return ratio(NAME, what, samples, "during", "alone", "/s", at_least(0.85))
