"""A call of :class:`mirror_sdk.MirrorClient` against the same request by bare httpx, whose JSON is read.

Both sides take turns call by call in one process. The device object also is what the SDK makes of it: 20 typed values.

Where the time of ``get_device`` goes now (py-spy): httpx, httpcore and h11 73 %, the typed values 16 %, pydantic 6 %,
what the SDK does around them 3 %.
"""

from __future__ import annotations

from collections.abc import Iterator

from children import program
from filling import fill
from measuring import Figure, Samples, at_most, ratio
from run_settings import Run
from serving import mirror

NAME = "call_overhead"
_PAIRS = ("directory device", "device object")


def measure(run: Run) -> Iterator[Figure]:
    filled = fill(run.folder / "call-overhead.db", device_count=1, resource_count=run.scale.resources)
    with mirror(run, filled, run.cores.one) as server:
        arguments = (server.url, filled.key, filled.device_ids[0])
        with program("call_program.py", *arguments, folder=run.folder, cores=run.cores.client) as caller:
            for pair in _PAIRS:
                caller.ask(pair=pair, calls=run.scale.calls)
                answers = [caller.ask(pair=pair, calls=run.scale.calls) for _ in range(run.scale.rounds)]
                samples: Samples = {
                    name: [1000 * answer[name] for answer in answers] for name in ("MirrorClient", "httpx")
                }
                what = f"{pair}, MirrorClient / httpx"
                yield ratio(NAME, what, samples, "MirrorClient", "httpx", "ms", at_most(1.15))
