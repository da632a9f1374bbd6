"""A whole fleet as a table: one snapshot against a GET a device, and against the same bytes from a file.

Cold means that server and client are fresh processes: the server holds no columns yet. The naive loop gets fresh
processes too; both are measured at most three times, for it takes as long as it takes. Memory is that of a process's
first table.

Where the time of a cold one goes: nine tenths of it the server works, and the client on what has come meanwhile. Of the
server's time SQLite and the rows as Python objects are 55 %, the columns made of them 30 %, sending 15 %. Of a held one
the client's CPU time is: the typed columns 35 %, HTTP and the messages 25 %, the frame 22 %, the checks of what came
15 %. Of the columns and the checks, half is the calls, however few rows a batch has.
What had a gain: desired values are read of the resources alone that have one (each column costs as much where it is
empty), and no column is looked through for gaps first. Of a held one a fifth of the client's CPU time (127 to 102 ms on
two cores that others used too, in turn in one run): short plain numbers are known by a look at all their bytes at once,
in the place of a pattern (6 ms); columns are copied once to become pandas', and categories stay Arrow's texts (9 ms);
the order of the ids is looked at by Arrow (5 ms). And of what was left another three tenths (72.3 to 49.3 ms of CPU;
61.4 to 43.3 ms in the best of 30 rounds; on two cores that others used too, in turn in one run), of which each is the
best of many in a process of its own: the typed columns 21.6 to 12.9 ms, since what is the same for all rows, or missing
in all, is not looked up or made row by row; the checks 4.3 to 2.5 ms, as paths that rise within a device need no count;
the frame 7.8 to 5.3 ms, in codes and masks that are filled once; receiving 10.1 to 8.3 ms of CPU, by more at once.
Polars is given each column in one piece, and of fixed categories the words alone (13.8 to 7.3 ms for its frame).
Tried without gain: columns put together by SQLite (``group_concat``, ``json_group_array``) in the place of rows, more
rows at a time, ranges of ids in the place of lists, reading and making the frame without Arrow's threads; ``lz4`` on
the way within a machine (a quarter of the bytes, and as much CPU as without), reading past ``iter_raw`` of httpx.
Five batches read as one save 3 of 18 ms, and would come later and take the memory of five: left.

Of the client's memory more than half is the frame: 24 of 41 MB, and of 53 while each column had memory of its own for
what is missing. pandas makes the frame column by column, for ``Table.to_pandas`` takes half a frame more; and Arrow's
default pool (mimalloc) keeps several MB of what it needs to put categories together, which the system's gives back.
With that pool for everything (``ARROW_DEFAULT_MEMORY_POOL=system``) it is less still, but that is for a program to
choose, not for a library.
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
"""Polars takes 20 MB for itself at its first frame, and makes its texts anew: 77 MB, where pandas takes 41."""


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
    held, memory = held_frames(run, filled)
    for form, most in _MOST_MEMORY.items():
        yield ratio(NAME, f"memory of the client, {form} / pandas", memory, form, "snapshot", "MB", at_most(most))
    # The last ones: for the first few a process still takes memory from the system.
    both = {"naive": samples["naive"], "held snapshot": held["snapshot"][-rounds:]}
    yield ratio(NAME, "naive loop / snapshot, held by the server", both, "naive", "held snapshot", "s", at_least(350))
    yield ratio(NAME, "snapshot, held / the same bytes from a file", held, "snapshot", "file", "s", at_most(3))
    for form in _MOST_MEMORY:
        yield ratio(NAME, f"snapshot, held: {form} / pandas", held, form, "snapshot", "s", at_most(1))


def first_frame(run: Run, filled: Filled, way: str) -> dict[str, Any]:
    """One table by fresh processes."""
    with ExitStack() as stack:
        server = stack.enter_context(mirror(run, filled, run.cores.one))
        answer: dict[str, Any] = stack.enter_context(client_program(run, way, server.url, filled.key)).ask()
    if answer["rows"] != len(filled.device_ids) * len(filled.paths):
        raise ChildFailed(f"{way} gave {answer['rows']} rows")
    return answer


def held_frames(run: Run, filled: Filled) -> tuple[Samples, Samples]:
    """Tables of a server that holds the columns, and of a file with what it sends; and what the first ones took."""
    with ExitStack() as stack:
        server = stack.enter_context(mirror(run, filled, run.cores.one))
        headers = _HEADERS | {"Authorization": f"Bearer {filled.key}"}
        file = run.folder / "snapshot.arrow"
        answer = httpx.get(f"{server.url}/v3/device-echo", headers=headers, timeout=600)
        file.write_bytes(answer.raise_for_status().content)
        ways = {"snapshot": server.url, "file": str(file), **dict.fromkeys(_MOST_MEMORY, server.url)}
        clients = {
            way: stack.enter_context(client_program(run, way, source, filled.key)) for way, source in ways.items()
        }
        memory = {way: [client.ask()["megabytes"]] for way, client in clients.items()}
        sides = {way: partial(seconds_of, client) for way, client in clients.items()}
        return alternate(sides, run.scale.rounds), memory


def client_program(run: Run, way: str, source: str, key: str) -> AbstractContextManager[Program]:
    return program("fleet_program.py", way, source, key, folder=run.folder, cores=run.cores.client)


def seconds_of(client: Program) -> float:
    return float(client.ask()["seconds"])
