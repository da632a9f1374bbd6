"""The cost of storing a history: observations with and without one, submitted as in ``observation.py``.

Each observation is one more row in the transaction that stores the value and the log entry. The size of a row is
measured by the pages of the table ``history`` alone, for observations of a simulated sensor.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing
from functools import partial

import history_reading
from filling import fill
from measuring import Figure, alternate, at_least, at_most, ratio
from run_settings import Run
from serving import copy, database_path, devices_in, observation_rate

NAME = "history"
_RETENTION = "keep_history_seconds=86400"


def measure(run: Run) -> Iterator[Figure]:
    filled = fill(run.folder / "history.db", device_count=run.scale.devices, resource_count=run.scale.resources)
    cores = run.cores.one
    filled_copy = copy(run, filled, "with-history")
    with ExitStack() as stack:
        _, with_history = stack.enter_context(devices_in(run, filled_copy, cores, _RETENTION))
        _, without = stack.enter_context(devices_in(run, copy(run, filled, "without-history"), cores))

        kinds = {
            ("observation", at_least(0.85)): 1,
            (f"batches of {run.scale.batch}", at_least(0.75)): run.scale.batch,
        }
        for (what, goal), batch in kinds.items():
            sides = {
                name: partial(observation_rate, run, filled, devices, batch=batch)
                for name, devices in (("on", with_history), ("off", without))
            }
            samples = alternate(sides, run.scale.rounds)
            yield ratio(NAME, f"{what} with history / without", samples, "on", "off", "/s", goal)
    with closing(sqlite3.connect(database_path(run, filled_copy))) as connection:
        (size,) = connection.execute("SELECT sum(pgsize) FROM dbstat WHERE name = 'history'").fetchone()
        (count,) = connection.execute("SELECT count(*) FROM history").fetchone()
    yield Figure(NAME, "a row in the table", size / count, "bytes", at_most(60))
    yield from history_reading.measure(run)
