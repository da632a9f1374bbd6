"""An observation from a device to mirror, log and disk: one by one, in batches, and the longest wait.

Observations are submitted at the interface of a device backend (see ``device_side.py``). One counts when it is on disk
with ``synchronous=FULL``. Each goes to one subscribed application. It is compared with hello on the same core, and for
batches with sqlite3 alone and the same groups of rows.

Time of an observation in a group of 500, by timed statements of the writer thread: its value 4.5 us, the log entry 2.8,
the device's revision and last contact 2.2, the commit 2.1, the query of subscribers 3.3; the rest is Python.
Subscribers are queried again only after a write that may change them. With a query per group, an observation took 19.9
us of the process's CPU, and without 14.1, alternating on two loaded cores. Four waiting groups are merged into one: 13
us, because a page with several changes is written once, and only the last of several values of a resource.

sqlite3 alone does not write the device's row, query subscribers, build events or check foreign keys.

A later comparison, by the CPU time of the writer thread and alternating on a loaded machine, gave 0.92 to 0.95 of the
time before, for groups of 500, of 2000, and of 80 distant devices. The reasons: entries are built without further
tuples, ids of entries differ only at their end (0.15 us), and what forty entries share is passed to SQLite once (0.2
us). Of 17 us, the value then took 4.6, the commit 3, the entry 2, the device 2, and Python 3.3. The whole process took
0.88 to 0.90; sqlite3 alone took 0.86 to 0.95 of its CPU time instead of 0.80 to 0.85. A table for revision and last
contact with a numeric key would save 1 us, and 3 us for groups of 80 distant devices, where half of the changed pages
are those of devices.

Changes that helped, in us per observation:

- positional instead of named parameters in statements with many (5)
- no savepoint for each piece of work, for which SQLite copies every changed page (6 in groups, as much one by one)
- no garbage collection of objects that existed at the start (3)
- a UUID that counts up (2.5)
- UPDATE instead of an upsert (1.3)
- no index on the last contact (1)
- a larger page cache (1)
- one by one: merging waiting work of the same kind, 62 to 44 us

Changes without gain:

- one INSERT for varying numbers of rows: 0.7 us less to run, 2.2 us more to prepare each new one; now it has forty
  rows, and the rest is inserted one by one
- UPDATE FROM VALUES (as fast as one by one) and FROM json_each (twice the time)
- one UPDATE for several devices: 0.7 us less, but SQLite copies each page, 4 KB more per distant device; with OR FAIL
  it does not, and takes half the time for adjacent devices, but a third more for others
- a device by its number instead of its id (as fast)
- twenty values in one UPDATE OR FAIL FROM VALUES, so that other threads run less between two rows (as fast)
- foreign keys off, secure_delete off, temp_store = MEMORY without savepoints, mmap_size, a cache of 64 MB, a fifteenth
  of the collections of young objects: nothing

A checkpoint in the commit at 8000 pages instead of 1000 is as fast as a concurrent one. But with 100,000 devices in
turn, p99 is 60 ms instead of 9.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

from children import program
from filling import fill
from measuring import Figure, alternate, at_least, at_most, in_requests, ratio
from run_settings import Run, get
from serving import copy, database_path, hello, observation_rate, saturate, with_device_side

NAME = "observation"


def measure(run: Run) -> Iterator[Figure]:
    filled = fill(run.folder / "observation.db", device_count=run.scale.devices, resource_count=run.scale.resources)
    cores = run.cores.one
    runs: list[dict[str, Any]] = []
    with ExitStack() as stack:
        _, devices = stack.enter_context(with_device_side(run, filled, cores))
        hello_server = stack.enter_context(hello(run, cores))
        database = str(database_path(run, copy(run, filled, "raw")))
        raw = stack.enter_context(program("raw_inserts.py", database, folder=run.folder, cores=cores))

        def single() -> float:
            runs.append(saturate(run, filled, devices))
            rate: float = runs[-1]["rate"]
            return rate

        def executemany() -> float:
            how = {"device_ids": filled.device_ids, "path": filled.paths[0], "seconds": run.scale.seconds}
            rate: float = raw.call(app_id=filled.key.split("_")[1], **how, batch=run.scale.batch)["rate"]
            return rate

        sides: dict[str, Callable[[], float]] = {
            "mirror": single,
            "hello": partial(run.rate, hello_server, [get("/")]),
            "batches": partial(observation_rate, run, filled, devices, batch=run.scale.batch),
            "executemany": executemany,
            "request": partial(run.request_ms, hello_server),
        }
        samples = alternate(sides, run.scale.rounds)
    yield ratio(NAME, "observation / hello", samples, "mirror", "hello", "/s", at_least(2.3))
    what = f"batches of {run.scale.batch} / executemany"
    yield ratio(NAME, what, samples, "batches", "executemany", "/s", at_least(0.9))
    # Without the first one, which warmed up.
    samples["p99"] = [one["p99_ms"] for one in runs[1:]]
    what = f"until on disk, {run.scale.in_flight} in flight"
    yield ratio(NAME, f"p99 {what} / bare request", samples, "p99", "request", "ms", at_most(30))
    worst = max(one["worst_ms"] for one in runs)
    yield in_requests(NAME, f"longest {what}", worst, samples["request"], at_most(3000))
    largest_mb = max(one["wal_bytes"] for one in runs) / 1e6
    yield Figure(NAME, "WAL at most", largest_mb, "MB", at_most(128))
