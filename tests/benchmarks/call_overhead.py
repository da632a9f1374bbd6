"""A call of :class:`mirror_sdk.MirrorClient` against the same request by bare httpx, whose JSON is read.

Both sides take turns call by call in one process. A device object types its values when they are looked at, which is
measured as well, with all 20 of them.

Where the time of ``get_device`` goes now: httpx, httpcore, h11 and the wait for the server 92 %, pydantic, which reads
and checks the body, 7 %, what the SDK does around them 1 %; to look at 20 values then takes 13 % more. Tried without
gain: to build the request with a prepared URL and headers, past ``build_request`` (2 %).
"""

from __future__ import annotations

from collections.abc import Iterator

from children import program
from filling import fill
from measuring import Figure, Samples, at_most, ratio
from run_settings import Run
from serving import mirror

NAME = "call_overhead"
_GOALS = {"directory device": at_most(1.15), "device object": at_most(1.15), "device object and its values": None}


def measure(run: Run) -> Iterator[Figure]:
    filled = fill(run.folder / "call-overhead.db", device_count=1, resource_count=run.scale.resources)
    with mirror(run, filled, run.cores.one) as server:
        arguments = (server.url, filled.key, filled.device_ids[0])
        with program("call_program.py", *arguments, folder=run.folder, cores=run.cores.client) as caller:
            for pair, goal in _GOALS.items():
                caller.ask(pair=pair, calls=run.scale.calls)
                answers = [caller.ask(pair=pair, calls=run.scale.calls) for _ in range(run.scale.rounds)]
                samples: Samples = {
                    name: [1000 * answer[name] for answer in answers] for name in ("MirrorClient", "httpx")
                }
                what = f"{pair}, MirrorClient / httpx"
                yield ratio(NAME, what, samples, "MirrorClient", "httpx", "ms", goal)
