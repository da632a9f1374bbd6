"""A whole fleet as a table: one snapshot against a GET a device, and against the same bytes from a file.

Cold means that server and client are fresh processes: the server holds no columns yet. The naive loop gets fresh
processes too; both are measured at most three times, for it takes as long as it takes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx
from children import ChildFailed, program
from filling import Filled, fill
from measuring import Figure, Samples, alternate, at_least, at_most, median, ratio
from run_settings import Run
from serving import mirror

NAME = "fleet"
_HEADERS = {"Accept": "application/vnd.apache.arrow.stream", "Accept-Encoding": "identity"}
_MOST_COLD_ROUNDS = 3


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
    memory = {
        "three times the fleet": [first_frame(run, large, "dataset")["megabytes"] for _ in range(rounds)],
        "the fleet": [first_frame(run, filled, "dataset")["megabytes"] for _ in range(rounds)],
    }
    what = "memory of a dataset's writer, three times the fleet / the fleet"
    yield ratio(NAME, what, memory, "three times the fleet", "the fleet", "MB", at_most(1.5))
    held = held_frames(run, filled)
    both = {"naive": samples["naive"], "held snapshot": held["snapshot"][:rounds]}
    yield ratio(NAME, "naive loop / snapshot, held by the server", both, "naive", "held snapshot", "s", at_least(300))
    yield ratio(NAME, "snapshot, held / the same bytes from a file", held, "snapshot", "file", "s", at_most(3))


def first_frame(run: Run, filled: Filled, way: str) -> dict[str, Any]:
    """One table by fresh processes."""
    with ExitStack() as stack:
        server = stack.enter_context(mirror(run, filled, run.cores.one))
        where = {"folder": run.folder, "cores": run.cores.client}
        client = stack.enter_context(program("fleet_program.py", way, server.url, filled.key, **where))
        answer: dict[str, Any] = client.ask()
    if answer["rows"] != len(filled.device_ids) * len(filled.paths):
        raise ChildFailed(f"{way} gave {answer['rows']} rows")
    return answer


def held_frames(run: Run, filled: Filled) -> Samples:
    """Tables of a server that holds the columns, and of a file with what it sends."""
    with ExitStack() as stack:
        server = stack.enter_context(mirror(run, filled, run.cores.one))
        headers = _HEADERS | {"Authorization": f"Bearer {filled.key}"}
        file = run.folder / "snapshot.arrow"
        answer = httpx.get(f"{server.url}/v3/device-echo", headers=headers, timeout=600)
        file.write_bytes(answer.raise_for_status().content)
        where = {"folder": run.folder, "cores": run.cores.client}
        by_wire = stack.enter_context(program("fleet_program.py", "snapshot", server.url, filled.key, **where))
        by_file = stack.enter_context(program("fleet_program.py", "file", str(file), filled.key, **where))
        sides = {"snapshot": lambda: float(by_wire.ask()["seconds"]), "file": lambda: float(by_file.ask()["seconds"])}
        return alternate(sides, run.scale.rounds)
