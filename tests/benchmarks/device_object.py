"""E1, a device with 20 resources, key check on: against hello, and the same app under other servers.

``hello`` is a Flask app on the mirror's own web server, so it is what a request costs at least. waitress and gunicorn
run the same app with a thread for each connection. No side writes a line for each request; what that line costs the
mirror is a figure too.

Where the time goes now (py-spy, 300 samples a second of the server's main thread under this load): uvicorn 23 %,
Werkzeug 19 % (routing, headers, the response), the bridge from ASGI to WSGI 11 %, what surrounds every request (key,
request id, metrics) 16 %, Flask 9 %, uvloop and sockets 8 %, SQLite 6 % (one look whether anything was committed), JSON
and views 8 %: the object itself is held encoded. In CPU time hello takes 92 us, a route without a key 80 us, E1 124 us.

What gained, of 161 us: one look at the version of the database in place of one for the key and one for the device's
revision (9 us); an URL adapter that looks at the path alone (6 us); whole answers that are sent as they are, without
Werkzeug's copy of their headers (6 us; in one process, where all counts for less than under load). Before that: single
statements instead of a transaction each; the tag held with the encoded object; no sessions; no look for coroutines.
What was tried without gain worth its price: metrics found in a table of our own, request ids without a call of the
system (both below what can be measured), a frozen or switched-off garbage collector. Flask's own loops over the
functions around a request cost 8 us; they had been replaced, which the next Flask would not have stood. Nearly as much
came back by looking up once what stands behind the proxies of the request.

A line for each request cost 83 us (53 us in JSON), most of it in structlog, and in what logging does for any line: it
looks where it was called from (12 us), makes a record (9 us) and hands it on (8 us). Made and written past all that it
costs 17 us (13 us), of which the call of the system is a fourth.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import partial

from filling import Filled, fill
from measuring import Figure, Samples, alternate, at_least, ratio
from run_settings import Run, get
from serving import hello, mirror, under_wsgi

NAME = "device_object"


def measure(run: Run) -> Iterator[Figure]:
    filled = fill(run.folder / "device-object.db", device_count=run.scale.devices, resource_count=run.scale.resources)
    samples = on_one_core(run, filled)
    yield ratio(NAME, "E1 / hello", samples, "mirror", "hello", "/s", at_least(0.70))
    yield ratio(NAME, "E1 with a line for each request / without", samples, "logged", "mirror", "/s", at_least(0.85))
    samples = on_two_cores(run, filled)
    yield ratio(NAME, "E1 / hello, two cores", samples, "mirror", "hello", "/s")
    servers = {"waitress": ("under waitress, two cores", 3), "gunicorn": ("under gunicorn threads, two cores", 4)}
    yield from _against(samples, servers)


def _against(samples: Samples, peers: Mapping[str, tuple[str, float]]) -> Iterator[Figure]:
    """The figures of the peers that could be had."""
    for peer, (what, bound) in peers.items():
        if peer in samples:
            yield ratio(NAME, f"E1 / {what}", samples, "mirror", peer, "/s", at_least(bound))


def on_one_core(run: Run, filled: Filled) -> Samples:
    with ExitStack() as stack:
        start = stack.enter_context
        cores = run.cores.one
        requests = object_requests(filled)
        sides = {
            "mirror": partial(run.rate, start(mirror(run, filled, cores)), requests),
            "logged": partial(run.rate, start(mirror(run, filled, cores, "--access-log")), requests),
            "hello": partial(run.rate, start(hello(run, cores)), [get("/")]),
        }
        return alternate(sides, run.scale.rounds)


def on_two_cores(run: Run, filled: Filled) -> Samples:
    with ExitStack() as stack:
        cores = run.cores.two
        requests = object_requests(filled)
        sides = {
            "mirror": partial(run.rate, stack.enter_context(mirror(run, filled, cores)), requests),
            "hello": partial(run.rate, stack.enter_context(hello(run, cores)), [get("/")]),
        }
        for name in ("waitress", "gunicorn"):
            under = under_wsgi(run, filled, cores, name)
            run.add_peer(sides, name, lambda under=under: partial(run.rate, stack.enter_context(under), requests))
        return alternate(sides, run.scale.rounds)


def object_requests(filled: Filled) -> list[str]:
    """E1 of all devices, in an order that no cache of pages likes."""
    requests = [get(f"/v3/devices/{device_id}/echo", filled.key) for device_id in filled.device_ids]
    random.Random(0).shuffle(requests)
    return requests
