"""A value read from a simulated device, synchronously, against one bare request of the same client and server.

The request is a GET of the device's object by httpx, in turn with the reads. Once server and client have a core each,
and once both have all there are, as programs have that nobody tells where to run.

The answer comes with the request (decision 25): one request where there were two, and behind it the same two
transactions, since the request is on disk before its device is asked, and the answer before anybody is told. In turn
with the code before, two runs each, nothing else on a machine of two cores: with a core each 3.5 times a ``GET`` in
both in place of 4.3 and 4.0, without 3.1 and 3.4 in place of 5.2 and 5.1. That is 2.1 to 3.1 ms, where a ``GET`` is
0.62 to 0.83.

What a read takes of the server's core is 1.6 ms, by the time of its threads beside the load of others, where a ``GET``
takes 0.35: 0.6 the event loop, which reads the request, looks at the key, checks and hands it to the writer, and sends
the answer; 1.0 the writer. Of the client's core it takes 0.7 ms, a ``GET`` by httpx 0.44. Both together are 2.9 times
the 0.81 ms that a ``GET`` took in that run, so the work alone is more than the 2.5 that are wanted where both sides
have all cores, and two syncs of the disk of 0.2 ms come to it. The two commits write five pages and eight: of the
request its row, its name, the last number, and where it stands among those that wait and expire; of its end that row
and three such places, the value, the log's entry and its end, and the counter of changes.

A core of a virtual machine that has nothing to do is stopped, and takes long to wake: a ``GET`` wakes two, a read the
writer and the loop besides.

What needed not be there: the second request; the 202 waited for a core, or for the interpreter, until the device had
been asked and had answered; httpx's own client, its cookies and redirects, at each request; a second write, and a
second turn of the server's loop, for the body of a request; a second write for that of an answer, by which a client is
woken twice (a read 12 % less, a ``GET`` 8 %).
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
_WHAT = "read_value / GET of the device object with httpx"


def measure(run: Run) -> Iterator[Figure]:
    filled = fill(run.folder / "read-value.db", device_count=1, resource_count=1)
    everywhere = run.cores.two | run.cores.client
    samples = _taken(run, filled, run.cores.one, run.cores.client)
    yield ratio(NAME, f"{_WHAT}, a core each", samples, "read_value", "GET", "ms", at_most(3.5))
    samples = _taken(run, filled, everywhere, everywhere)
    yield ratio(NAME, _WHAT, samples, "read_value", "GET", "ms", at_most(2.5))


def _taken(run: Run, filled: Filled, server_cores: frozenset[int], client_cores: frozenset[int]) -> Samples:
    """The milliseconds of a call, of each side."""
    with ExitStack() as stack:
        server = stack.enter_context(mirror(run, filled, server_cores, "--simulate", "0"))
        (device_id,) = add_devices(server, filled.key, 1, _PATH, "21.5")
        arguments = (server.url, filled.key, device_id, _PATH)
        sdk = stack.enter_context(program("sdk_reader.py", *arguments, folder=run.folder, cores=client_cores))
        sides = {side: reading(sdk, side, run.scale.calls) for side in ("read_value", "GET")}
        return alternate(sides, run.scale.rounds)


def reading(reader: Program, side: str, calls: int) -> Callable[[], float]:
    """The milliseconds of a call."""

    def read() -> float:
        answer = reader.ask(side=side, calls=calls)
        assert answer["value"] == "21.5", answer
        milliseconds: float = 1000 * answer["seconds"]
        return milliseconds

    return read
