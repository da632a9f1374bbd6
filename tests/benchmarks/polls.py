"""Held polls and websockets: how soon one is answered after an event, and what many of them cost.

The event is an observation of a device (see ``device_side.py``). Many polls are held by a client of its own; what else
the server answers meanwhile is compared with a second server that holds none.

Where the time of one event goes, in microseconds from the moment it is handed over: stamps taken in the process, 600
events on one core, server and client before all other programs of the machine (``chrt -f``), which computed and wrote
to the same disk meanwhile. A request for hello took 208 in the median, a sync alone 215.

========  ======  =====================================================================================
  median  99 %    of the part itself
========  ======  =====================================================================================
      69     125  handed to the writer, a future and a queue, whose thread runs: the first change of threads
      15      39  ``BEGIN IMMEDIATE``
     162     421  the statements: 50 of it SQLite, the rest Python; half where they are repeated at once
     321   1,767  commit: the sync of a disk that is not idle, and some 10 for each of the five pages it writes
      21      49  the waiting are told, and the event loop is called: one write to its own descriptor
      35      74  the loop runs: the second change of threads
      19      46  the answer is taken: it was made while the disk was waited for
      48      94  sent in one write, by the call that the loop was called for
      60          received by a process on another core
     750   3,120  all of it; the parts' worst do not come together
========  ======  =====================================================================================

So the sync and the change of threads behind it and before it are what is left, and on such a disk three times a hello
is not to be had by what is behind the commit: in memory, where a sync costs nothing, all of it is 2.2 times a hello
where it is 3.6 to 3.8 on the disk. The answer was made, and a task woken to send it, when the commit was done: all of
it took 6 to 13 % longer then (751 to 876 instead of 710 to 778, in turn in four runs). One event in a hundred took 9 to
36 ms, all of them in the commit: it made the log of SQLite longer, and the sync of a file that grows waits for the
journal of the file system (ext4), and so for all that others wrote. A sync behind 12 KiB took 355 us, 12 ms at the 99th
percentile, where the file grew, 234 us and 4 ms where it did not. The file grows until the first checkpoint after a
start; from then on SQLite writes into what is there (decision 21). Neither garbage (one event in a hundred, 0.2 ms of
young objects) nor the interpreter's switch interval had a part in any of the slowest. Where other programs compute too,
the thread that writes waits for a core after its sync, as anything else does.

10,000 polls that one event wakes: 40 us of the server's core each, where it was 52 to 56 in turn in one run, and 120
before that: the page is encoded once with its head, each answer is one write, the metrics of a route are looked up
once, the loop is called for all together, no task is woken to answer, and who waits is no future with a lock of its
own. The write is 10 us of it, what is left of the task 8, the metrics 3. Python's garbage collector went through all
objects of all polls, most of a second each time, until what is there at the start was set apart and old objects were
looked at a tenth as often.

5,000 websockets: 95 us of the server's core each, where it was 114 in turn in one run, and twice as much at first:
nothing is read behind the last message until something comes, the message is encoded once as it goes over the wire, the
ping goes with it in one write, and the key is looked up once for each version of the database. Idle, each is looked at
every 20 s: that takes a tenth of a core.

Tried without gain: a shorter switch interval of the interpreter (1/2 and 1/5 ms, nobody computes meanwhile); giving the
core away after the commit; fewer but longer collections of young objects (2 % slower E1, they leave the cache);
``secure_delete`` off (no difference for one entry); a timer that wakes the clock's thread where it is the next alone;
having the writer wait, behind each commit, until the loop has answered (777 us instead of 757).
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
_REQUESTS_A_POLL = 0.25
_REQUESTS_A_WEBSOCKET = 0.5


def measure(run: Run) -> Iterator[Figure]:
    allow_many_connections()
    filled = fill(run.folder / "polls.db", device_count=run.scale.devices, resource_count=run.scale.resources)
    yield from one_poll(run, filled)
    yield from many_polls(run, filled)
    yield from many_websockets(run, filled)


def one_poll(run: Run, filled: Filled) -> Iterator[Figure]:
    """An event and the poll that waits for it, beside bare requests for hello."""
    with ExitStack() as stack:
        server, devices = stack.enter_context(with_device_side(run, filled, run.cores.one))
        hello_server = stack.enter_context(hello(run, run.cores.one))
        holder = stack.enter_context(program("poll_holder.py", folder=run.folder, cores=run.cores.client))
        worst: list[float] = []

        def event_to_answer() -> float:
            holder.tell(do="watch", port=server.port, key=filled.key, count=run.scale.events)
            holder.hear()
            waits = [_event_to_answer(devices, holder, filled) for _ in range(run.scale.events)]
            worst.append(percentile(waits, 0.99))
            return percentile(waits, 0.5)

        hello_request = partial(run.request_ms, hello_server)
        sides: dict[str, Callable[[], float]] = {"event to answer": event_to_answer, "hello": hello_request}
        samples = alternate(sides, run.scale.rounds)
    what = "event -> held poll, p50 / hello request"
    yield ratio(NAME, what, samples, "event to answer", "hello", "ms", at_most(3))
    # The first one warmed up.
    samples["p99"] = worst[1:]
    yield ratio(NAME, "event -> held poll, p99 / hello request", samples, "p99", "hello", "ms", at_most(15))


def _event_to_answer(devices: Program, holder: Program, filled: Filled) -> float:
    # The poll is sent as soon as the last one is answered; the event comes when it is parked.
    time.sleep(_BETWEEN_EVENTS_SECONDS)
    event = devices.ask(do="event", device_id=filled.device_ids[0], path=filled.paths[0])
    return float(holder.hear()["at_ns"] - event["at_ns"]) / 1e6


def many_polls(run: Run, filled: Filled) -> Iterator[Figure]:
    """Their memory, E1 beside them, and one event to all of them."""
    count = run.scale.polls
    with ExitStack() as stack:
        held_by, devices = stack.enter_context(with_device_side(run, filled, run.cores.one))
        other, _ = stack.enter_context(with_device_side(run, filled, run.cores.one))
        holder = stack.enter_context(program("poll_holder.py", folder=run.folder, cores=run.cores.client))
        requests = object_requests(filled)
        request_ms = run.requests_ms(other)
        run.rate(held_by, requests)
        before = resident_bytes(held_by.pid)
        holder.tell(do="hold", port=held_by.port, key=filled.key, count=count)
        holder.hear()
        wait_until_open(held_by, filled.key, count)
        each_kib = max(resident_bytes(held_by.pid) - before, 1) / count / 1024
        sides = {"beside": partial(run.rate, held_by, requests), "alone": partial(run.rate, other, requests)}
        samples: Samples = alternate(sides, run.scale.rounds)
        event = devices.ask(do="event", device_id=filled.device_ids[0], path=filled.paths[0])
        woken = holder.hear()
        if woken["answered"] != count:
            raise ChildFailed(f"of {count} held polls {woken['answered']} were answered")
        took_ms = (woken["last_at_ns"] - event["at_ns"]) / 1e6
    yield Figure(NAME, f"memory of each of {count:,} held polls", each_kib, "KiB", at_most(20))
    what = f"E1 beside {count:,} held polls / alone"
    yield ratio(NAME, what, samples, "beside", "alone", "/s", at_least(0.85))
    goal = at_most(_REQUESTS_A_POLL * count)
    yield in_requests(NAME, f"one event to all {count:,} polls", took_ms, request_ms, goal)


def many_websockets(run: Run, filled: Filled) -> Iterator[Figure]:
    """Half as many websockets: one event to all of them."""
    count = run.scale.polls // 2
    with ExitStack() as stack:
        held_by, devices = stack.enter_context(with_device_side(run, filled, run.cores.one))
        holder = stack.enter_context(program("poll_holder.py", folder=run.folder, cores=run.cores.client))
        request_ms = run.requests_ms(held_by)
        holder.tell(do="hold_websockets", port=held_by.port, key=filled.key, count=count)
        holder.hear()
        wait_until_open(held_by, filled.key, count)
        event = devices.ask(do="event", device_id=filled.device_ids[0], path=filled.paths[0])
        woken = holder.hear()
        took_ms = (woken["last_at_ns"] - event["at_ns"]) / 1e6
    goal = at_most(_REQUESTS_A_WEBSOCKET * count)
    yield in_requests(NAME, f"one event to all {count:,} websockets", took_ms, request_ms, goal)


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
