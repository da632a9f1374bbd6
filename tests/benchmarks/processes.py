"""Several processes on one PostgreSQL database: E1, writes and observations, against one process and SQLite.

PostgreSQL runs on this machine, started for the benchmark in its own folder with its default settings: a commit is on
disk before it is confirmed. Unlike a separate machine, it shares its cores with the processes. The load generator has
the last core for itself, except on two cores, where only one would remain. The leader holds the devices, so
observations arrive only there. E1 and writes go to all processes in turn. The number of connections is the same for
every number of processes, and large enough for the largest: a process stores requests that arrive together in one
transaction, so with few connections it would store almost each request alone.

While nothing is committed, a process checks this once for all requests that arrived together. A check takes 24 us, 5 us
of them in the process, instead of two lookups per request with 140 us and 55. On a busy machine, eleven of sixteen
connections shared one response. While values arrive, the key is looked up once per commit and the device each time.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial

from children import SHARED, Missing, Program, Server, program
from device_object import object_requests
from filling import Filled, fill
from growth import write_requests
from machine import on_cores
from measuring import Figure, alternate, at_least, ratio
from run_settings import Run
from serving import devices_in, mirror_on, observation_rate, with_device_side

NAME = "processes"
_COUNTS = (1, 2, 4)
_CORES_TO_PART = 3
_WRITTEN_DEVICES = 1000
"""Number of devices that are written to. Each accepts 20 pending writes, and several processes accept writes faster
than the leader delivers them.
"""

_LARGE_BATCH = "observation in batches"
_CHANGING = "E1 while values come"


def measure(run: Run) -> Iterator[Figure]:
    there = sorted(run.cores.two | run.cores.client)
    cores, last = frozenset(there), frozenset(there)
    if len(there) >= _CORES_TO_PART:
        cores, last = frozenset(there[:-1]), frozenset(there[-1:])
    sizes = {"device_count": run.scale.devices, "resource_count": run.scale.resources}
    with ExitStack() as stack:
        start = stack.enter_context
        generator = start(program("load_program.py", folder=run.folder, cores=last))
        run = replace(run, generator=generator)
        on_sqlite = fill(run.folder / "processes.db", **sizes)
        alone, sqlite_devices = start(with_device_side(run, on_sqlite, cores))
        on_postgresql = fill(start(_postgresql(cores)), **sizes)
        first, devices = start(devices_in(run, on_postgresql.url, cores))
        others = [start(mirror_on(run, on_postgresql.url, cores, "--simulate", "0")) for _ in range(max(_COUNTS) - 1)]
        sides = _sides(run, on_sqlite, alone, sqlite_devices, "SQLite", [alone], (1,))
        sides |= _sides(run, on_postgresql, first, devices, "PostgreSQL", [first, *others], _COUNTS)
        samples = alternate(sides, run.scale.rounds)
    goals = {"E1": at_least(0.5)}
    for what in ("E1", _CHANGING, "write", "observation", _LARGE_BATCH):
        name, ours, theirs = (f"{what}, {each}" for each in ("PostgreSQL / SQLite", "PostgreSQL 1", "SQLite 1"))
        yield ratio(NAME, f"{name}, one process each", samples, ours, theirs, "/s", goals.get(what))
    for what in ("E1", "write"):
        for count in _COUNTS[1:]:
            many, one = f"{what}, PostgreSQL {count}", f"{what}, PostgreSQL 1"
            yield ratio(NAME, f"{what}, {count} processes / 1", samples, many, one, "/s")


def _sides(
    run: Run,
    filled: Filled,
    leader: Server,
    devices: Program,
    name: str,
    servers: list[Server],
    counts: tuple[int, ...],
) -> dict[str, Callable[[], float]]:
    sides: dict[str, Callable[[], float]] = {
        f"observation, {name} 1": partial(observation_rate, run, filled, devices),
        f"{_LARGE_BATCH}, {name} 1": partial(observation_rate, run, filled, devices, batch=run.scale.batch),
    }
    written = min(_WRITTEN_DEVICES, 40 * run.scale.devices)
    requests = {"E1": object_requests(filled), "write": write_requests(leader, filled.key, written)}
    sides[f"{_CHANGING}, {name} 1"] = partial(_while_values_come, run, filled, leader, devices, requests["E1"])
    for what, listed in requests.items():
        for count in counts:
            sides[f"{what}, {name} {count}"] = partial(_rate, run, servers[:count], listed)
    return sides


def _rate(run: Run, servers: list[Server], requests: list[str]) -> float:
    """Return the responses per second of all servers."""
    first, *others = servers
    rate: float = run.load(first, requests, run.scale.connections * max(_COUNTS), others)["rate"]
    return rate


def _while_values_come(run: Run, filled: Filled, leader: Server, devices: Program, requests: list[str]) -> float:
    """E1 a second while values are stored, one after the other."""
    with ThreadPoolExecutor(1) as thread:
        observed = thread.submit(observation_rate, run, filled, devices, in_flight=1)
        rate = run.rate(leader, requests)
        observed.result()
    return rate


@contextmanager
def _postgresql(cores: frozenset[int]) -> Iterator[str]:
    """A PostgreSQL with an empty database, whose URL this gives."""
    # The one the tests start for themselves.
    sys.path.append(str(SHARED))
    try:
        with on_cores(cores):
            databases = importlib.import_module("databases")
            databases.find_postgresql()
            cluster = databases.Cluster("max_connections=200")
    except (AssertionError, ImportError, LookupError, OSError, subprocess.SubprocessError) as error:
        raise Missing(f"PostgreSQL cannot be started: {error}") from error
    try:
        cluster.execute("CREATE DATABASE benchmark")
        yield cluster.url("benchmark")
    finally:
        cluster.remove()
