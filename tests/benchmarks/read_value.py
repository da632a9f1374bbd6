"""A value read from a simulated device, synchronously, against one bare request of the same client and server.

The request is a GET of the device's object by httpx, in turn with the reads. Once server and client have a core each,
and once both have all there are, as programs have that nobody tells where to run. The vendor's old SDK reads the same
value: it sleeps for fixed times, so how often it takes as long is a figure of the machine, and no goal.

Where the time of a read goes, in microseconds: stamps taken in both processes, medians of 250 reads with a core each,
before all other programs of the machine (``chrt -f``), which wrote to the same disk meanwhile. A ``GET`` took 1015 with
such stamps: 207 to be built, 402 in the server, 306 to be read.

====  =======================================================================================================
 346  the client checks what is asked, takes the place of the answer and builds the request
  80  written, with its body in one piece, and received
 396  the server reads it, looks at the key, and its view checks it and hands it to the writer
 122  the first change of threads
 124  ``BEGIN IMMEDIATE``, and the statements that queue the request
 333  commit
  69  the second change of threads, back to the event loop
 198  the 202 is made, sent and received
 671  the client reads the 202 and builds the poll. Meanwhile the device is asked, and its answer is stored in 180 for
      the statements and 360 for the commit, a moment before the poll is there
  99  the poll is written and received
 296  its key, its view
  55  the log is read
 278  the answer is made, sent and received
 359  the client reads it, and the value
====  =======================================================================================================

Two requests take twice as long as one, and what stands between the first and its 202, two changes of threads, the
statements and the commit, 0.64 of one on this disk. So 2.6 is the floor of two such requests, and of 2.5 no more than a
commit of half the time would leave. In memory, where a sync costs nothing, a read takes 3.06 with a core each and 3.14
without. Where a commit takes more than half a millisecond the poll waits for the second one, and what the client saves
is lost to it.

With nothing else on the machine a GET is faster, 0.78 ms, and a read is not: 3.5 with a core each (4.4 times a GET) and
4.6 without (5.7 times). A core of a virtual machine that has nothing to do is stopped, and takes long to wake; a GET
wakes two, and a read one for each change of threads as well. With programs of the lowest priority that keep both cores
awake it is 3.3 and 3.4 ms, where a GET is 0.68. The server's part of a read is 2.5 ms of its core then, most of it the
interpreter's; the writer's thread spends two fifths of its own in the kernel, writing and syncing.

What needed not be there: the 202 waited for a core, or for the interpreter, until the device had been asked and had
answered (12 to 18 % of a read with a core each; device requests of eight connections are 11 % more a second since);
httpx's own client, its cookies and redirects, at each request (7 %); a second write, and a second turn of the server's
loop, for the body.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import httpx
from children import Program, program
from filling import Filled, fill
from measuring import Figure, Samples, alternate, at_most, ratio
from peers import VENDOR_SDK
from run_settings import Run
from serving import mirror

NAME = "read_value"
_PATH = "/3303/0/5700"
_WHAT = "read_value / GET of the device object with httpx"


def measure(run: Run) -> Iterator[Figure]:
    filled = fill(run.folder / "read-value.db", device_count=1, resource_count=1)
    everywhere = run.cores.two | run.cores.client
    samples = _taken(run, filled, run.cores.one, run.cores.client, with_vendor=True)
    yield ratio(NAME, f"{_WHAT}, a core each", samples, "read_value", "GET", "ms", at_most(3.5))
    if "vendor" in samples:
        yield ratio(NAME, "vendor's SDK / read_value", samples, "vendor", "read_value", "ms")
    samples = _taken(run, filled, everywhere, everywhere, with_vendor=False)
    yield ratio(NAME, _WHAT, samples, "read_value", "GET", "ms", at_most(2.5))


def _taken(
    run: Run, filled: Filled, server_cores: frozenset[int], client_cores: frozenset[int], *, with_vendor: bool
) -> Samples:
    """The milliseconds of a call, of each side."""
    with ExitStack() as stack:
        server = stack.enter_context(mirror(run, filled, server_cores, "--simulate", "0"))
        arguments = (server.url, filled.key, add_device(server.url, filled.key), _PATH)
        where = {"folder": run.folder, "cores": client_cores}
        sdk = stack.enter_context(program("sdk_reader.py", *arguments, **where))
        sides = {side: reading(sdk, side, run.scale.calls) for side in ("read_value", "GET")}
        if with_vendor and run.peers is not None:
            peers = run.peers

            def start_vendor() -> Callable[[], float]:
                python = peers.python("vendor-sdk", VENDOR_SDK)
                vendor = stack.enter_context(program("vendor_reader.py", *arguments, python=python, **where))
                # A call of it takes a hundred times as long.
                return reading(vendor, "read_value", max(5, run.scale.calls // 20))

            run.add_peer(sides, "vendor", start_vendor)
        return alternate(sides, run.scale.rounds)


def reading(reader: Program, side: str, calls: int) -> Callable[[], float]:
    """The milliseconds of a call."""

    def read() -> float:
        answer = reader.ask(side=side, calls=calls)
        assert answer["value"] == "21.5", answer
        milliseconds: float = 1000 * answer["seconds"]
        return milliseconds

    return read


def add_device(url: str, key: str) -> str:
    """A simulated device with one value to read."""
    body = {"endpoint_name": "read", "resources": [{"path": _PATH, "value": "21.5", "observable": True}]}
    answer = httpx.post(f"{url}/sim/v1/devices", json=body, headers={"Authorization": f"Bearer {key}"})
    device_id: str = answer.raise_for_status().json()["id"]
    return device_id
