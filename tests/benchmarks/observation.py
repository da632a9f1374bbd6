"""An observation from a device into mirror, log and disk: one by one, in batches, and how long one waits at most.

Handed over at the interface of a device connection (see ``device_side.py``); it counts when it is on disk with
``synchronous=FULL``. Each goes to one subscribed application. Beside it hello on the same core, and for batches what
sqlite3 does with the same groups of rows.

Where the time of an observation in a group of 500 goes (timed statements of the thread that writes): its value 4.5 us,
the log entry 2.8, the device's revision and last contact 2.2, the commit 2.1, who is subscribed 3.3 where it is looked
up, which is done anew only when something that decides it was written; the rest is Python. Looked up with each group,
it took the whole process 19.9 us of CPU, and 14.1 since, in turn in one run on two cores that others used too. Where
four such groups wait they are one: 13 us, because a page that several change is written once, and of several values of
a resource only the last.

What raw sqlite3 does not do here: the device's own row, who is subscribed, the making of the event, foreign keys.

Held against each other again, by the CPU time of the thread that writes and in turn in one run on a machine that others
used too: 0.92 to 0.95 of what it was, in groups of 500, of 2000, and of 80 of devices far apart, since entries are made
of what was looked up without further tuples, the ids of entries differ at their end alone (0.15), and what forty
entries have in common is handed to SQLite once (0.2). Of 17 us then, the value took 4.6, the commit 3, the entry 2, the
device 2, and Python 3.3. Of the whole process it is 0.88 to 0.90: sqlite3 alone took 0.86 to 0.95 of its CPU time where
it was 0.80 to 0.85. What is left to have is the device: its revision and last contact in a table of their own, whose
key is a number, would be 1 us less, and where 80 devices far apart are one group 3 us, as half of the changed pages are
those of devices.

What brought it there, in us of an observation: parameters by position instead of by name in statements with many (5),
no savepoint for each piece of work, at which SQLite keeps a copy of every page that is changed (6 in groups, as much
one by one), no garbage looked for among what was there at the start (3), a UUID that counts on (2.5), UPDATE instead of
an upsert (1.3), no index on the last contact (1), a larger page cache (1). One by one: work of the same kind that waits
is run once, 62 to 44 us.

What was tried without gain: several rows in one INSERT where their number is not always the same (0.7 us less to run,
2.2 more to prepare for each new one: now forty, and the rest one by one); UPDATE FROM VALUES (as fast as one by one)
and FROM json_each (twice the time); several devices in one UPDATE (0.7 us less, but SQLite keeps a copy of each page
for it: 4 KB more to write where devices are far apart; with OR FAIL it does not, and takes half the time where they
stand side by side, but a third more where they do not); a device by its number (as fast as by its id); twenty values in
one UPDATE OR FAIL FROM VALUES, so that other threads run less between two rows (as fast); foreign keys off,
secure_delete off, temp_store = MEMORY without savepoints, mmap_size, a cache of 64 MB, young garbage looked for a
fifteenth as often: nothing. A checkpoint in the commit at 8000 pages instead of 1000 is as fast as one beside it, but
with 100,000 devices in turn p99 is 60 ms instead of 9.
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
    told: list[dict[str, Any]] = []
    with ExitStack() as stack:
        _, devices = stack.enter_context(with_device_side(run, filled, cores))
        hello_server = stack.enter_context(hello(run, cores))
        database = str(database_path(run, copy(run, filled, "raw")))
        raw = stack.enter_context(program("raw_inserts.py", database, folder=run.folder, cores=cores))

        def single() -> float:
            told.append(saturate(run, filled, devices))
            rate: float = told[-1]["rate"]
            return rate

        def executemany() -> float:
            how = {"device_ids": filled.device_ids, "path": filled.paths[0], "seconds": run.scale.seconds}
            rate: float = raw.ask(app_id=filled.key.split("_")[1], **how, batch=run.scale.batch)["rate"]
            return rate

        sides: dict[str, Callable[[], float]] = {
            "mirror": single,
            "hello": partial(run.rate, hello_server, [get("/")]),
            "batches": partial(observation_rate, run, filled, devices, batch=run.scale.batch),
            "executemany": executemany,
            "request": partial(run.request_ms, hello_server),
        }
        samples = alternate(sides, run.scale.rounds)
    yield ratio(NAME, "observation / hello", samples, "mirror", "hello", "/s", at_least(0.60))
    what = f"batches of {run.scale.batch} / executemany"
    yield ratio(NAME, what, samples, "batches", "executemany", "/s", at_least(0.70))
    # The first one warmed up.
    samples["p99"] = [one["p99_ms"] for one in told[1:]]
    what = f"until on disk, {run.scale.in_flight} in flight"
    yield ratio(NAME, f"p99 {what} / bare request", samples, "p99", "request", "ms", at_most(30))
    worst = max(one["worst_ms"] for one in told)
    yield in_requests(NAME, f"longest {what}", worst, samples["request"], at_most(3000))
    largest_mb = max(one["wal_bytes"] for one in told) / 1e6
    yield Figure(NAME, "WAL at most", largest_mb, "MB", at_most(128))
