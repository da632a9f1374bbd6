"""For how long a call of the asynchronous client keeps the other tasks of its event loop waiting, at most.

A fleet, some thousands of entries in the log, 400 devices that take writes. Each round is a fresh process, whose first
table imports pandas. What is told is the shortest of the longest holds of all rounds: whatever else the machine does
makes them longer, and nothing makes them shorter. A loop that waits for a core is not held by its program, and that
time is left out; to wait for a thread that has none is still in it.

To connect is to send the first request of a client, for which pydantic, anyio and httpx load what they need.

Where the rest comes from: the import of pandas and pyarrow loads libraries of 50 MB; Arrow, pandas and the JSON of one
answer keep the interpreter to themselves, each for some milliseconds a column or a page; a thread that computes gives
it away every 5 ms. And once in a while Python looks for garbage through all there is, which with pandas loaded are
90,000 objects or more: 25 to 60 ms, in which no thread goes on. It does so when there are a quarter more objects than
the last time, and of what has once survived two looks it learns only then that it is gone. So what had the largest
gain beside threads: what lives for a moment only. Rows are made of a device and of an entry where its answer is read,
events wait for theirs 100 at a time; all instants share one zone, which is an object for each otherwise; requests that
follow one another without a break, for those that end together and begin together are taken for old ones; and answers
of httpx that are let go at once, for each holds the stream of its body, which holds it.
During the import what was there before is set aside, so that those collections are half as long. A program that minds
the others can set aside what it has imported, by ``gc.freeze()`` after its imports.
Tried without gain: no collection during the import, after which the first ones take as long.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

from children import program
from filling import fill
from measuring import Figure, Samples, at_most, in_requests
from run_settings import Run
from serving import add_devices, mirror

NAME = "loop_holds"
_PATH = "/3311/0/5851"
_MOST_WRITES = 400
_MOST_LOG_ENTRIES = 20_000
_MOST_ROUNDS = 3
_CALLS = (
    *("snapshot", "refresh", "snapshot_dataset", "list_devices", "state_frame", "events_frame"),
    *("record", "plan", "apply"),
)
"""In this order: the first one imports pandas, and some need what was there before."""


def measure(run: Run) -> Iterator[Figure]:
    filled = fill(
        run.folder / "loop-holds.db",
        device_count=run.scale.loop_devices,
        resource_count=run.scale.resources,
        log_entries=min(_MOST_LOG_ENTRIES, run.scale.log_entries),
    )
    samples: Samples = {}
    request_ms = []
    with ExitStack() as stack:
        server = stack.enter_context(mirror(run, filled, run.cores.one, "--simulate", "0"))
        add_devices(server, filled.key, min(_MOST_WRITES, run.scale.loop_devices), _PATH, "100", "Light")
        for number in range(min(_MOST_ROUNDS, run.scale.rounds)):
            request_ms.append(run.request_ms(server, "/healthz"))
            # Another value each time: one that is there already is not written.
            arguments = (server.url, filled.key, _PATH, str(number))
            with program("loop_program.py", *arguments, folder=run.folder, cores=run.cores.client) as caller:
                for what in ("connect", "first snapshot", *_CALLS):
                    answer = caller.ask(call=what.removeprefix("first "))
                    samples.setdefault(what, []).append(answer["hold_ms"])
    for what, taken in samples.items():
        # All that disturbs makes it more.
        yield in_requests(NAME, what, min(taken), request_ms, at_most(150))
