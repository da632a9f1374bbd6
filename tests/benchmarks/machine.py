"""The machine: the cores of each side, and the facts above every table."""

from __future__ import annotations

import os
import platform
import resource
import sqlite3
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

_FSYNCS = 50
_PACKAGES = ("flask", "werkzeug", "uvicorn", "httptools", "uvloop", "orjson", "httpx", "pydantic", "psycopg")


@dataclass(frozen=True, slots=True)
class Cores:
    """The cores of the processes. The client has separate ones if there are enough."""

    one: frozenset[int]
    two: frozenset[int]
    client: frozenset[int]

    @classmethod
    def of_this_machine(cls) -> Cores:
        there = sorted(os.sched_getaffinity(0))
        return cls(frozenset(there[:1]), frozenset(there[:2]), frozenset(there[2:] or there[-1:]))


@contextmanager
def on_cores(cores: frozenset[int]) -> Iterator[None]:
    """Run the processes that the block starts on these cores alone."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def allow_many_connections() -> None:
    """Let this process and its children open as many files as the system allows."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def facts(folder: Path, cores: Cores) -> dict[str, Any]:
    """Return the facts that are necessary to compare two tables."""
    return {
        "began_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "processor": _processor(),
        "cores": sorted(cores.two | cores.client),
        "server_cores": [sorted(cores.one), sorted(cores.two)],
        "client_cores": sorted(cores.client),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "kernel": platform.release(),
        "load_average": [round(load, 2) for load in os.getloadavg()],
        "fsync_ms": round(_fsync_seconds(folder) * 1000, 3),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "packages": {name: _version(name) for name in _PACKAGES},
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _fsync_seconds(folder: Path) -> float:
    """Return how long the disk takes to store a page, which limits every commit."""
    seconds = []
    with (folder / "fsync").open("wb") as file:
        for _ in range(_FSYNCS):
            file.write(bytes(4096))
            file.flush()
            began = time.perf_counter()
            os.fsync(file.fileno())
            seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


def resident_bytes(pid: int | str) -> int:
    """Return the resident memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def most_resident_bytes(pid: int | str) -> int:
    """Return the peak memory of a process. ``getrusage`` of a child would include that of its parent."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])
