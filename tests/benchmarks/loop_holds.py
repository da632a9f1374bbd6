"""The longest time for which a call of the asynchronous client blocks the other tasks of its event loop.

The mirror has a fleet, some thousands of log entries, and 400 devices that accept writes. Each round is a new process,
whose first table imports pandas. The figure is the smallest of the longest blocks of all rounds: other load on the
machine makes a block longer, and nothing makes it shorter. Time in which the loop waits for a core is excluded. Time in
which it waits for a thread without a core is included.

"Connect" is the first request of a client, for which pydantic, anyio and httpx import what they need.

Causes of the remaining time: the import of pandas and pyarrow loads libraries of 50 MB. Arrow, pandas and the JSON of
one response hold the interpreter lock for some milliseconds per column or page. A computing thread releases it every 5
ms. A full garbage collection examines all objects, 90,000 or more with pandas, and stops every thread for 25 to 60 ms.
It runs when there are a quarter more objects than after the last one, and objects that survived two collections are
freed only then.

So, besides threads, avoiding medium-lived objects helped most. Rows are built from a device or an entry where its
response is read. Events are created 100 at a time. All instants share one time zone object. There are pauses between
requests, because objects of overlapping requests count as old ones. Responses of httpx are released at once, because
each holds the stream of its body, which holds the response.

During the import, existing objects are frozen, so that those collections take half as long. To avoid these pauses, a
program calls ``gc.freeze()`` after its imports. Without gain: no collection during the import, because the first ones
afterwards take as long.
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
"""Calls in their order: the first one imports pandas, and some need the results of earlier ones."""


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
            # A new value each time, because an unchanged value is not written.
            arguments = (server.url, filled.key, _PATH, str(number))
            with program("loop_program.py", *arguments, folder=run.folder, cores=run.cores.client) as caller:
                for what in ("connect", "first snapshot", *_CALLS):
                    response = caller.call(call=what.removeprefix("first "))
                    samples.setdefault(what, []).append(response["hold_ms"])
    for what, hold_ms in samples.items():
        # The minimum, because every disturbance adds time.
        yield in_requests(NAME, what, min(hold_ms), request_ms, at_most(150))
