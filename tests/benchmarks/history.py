"""What it costs to keep a history: observations with and without one, handed over as in ``observation.py``.

Each is one row more, in the transaction that stores the value and the log entry. How large a row is, is told of the
table ``history`` alone, with all its pages, of what one observation of a simulated sensor brings.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing
from functools import partial
from typing import Any

import history_reading
from children import Program
from filling import fill
from measuring import Figure, alternate, at_least, at_most, ratio
from run_settings import Run
from serving import copy, database_path, devices_in

NAME = "history"
_GROUPS_IN_FLIGHT = 4
_KEPT_SECONDS = "86400"


def measure(run: Run) -> Iterator[Figure]:
    filled = fill(run.folder / "history.db", device_count=run.scale.devices, resource_count=run.scale.resources)
    cores = run.cores.one
    kept = copy(run, filled, "with-history")
    common: dict[str, Any] = {"device_ids": filled.device_ids, "path": filled.paths[0], "seconds": run.scale.seconds}
    with ExitStack() as stack:
        _, with_history = stack.enter_context(devices_in(run, kept, cores, _KEPT_SECONDS))
        _, without = stack.enter_context(devices_in(run, copy(run, filled, "without-history"), cores))

        def rate(devices: Program, in_flight: int, batch: int) -> float:
            told: float = devices.ask(do="saturate", **common, in_flight=in_flight, batch=batch)["rate"]
            return told

        single = {
            "on": partial(rate, with_history, run.scale.in_flight, 1),
            "off": partial(rate, without, run.scale.in_flight, 1),
        }
        one_by_one = alternate(single, run.scale.rounds)
        yield ratio(NAME, "observation with history / without", one_by_one, "on", "off", "/s", at_least(0.85))
        grouped = {
            "on": partial(rate, with_history, _GROUPS_IN_FLIGHT, run.scale.batch),
            "off": partial(rate, without, _GROUPS_IN_FLIGHT, run.scale.batch),
        }
        what = f"batches of {run.scale.batch} with history / without"
        yield ratio(NAME, what, alternate(grouped, run.scale.rounds), "on", "off", "/s", at_least(0.75))
    with closing(sqlite3.connect(database_path(run, kept))) as connection:
        (size,) = connection.execute("SELECT sum(pgsize) FROM dbstat WHERE name = 'history'").fetchone()
        (count,) = connection.execute("SELECT count(*) FROM history").fetchone()
    yield Figure(NAME, "a row in the table", size / count, "bytes", at_most(60))
    yield from history_reading.measure(run)
