"""Costs that must not grow with the fleet, the notification log or the rules; nothing here may be quadratic.

It measures the start of a server, E1, writes, events, registrations, pages of the directory and memory with 1,000,
10,000 and 100,000 devices in the database; a page at the end of the log and events into it, with a short and a long
log; registrations under many presubscription rules, the first against the last; and such rules applied to a fleet. For
a million devices, run it with ``--growth 1000,1000000 --resources 10``: filling the database takes five minutes and 1.8
GB. There, on two idle cores, the medians of a million devices were these multiples of those of 1,000: a start 1.0, E1
1.0, a write 0.96, a page 0.97 to 1.03, an event 1.14 to 1.17, an event to a held poll 0.96, a registration 0.98 to 1.14
and its update 1.1 to 1.28. The server took 94 MiB, or 207 MiB after all measurements. After a crash, a server reads the
complete file when it starts.

The slowest events of a large fleet wait for a checkpoint, which writes thousands of scattered pages in a commit. So
their p99 is 2 to 20 times that of 1,000 devices: 50 ms instead of 2.5 in one run. Checkpoints on another thread gave 7
to 17 ms, and 19 to 27 instead of 40 to 73 ms for the update of a registration. That was reverted. While the writer
continues, SQLite notes pages as copied before they are on disk. So an error of the disk can lose them, because a sync
that is repeated after an error succeeds. In a commit, SQLite copies them again.

In a large fleet, an event costs more because of its pages. Distant devices share no page, so each event writes two,
that of its value and that of its device: first to the write-ahead log, then at a checkpoint to the database. Statements
take 3 us longer, the commit 9 us. Checkpoints after 8000 pages instead of 1000 write a page once for several events.

The number of pages depends more on the order than on the fleet. A thousand devices that report in the order of their
ids are neighbors in a fleet of a thousand and write 1.5 pages per event, including checkpoints; in any other order they
write 2.4. In a fleet of 100,000 it is 3.5 in either order. No fleet reports in the order of its ids, so the devices are
taken in another order, the same for all sizes. On two loaded cores, by the CPU time of the process, an event cost 1.15
times as much at 100,000 devices, and 1.37 times in the order of ids. The rest is the page of the device, which 37
devices share. Pages of half the size do not help: 1.22 in two runs, against 1.20 and 1.22.

Storing revision and last contact of a device elsewhere was tried and reverted:

- In a row of ``resources`` without a path, which SQLite stores next to the device's values, an event took 44 us of CPU
  at both sizes instead of 42 and 55. But groups of 500 took 19.4 us per event instead of 17.6 at 1,000 devices, a page
  of the directory 0.40 ms instead of 0.24, and finding the changes of 100,000 devices 0.16 s instead of 0.03. On
  PostgreSQL, a page in the middle of 100,000 devices was joined from the first resource on, which took 66 ms.
- In a narrow table by the device's number, it was 41 and 49 us: 32 of 100,000 devices still occupy 30 of its pages.
- Without a row for the device, it was 38 and 40 us, but a query for changes would read every resource.

An index of all rules of a key finds the matching ones. Testing 1,024 rules one by one took 31 s of CPU for 1,000
devices with 20 resources, in one transaction, and 1.5 s for a registration of 900 links. On the same two cores, 20,000
devices now take 1.4 s, with no transaction longer than 1 ms. The registration takes 6.9 ms, and 5.6 ms without rules.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import count
from typing import Any

from children import Program, Server, program
from device_object import object_requests
from filling import Filled, fill
from machine import resident_bytes
from measuring import Figure, Samples, alternate, at_most, median, ratio
from polls import event_to_poll
from run_settings import Run, get, post
from serving import add_devices, client_of, mirror_on, observation_rate, saturate, with_device_side

NAME = "growth"
_SWITCH = "/3311/0/5850"
_WRITTEN_DEVICES = 100
_REQUESTS = 10_000
_PAGE = 100
_MOST_MIB = 600
_SHORT_LOG = 1000
_FEW_RULES_SHARE = 10
_LINKS = 900
_PAGES = {
    "page at the beginning": "",
    "page in the middle": "after={}",
    "page of a state": "state=registered&after={}",
    "page of a type that no device has": "endpoint_type=none",
    "page of an attribute that no device has": "custom_attributes__site=none",
    "page of a time before the fleet": "created_at__lte=2000-01-01T00:00:00Z",
    "page of a time without updates": "updated_at__gte=2100-01-01T00:00:00Z",
}
"""Queries of the directory. A device id replaces the braces."""


def measure(run: Run) -> Iterator[Figure]:
    yield from devices_grow(run)
    yield from log_grows(run)
    yield from rules_and_registrations(run)
    yield from rules_and_fleets(run)


def devices_grow(run: Run) -> Iterator[Figure]:
    sizes = run.scale.growth
    fleets = {
        size: fill(run.folder / f"{size}.db", device_count=size, resource_count=run.scale.resources) for size in sizes
    }
    for filled in fleets.values():
        # After this first start, the file is known to be intact.
        start_seconds(run, filled)
    starts = {f"start, {size:,} devices": partial(start_seconds, run, filled) for size, filled in fleets.items()}
    samples = alternate(starts, run.scale.rounds)
    yield from growth_of("start", sizes, samples, "s")
    sides: dict[str, Callable[[], float]] = {}
    slowest: Samples = {}
    with ExitStack() as stack:
        holder = stack.enter_context(program("poll_holder.py", folder=run.folder, cores=run.cores.client))
        for size, filled in fleets.items():
            server, devices = stack.enter_context(with_device_side(run, filled, run.cores.one))
            filled.path.unlink()
            idle = resident_bytes(server.pid)
            for what, measure in steps(run, server, devices, holder, filled).items():
                name = f"{what}, {size:,} devices"
                sides[name] = partial(_median_of, measure, slowest.setdefault(name, []))
        samples = alternate(sides, run.scale.rounds)
        loaded = resident_bytes(server.pid)
    # Without the first round, which warmed up.
    slowest = {name: each[1:] for name, each in slowest.items()}
    for what in dict.fromkeys(name.rpartition(", ")[0] for name in sides):
        yield from growth_of(what, sizes, samples, "ms", "p50")
        yield from growth_of(what, sizes, slowest, "ms", "p99")
    for when, size_bytes in (("idle", idle), ("after all measurements", loaded)):
        what = f"memory with {sizes[-1]:,} devices, {when}"
        yield Figure(NAME, what, size_bytes / 2**20, "MiB", at_most(_MOST_MIB))


def growth_of(what: str, sizes: Sequence[int], samples: Samples, unit: str, share: str = "") -> Iterator[Figure]:
    """Yield the times with more devices, divided by those with the fewest."""
    small, *others = sizes
    for large in others:
        sides = f"{what}, {large:,} devices", f"{what}, {small:,} devices"
        label = f"{what}{share and f', {share}'}, {large:,} / {small:,} devices"
        yield ratio(NAME, label, samples, *sides, unit, at_most(1.3))


def steps(
    run: Run, server: Server, devices: Program, holder: Program, filled: Filled
) -> dict[str, Callable[[], Mapping[str, float]]]:
    """Return what is measured of a fleet. Each measurement returns ``p50_ms`` and ``p99_ms``."""
    middle = filled.device_ids[len(filled.device_ids) // 2]
    requests = {
        "E1": object_requests(filled)[:_REQUESTS],
        "write": write_requests(server, filled.key),
        **{
            what: [get(f"/v3/devices?limit={_PAGE}&{query.format(middle)}", filled.key)]
            for what, query in _PAGES.items()
        },
    }
    measures: dict[str, Callable[[], Mapping[str, float]]] = {
        what: partial(run.load, server, each) for what, each in requests.items()
    }
    some = spread(filled)
    measures["event"] = partial(saturate, run, filled, devices, device_ids=some)
    measures["event -> held poll"] = partial(event_to_poll, run, server, devices, holder, filled)
    prefixes = map(str, count())
    new = {"number": len(some), "resources": run.scale.resources}
    calls: dict[str, Callable[[], Any]] = {
        "registration": lambda: devices.call(do="register", prefix=next(prefixes), **new),
        "update of a registration": partial(devices.call, do="update", device_ids=some, paths=filled.paths),
    }
    for rules in (0, run.scale.rules):
        for what, call in calls.items():
            measures[f"{what}, {rules:,} rules"] = partial(_with_rules, server, filled.key, rules, call)
    return measures


def _median_of(measure: Callable[[], Mapping[str, float]], slowest: list[float]) -> float:
    measured = measure()
    slowest.append(measured["p99_ms"])
    return measured["p50_ms"]


def _with_rules(server: Server, key: str, rules: int, measure: Callable[[], Any]) -> Any:
    put_rules(server, key, rules)
    try:
        return measure()
    finally:
        put_rules(server, key, 0)


def start_seconds(run: Run, filled: Filled) -> float:
    began = time.perf_counter()
    with mirror_on(run, filled.url, run.cores.one):
        return time.perf_counter() - began


def log_grows(run: Run) -> Iterator[Figure]:
    with ExitStack() as stack:
        pages: dict[str, Callable[[], float]] = {}
        events: dict[str, Callable[[], float]] = {}
        lengths = (min(_SHORT_LOG, run.scale.log_entries // 10), run.scale.log_entries)
        for length in lengths:
            filled = fill(run.folder / f"log-{length}.db", device_count=100, resource_count=1, log_entries=length)
            server, devices = stack.enter_context(with_device_side(run, filled, run.cores.one))
            filled.path.unlink()
            page = get(f"/v2/notification/pull?after={length - min(_PAGE, length)}&hold=0", filled.key)
            pages[f"page {length:,}"] = partial(run.rate, server, [page])
            events[f"event {length:,}"] = partial(event_rate, run, devices, filled)
        # Pages are measured before events, because events make them longer.
        samples = alternate(pages, run.scale.rounds) | alternate(events, run.scale.rounds)
    short, long = (f"{length:,}" for length in lengths)
    for what in ("page", "event"):
        small, large = f"{what} {short}", f"{what} {long}"
        yield ratio(NAME, f"{what} at {short} / {long} log entries", samples, small, large, "/s", at_most(1.3))


def rules_and_registrations(run: Run) -> Iterator[Figure]:
    """Measure registrations in ten parts, the last three against the first three, with many rules, fewer, and none."""
    tenth = run.scale.registrations // 10
    many, few = run.scale.rules, run.scale.rules // _FEW_RULES_SHARE
    times: dict[str, list[float]] = {}
    for rules in (many, few, 0):
        filled = fill(run.folder / f"rules-{rules}.db", device_count=1, resource_count=1)
        with with_device_side(run, filled, run.cores.one) as (server, devices):
            put_rules(server, filled.key, rules)
            register = partial(devices.call, do="register")
            for resources, number in ((run.scale.resources, tenth), (_LINKS, max(1, tenth // _LINKS))):
                register(prefix=f"warm-{resources}", number=number, resources=resources)
                times[f"{resources} links, {rules:,} rules"] = [
                    1000 * register(prefix=f"d{resources}-{part}", number=number, resources=resources)["seconds"]
                    for part in range(10)
                ]
    usual = f"{run.scale.resources} links"
    first, last = [f"registrations {which}" for which in ("first", "last")]
    with_many = times[f"{usual}, {many:,} rules"]
    samples = {**times, first: with_many[:3], last: with_many[-3:]}
    what = f"registration, last / first of {tenth * 10:,} devices"
    yield ratio(NAME, what, samples, last, first, "ms", at_most(1.3))
    for links, other, goal in ((usual, few, 1.3), (f"{_LINKS} links", 0, 2)):
        what = f"registration of {links}, {many:,} / {other:,} rules"
        sides = f"{links}, {many:,} rules", f"{links}, {other:,} rules"
        yield ratio(NAME, what, samples, *sides, "ms", at_most(goal))


def rules_and_fleets(run: Run) -> Iterator[Figure]:
    """Apply rules that match nothing to a fleet: with more rules, with more devices, and during other writes."""
    many, few = run.scale.rules, run.scale.rules // _FEW_RULES_SHARE
    small, large = run.scale.growth[:2]
    times: dict[str, list[float]] = {}
    longest: list[float] = []
    for size in (small, large):
        filled = fill(run.folder / f"applied-{size}.db", device_count=size, resource_count=run.scale.resources)
        with with_device_side(run, filled, run.cores.one) as (_, devices):
            for _ in range(run.scale.rounds):
                for rules in (many, few):
                    result = devices.call(do="apply_rules", app_id=filled.key.split("_")[1], rules=rules)
                    times.setdefault(f"{rules:,} rules, {size:,} devices", []).append(1000 * result["seconds"] / size)
                    longest.append(1000 * result["longest_write"])
    sides = f"{many:,} rules, {large:,} devices", f"{few:,} rules, {large:,} devices"
    yield ratio(NAME, f"applied to a device, {many:,} / {few:,} rules", times, *sides, "ms", at_most(1.3))
    sides = f"{many:,} rules, {large:,} devices", f"{many:,} rules, {small:,} devices"
    yield ratio(NAME, f"applied to a device of {large:,} / {small:,}", times, *sides, "ms", at_most(2))
    yield median(NAME, "longest write while rules are applied", longest, "ms", at_most(50))


def put_rules(server: Server, key: str, count: int) -> None:
    """Store rules. One matches the devices; half of the others match other paths of the same devices."""
    rules: list[dict[str, object]] = [
        {"resource-path": [f"/9/{number}*"]} if number % 2 else {"endpoint-type": f"Type-{number}"}
        for number in range(count - 1)
    ]
    rules += [{"endpoint-type": "Sensor", "resource-path": ["/3303/0/*"]}] if count else []
    with client_of(server, key) as http:
        http.put("/v2/subscriptions", json=rules).raise_for_status()


def write_requests(server: Server, key: str, device_count: int = _WRITTEN_DEVICES) -> list[str]:
    """Return writes to simulated devices, which execute them at once."""
    body = json.dumps({"method": "PUT", "uri": _SWITCH, "payload-b64": "MQ=="})
    ids = add_devices(server, key, device_count, _SWITCH, "0")
    return [post(f"/v2/device-requests/{device_id}", key, body) for device_id in ids]


def event_rate(run: Run, devices: Program, filled: Filled) -> float:
    """Return the observations per second that are on disk."""
    return observation_rate(run, filled, devices, device_ids=spread(filled))


def spread(filled: Filled) -> list[str]:
    """Return a thousand devices that are distributed over the fleet, in a random order.

    In the order of their ids, neighbors would share a page, which does not happen in a large fleet.
    """
    some = list(filled.device_ids[:: max(1, len(filled.device_ids) // 1000)])
    random.Random(0).shuffle(some)
    return some
