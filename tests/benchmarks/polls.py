"""Long polls and websockets: the delay of a response after an event, and the cost of many of them.

The event is an observation of a device (see ``device_side.py``). A separate client holds many polls; other responses of
the server are compared with those of a second server without polls.

Time of one event in microseconds, from its submission: time stamps in the process, 200 events in each of three rounds,
the database in memory, so that a sync is free, server and client with a core each and with priority over all other
programs (``chrt -f``). A request for hello took 217 in the median. Time stamps add a tenth.

======  ================================================================================
median  of the step itself
======  ================================================================================
    98  submitted to the writer, a future and a queue, until its thread runs: first switch
    30  ``BEGIN IMMEDIATE``
   229  the statements: SQLite a third, the rest Python; half if they are repeated at once
    77  commit: about 10 for each of the five pages it writes; on a disk, plus the sync
    25  the waiters are notified and the event loop is woken: one write to its own descriptor
    38  the loop runs: second thread switch
    61  the key is checked again, by one query
    68  the response is built
   117  sent in one write, by the callback that the loop was woken for
======  ================================================================================

So on a disk, what remains is the sync, the statements and the thread switches. Instead of 2.9 to 3.1 times a hello in
memory, an event takes 3.5 times and more on a disk, and 6 times on an idle virtual machine, whose cores are stopped
between the steps. The key was checked by two queries before, and a savepoint followed each ``BEGIN``: both together
took 5 to 7 % longer (616 to 662 instead of 585 to 636, alternating in memory). Building the response during the sync
gained nothing.

One event in a hundred took 9 to 36 ms, all of it in the commit. It extended SQLite's write-ahead log, and the sync of a
growing file waits for the journal of the file system (ext4), and so for the writes of others. A sync after 12 KiB took
355 us, 12 ms at the 99th percentile, if the file grew, and 234 us and 4 ms if it did not. The file grows until the
first checkpoint after a start; from then on SQLite reuses it (decision 21). Neither garbage collection (one event in a
hundred, 0.2 ms of young objects) nor the interpreter's switch interval contributed to the slowest events. On a busy
machine, the writer thread waits for a core after its sync, like any other thread.

10,000 polls that one event completes have their responses after 38 us each. Before, it was 51 to 61, alternating in one
run, and 120 originally. All responses are sent first, and the tasks of the requests end afterwards, instead of in
between. The page is encoded once with its head, each response is one write, the key is compared by the hash from its
admission, the metrics of a route are looked up once, and the loop is woken once for all. A waiter is not a future with
a lock. The write is 10 us, the metrics 3. Python's garbage collector examined all objects of all polls, most of a
second each time, until objects from the start were frozen and old objects were examined a tenth as often.

5,000 websockets cost 95 us of the server's core each. Before, it was 114, alternating in one run, and twice as much at
first. The log is not read past the last message until an entry arrives, the message is encoded once as a frame, the
ping is sent in the same write, and the key is looked up once per version of the database. An idle websocket is visited
every 20 s, which takes a tenth of a core.

Without gain: a shorter switch interval of the interpreter (1/2 and 1/5 ms; no other thread computes); yielding the core
after the commit; fewer but longer collections of young objects (E1 is 2 % slower, since they leave the cache);
``secure_delete`` off (no difference for one entry); a timer that wakes the clock's thread only if it is the next; a
writer that waits after each commit until the loop has responded (777 us instead of 757).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial

import httpx
from children import ChildFailed, Program, Server, program
from device_object import object_requests
from filling import Filled, fill
from machine import allow_many_connections, resident_bytes
from measuring import Figure, Samples, alternate, at_least, at_most, in_requests, percentile, ratio
from run_settings import Run
from serving import hello, with_device_side

NAME = "polls"
_BETWEEN_EVENTS_SECONDS = 0.005
_OPEN_SECONDS = 60
_REQUESTS_A_POLL = 0.2
_REQUESTS_A_WEBSOCKET = 0.5


def measure(run: Run) -> Iterator[Figure]:
    allow_many_connections()
    filled = fill(run.folder / "polls.db", device_count=run.scale.devices, resource_count=run.scale.resources)
    yield from one_poll(run, filled)
    yield from many_polls(run, filled)
    yield from many_websockets(run, filled)


def one_poll(run: Run, filled: Filled) -> Iterator[Figure]:
    """Measure an event and the poll that waits for it, against bare requests for hello."""
    with ExitStack() as stack:
        server, devices = stack.enter_context(with_device_side(run, filled, run.cores.one))
        hello_server = stack.enter_context(hello(run, run.cores.one))
        holder = stack.enter_context(program("poll_holder.py", folder=run.folder, cores=run.cores.client))
        worst: list[float] = []

        def event_to_response() -> float:
            times = event_to_poll(run, server, devices, holder, filled)
            worst.append(times["p99_ms"])
            return times["p50_ms"]

        hello_request = partial(run.request_ms, hello_server)
        sides: dict[str, Callable[[], float]] = {"event to response": event_to_response, "hello": hello_request}
        samples = alternate(sides, run.scale.rounds)
    what = "event -> held poll, p50 / hello request"
    yield ratio(NAME, what, samples, "event to response", "hello", "ms", at_most(3.5))
    # Without the first one, which warmed up.
    samples["p99"] = worst[1:]
    yield ratio(NAME, "event -> held poll, p99 / hello request", samples, "p99", "hello", "ms", at_most(15))


def event_to_poll(run: Run, server: Server, devices: Program, holder: Program, filled: Filled) -> dict[str, float]:
    """Measure the time from an event to the response of the poll that waits for it."""
    holder.send(do="watch", port=server.port, key=filled.key, count=run.scale.events)
    holder.receive()
    waits = [_event_to_response(devices, holder, filled) for _ in range(run.scale.events)]
    return {"p50_ms": percentile(waits, 0.5), "p99_ms": percentile(waits, 0.99)}


def _event_to_response(devices: Program, holder: Program, filled: Filled) -> float:
    # The poll is sent immediately after the last response; the event must arrive while it waits.
    time.sleep(_BETWEEN_EVENTS_SECONDS)
    event = devices.call(do="event", device_id=filled.device_ids[0], path=filled.paths[0])
    return float(holder.receive()["at_ns"] - event["at_ns"]) / 1e6


def many_polls(run: Run, filled: Filled) -> Iterator[Figure]:
    """Measure the memory of many polls, E1 while they wait, and one event to all of them."""
    count = run.scale.polls
    with ExitStack() as stack:
        server, devices = stack.enter_context(with_device_side(run, filled, run.cores.one))
        other, _ = stack.enter_context(with_device_side(run, filled, run.cores.one))
        holder = stack.enter_context(program("poll_holder.py", folder=run.folder, cores=run.cores.client))
        requests = object_requests(filled)
        request_ms = run.requests_ms(other)
        run.rate(server, requests)
        before = resident_bytes(server.pid)
        holder.send(do="hold", port=server.port, key=filled.key, count=count)
        holder.receive()
        wait_until_open(server, filled.key, count)
        each_kib = max(resident_bytes(server.pid) - before, 1) / count / 1024
        sides = {"during": partial(run.rate, server, requests), "alone": partial(run.rate, other, requests)}
        samples: Samples = alternate(sides, run.scale.rounds)
        event = devices.call(do="event", device_id=filled.device_ids[0], path=filled.paths[0])
        woken = holder.receive()
        if woken["responded"] != count:
            raise ChildFailed(f"of {count} held polls {woken['responded']} have a response")
        delivery_ms = (woken["last_at_ns"] - event["at_ns"]) / 1e6
    yield Figure(NAME, f"memory of each of {count:,} held polls", each_kib, "KiB", at_most(20))
    what = f"E1 during {count:,} held polls / alone"
    yield ratio(NAME, what, samples, "during", "alone", "/s", at_least(0.85))
    goal = at_most(_REQUESTS_A_POLL * count)
    yield in_requests(NAME, f"one event to all {count:,} polls", delivery_ms, request_ms, goal)


def many_websockets(run: Run, filled: Filled) -> Iterator[Figure]:
    """Measure one event that is sent to half as many websockets."""
    count = run.scale.polls // 2
    with ExitStack() as stack:
        server, devices = stack.enter_context(with_device_side(run, filled, run.cores.one))
        holder = stack.enter_context(program("poll_holder.py", folder=run.folder, cores=run.cores.client))
        request_ms = run.requests_ms(server)
        holder.send(do="hold_websockets", port=server.port, key=filled.key, count=count)
        holder.receive()
        wait_until_open(server, filled.key, count)
        event = devices.call(do="event", device_id=filled.device_ids[0], path=filled.paths[0])
        woken = holder.receive()
        delivery_ms = (woken["last_at_ns"] - event["at_ns"]) / 1e6
    goal = at_most(_REQUESTS_A_WEBSOCKET * count)
    yield in_requests(NAME, f"one event to all {count:,} websockets", delivery_ms, request_ms, goal)


def wait_until_open(server: Server, key: str, count: int) -> None:
    """Wait until the server holds all polls."""
    end_at = time.monotonic() + _OPEN_SECONDS
    headers = {"Authorization": f"Bearer {key}"}
    while True:
        metrics = httpx.get(f"{server.url}/metrics", headers=headers, timeout=30).raise_for_status().text
        if f"mirror_open_polls {float(count)}\n" in metrics:
            return
        if time.monotonic() > end_at:
            raise ChildFailed(f"the server does not hold {count} polls; is the limit of open files too low?")
        time.sleep(0.05)
