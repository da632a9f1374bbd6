"""Held polls and websockets: how soon one is answered after an event, and what many of them cost.

The event is an observation of a device (see ``device_side.py``). Many polls are held by a client of its own; what else
the server answers meanwhile is compared with a second server that holds none.

Where the time of one event goes, in microseconds from the moment it is handed over, medians on one core of a virtual
machine whose disk takes 200 us for a sync when it is busy and 300 us after 5 ms of rest:

====  =============================================================================================
  24  handed to the writer: a future and a queue
  50  the writer's thread runs: the first change of threads, at once, as nothing lingers for more work
  60  ``BEGIN IMMEDIATE``
 215  seven statements; 75 of them where they are repeated at once, the rest is what cold caches cost
 560  commit: 30 without its sync, the rest is the disk's
 585  the waiting futures are set and the event loop is called: one write to its own descriptor
 615  the loop runs: the second change of threads
 660  the answer is made: nothing is read, the entry comes from who stored it (before that 95, now 45)
 750  sent in two writes of uvicorn's, and received by a process on another core
====  =============================================================================================

A request for hello takes 145 of these, hot from the one before it. So the disk alone is more than twice a hello, and
three times cannot be had on such a disk by anything the server does.

10,000 polls that one event wakes: 110 us of the server's core each (130 where each reads and encodes its own page), of
which the two writes are 23. Python's garbage collector went through all objects of all polls, most of a second each
time, until what is there at the start was set apart and old objects were looked at a tenth as often; since then 10,000
polls are opened in half of the time.

5,000 websockets: 180 us of the server's core each, as each looks once more whether there is more in the log; a client
that only counts frames has all after 1.0 to 1.2 s, one with a library after 2. Idle, each is looked at every 20 s: that
takes a tenth of a core.

Tried without gain: a shorter switch interval of the interpreter (1/2 and 1/5 ms, nobody computes meanwhile); giving the
core away after the commit; head and body in one write by a transport that holds the head back (nothing here, 3 % of
E1); fewer but longer collections of young objects (2 % slower E1, they leave the cache); ``secure_delete`` off (no
difference for one entry); the SDK without a cookie jar.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import httpx
from children import ChildFailed, Program, Server, program
from device_object import object_requests
from filling import Filled, fill
from machine import allow_many_connections
from measuring import Figure, Samples, alternate, at_least, at_most, in_requests, percentile, ratio
from run_settings import Run, get
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
    """An event and the poll that waits for it, beside requests for hello sent by the same client."""
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

        def hello_request() -> float:
            answer = holder.ask(do="ask", port=hello_server.port, request=get("/"), count=run.scale.events)
            return percentile([taken / 1e6 for taken in answer["taken_ns"]], 0.5)

        samples = alternate({"event to answer": event_to_answer, "hello": hello_request}, run.scale.rounds)
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
        request_ms = _bare_requests_ms(run, other)
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
        request_ms = _bare_requests_ms(run, held_by)
        holder.tell(do="hold_websockets", port=held_by.port, key=filled.key, count=count)
        holder.hear()
        wait_until_open(held_by, filled.key, count)
        event = devices.ask(do="event", device_id=filled.device_ids[0], path=filled.paths[0])
        woken = holder.hear()
        took_ms = (woken["last_at_ns"] - event["at_ns"]) / 1e6
    goal = at_most(_REQUESTS_A_WEBSOCKET * count)
    yield in_requests(NAME, f"one event to all {count:,} websockets", took_ms, request_ms, goal)


def _bare_requests_ms(run: Run, server: Server) -> list[float]:
    return [run.request_ms(server, "/healthz") for _ in range(run.scale.rounds)]


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


def resident_bytes(pid: int) -> int:
    """What a process has in memory."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
