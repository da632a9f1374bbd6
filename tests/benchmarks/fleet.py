"""A table of a whole fleet: one snapshot against a GET for each device, and against the same bytes from a file.

Cold means that server and client are new processes, so the server has no cached columns yet. The naive loop uses new
processes, too. Both are measured at most three times, because they take long. Memory is that of a process's first
table.

Time of a cold snapshot: the server works for nine tenths of it, while the client processes what has arrived. Of the
server's time, SQLite and the rows as Python objects are 55 %, building columns 30 %, and sending 15 %.

CPU time of the client for a cached snapshot: typed columns 35 %, HTTP and messages 25 %, the frame 22 %, checks 15 %.
For columns and checks, half is the cost of calls, independent of the number of rows in a batch.

Changes that helped:

- Desired values are read only of resources that have one, because each column costs as much if it is empty. Columns
  are not searched for gaps first.
- A fifth of the CPU time for a cached snapshot (127 to 102 ms, alternating on two loaded cores): one test of all bytes
  recognizes short plain numbers instead of a pattern (6 ms); columns are copied once for pandas, and categories remain
  Arrow texts (9 ms); Arrow checks the order of ids (5 ms).
- Another three tenths (72.3 to 49.3 ms of CPU; 61.4 to 43.3 ms in the best of 30 rounds; alternating on two loaded
  cores). The steps, each the best of many in its own process: typed columns 21.6 to 12.9 ms, since values that all rows
  share or lack are not processed row by row; checks 4.3 to 2.5 ms, as ascending paths within a device need no count;
  the frame 7.8 to 5.3 ms, by codes and masks that are filled once; receiving 10.1 to 8.3 ms, by larger reads.
- Polars gets each column in one chunk, and only the words of fixed categories (13.8 to 7.3 ms for its frame).

Changes without gain: columns assembled by SQLite (``group_concat``, ``json_group_array``) instead of rows, more rows at
a time, ranges of ids instead of lists, reading and building the frame without Arrow's threads, ``lz4`` within a machine
(a quarter of the bytes and as much CPU), reading without ``iter_raw`` of httpx. Reading five batches as one saves 3 of
18 ms, but delays the rows and needs five times the memory, so it was not done.

More than half of the client's memory is the frame: 24 of 41 MB. It was 53 MB while each column had its own memory for
missing values. The frame is built column by column, because ``Table.to_pandas`` takes half a frame more. Arrow's
default pool (mimalloc) retains several MB after concatenating categories, which the system's pool returns. With that
pool for everything (``ARROW_DEFAULT_MEMORY_POOL=system``) it is even less, but that is the choice of a program, not of
a library.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from typing import Any

import httpx
from children import ChildFailed, Program, program
from filling import Filled, fill
from measuring import Figure, Samples, alternate, at_least, at_most, median, ratio
from run_settings import Run
from serving import mirror

NAME = "fleet"
_HEADERS = {"Accept": "application/vnd.apache.arrow.stream", "Accept-Encoding": "identity"}
_MOST_COLD_ROUNDS = 3
_MOST_MEMORY = {"arrow": 1, "polars": 2}
"""Polars takes 20 MB for its first frame and copies texts: 77 MB, while pandas takes 41."""


def measure(run: Run) -> Iterator[Figure]:
    filled = fill(run.folder / "fleet.db", device_count=run.scale.fleet, resource_count=run.scale.resources)
    rounds = min(_MOST_COLD_ROUNDS, run.scale.rounds)
    pairs = [(first_frame(run, filled, "naive"), first_frame(run, filled, "snapshot")) for _ in range(rounds)]
    samples: Samples = {
        "naive": [naive["seconds"] for naive, _ in pairs],
        "cold snapshot": [cold["seconds"] for _, cold in pairs],
    }
    yield ratio(NAME, "naive loop / snapshot, cold", samples, "naive", "cold snapshot", "s", at_least(30))
    yield median(NAME, "memory of the client / its frame", [cold["frames"] for _, cold in pairs], "x", at_most(3))
    large = fill(run.folder / "large.db", device_count=3 * run.scale.fleet, resource_count=run.scale.resources)
    sizes = {"three times the fleet": large, "the fleet": filled}
    memory = {name: [first_frame(run, each, "dataset")["megabytes"]] for name, each in sizes.items()}
    what = "memory of a dataset's writer, three times the fleet / the fleet"
    yield ratio(NAME, what, memory, "three times the fleet", "the fleet", "MB", at_most(1.5))
    cached, memory = cached_frames(run, filled)
    for form, most in _MOST_MEMORY.items():
        yield ratio(NAME, f"memory of the client, {form} / pandas", memory, form, "snapshot", "MB", at_most(most))
    # Only the last ones, because a process still requests memory from the system for its first few.
    both = {"naive": samples["naive"], "cached snapshot": cached["snapshot"][-rounds:]}
    yield ratio(NAME, "naive loop / cached snapshot", both, "naive", "cached snapshot", "s", at_least(400))
    yield ratio(NAME, "snapshot, cached / the same bytes from a file", cached, "snapshot", "file", "s", at_most(3))
    for form in _MOST_MEMORY:
        yield ratio(NAME, f"snapshot, cached: {form} / pandas", cached, form, "snapshot", "s", at_most(1))


def first_frame(run: Run, filled: Filled, way: str) -> dict[str, Any]:
    """Measure the first table of new processes."""
    with ExitStack() as stack:
        server = stack.enter_context(mirror(run, filled, run.cores.one))
        response: dict[str, Any] = stack.enter_context(client_program(run, way, server.url, filled.key)).call()
    if response["rows"] != len(filled.device_ids) * len(filled.paths):
        raise ChildFailed(f"{way} returned {response['rows']} rows")
    return response


def cached_frames(run: Run, filled: Filled) -> tuple[Samples, Samples]:
    """Measure tables from cached columns and from a file with the response, and the memory of the first tables."""
    with ExitStack() as stack:
        server = stack.enter_context(mirror(run, filled, run.cores.one))
        headers = _HEADERS | {"Authorization": f"Bearer {filled.key}"}
        file = run.folder / "snapshot.arrow"
        response = httpx.get(f"{server.url}/v3/device-echo", headers=headers, timeout=600)
        file.write_bytes(response.raise_for_status().content)
        ways = {"snapshot": server.url, "file": str(file), **dict.fromkeys(_MOST_MEMORY, server.url)}
        clients = {
            way: stack.enter_context(client_program(run, way, source, filled.key)) for way, source in ways.items()
        }
        memory = {way: [client.call()["megabytes"]] for way, client in clients.items()}
        sides = {way: partial(seconds_of, client) for way, client in clients.items()}
        return alternate(sides, run.scale.rounds), memory


def client_program(run: Run, way: str, source: str, key: str) -> AbstractContextManager[Program]:
    return program("fleet_program.py", way, source, key, folder=run.folder, cores=run.cores.client)


def seconds_of(client: Program) -> float:
    return float(client.call()["seconds"])
