"""A value read from a simulated device, synchronously, against one bare request of the same client and server.

The request is a GET of the device's object by httpx, alternating with the reads. In one run server and client have a
core each. In the other both may use all cores, like programs that are not pinned.

The response arrives with the request (decision 25): one request instead of two. The two transactions remain, since the
request is on disk before it is sent to the device, and the response before it is returned. On a quiet machine with two
cores, alternating with the code before, two runs each: with a core each 3.5 times a ``GET`` in both runs instead of 4.3
and 4.0, otherwise 3.1 and 3.4 instead of 5.2 and 5.1. That is 2.1 to 3.1 ms, and a ``GET`` is 0.62 to 0.83.

A read takes 1.6 ms of the server's core, by the CPU time of its threads under the load of others; a ``GET`` takes 0.35.
The event loop takes 0.6 of it: it parses and authenticates the request, submits it to the writer and sends the
response. The writer takes 1.0. The client takes 0.7 ms of its core, and 0.44 for a ``GET`` by httpx. Together that is
2.9 times the 0.81 ms of a ``GET`` in that run, so the work alone takes almost all of the goal of 3.0. Two syncs of 0.2
ms are added. The two commits write five and eight pages. For the request they are its row, its name, the last number,
and its entries among waiting and expiring requests. For its end they are that row, three such entries, the value, the
log entry, the end of the log, and the counter of changes.

An idle core of a virtual machine is stopped and takes long to wake. A ``GET`` wakes two cores; a read also wakes the
writer and the loop.

Removed: the second request; the wait of the 202 for a core or the interpreter lock until the device had responded;
httpx's own client with cookies and redirects for each request; a second write, and a second iteration of the server's
loop, for the body of a request; a second write for the body of a response, which wakes the client twice (a read 12 %
less, a ``GET`` 8 %); a savepoint in each transaction; a timer for a body that has already arrived. The last two made a
read 4 to 8 % and a ``GET`` 1 to 5 % faster, alternating in four runs on loaded cores, so their ratio changed little.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

from children import Program, program
from filling import Filled, fill
from measuring import Figure, Samples, alternate, at_most, ratio
from run_settings import Run
from serving import add_devices, mirror

NAME = "read_value"
_PATH = "/3303/0/5700"
_COMPARISON = "read_value / GET of the device object with httpx"


def measure(run: Run) -> Iterator[Figure]:
    filled = fill(run.folder / "read-value.db", device_count=1, resource_count=1)
    everywhere = run.cores.two | run.cores.client
    samples = _call_times(run, filled, run.cores.one, run.cores.client)
    yield ratio(NAME, f"{_COMPARISON}, a core each", samples, "read_value", "GET", "ms", at_most(3))
    samples = _call_times(run, filled, everywhere, everywhere)
    yield ratio(NAME, _COMPARISON, samples, "read_value", "GET", "ms", at_most(3))


def _call_times(run: Run, filled: Filled, server_cores: frozenset[int], client_cores: frozenset[int]) -> Samples:
    """Return the duration of a call in milliseconds, of each side."""
    with ExitStack() as stack:
        server = stack.enter_context(mirror(run, filled, server_cores, "--simulate", "0"))
        (device_id,) = add_devices(server, filled.key, 1, _PATH, "21.5")
        arguments = (server.url, filled.key, device_id, _PATH)
        sdk = stack.enter_context(program("sdk_reader.py", *arguments, folder=run.folder, cores=client_cores))
        sides = {side: reading(sdk, side, run.scale.calls) for side in ("read_value", "GET")}
        return alternate(sides, run.scale.rounds)


def reading(reader: Program, side: str, calls: int) -> Callable[[], float]:
    """Return the milliseconds of a call."""

    def read() -> float:
        response = reader.call(side=side, calls=calls)
        assert response["value"] == "21.5", response
        milliseconds: float = 1000 * response["seconds"]
        return milliseconds

    return read
