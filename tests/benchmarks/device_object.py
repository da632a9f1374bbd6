"""E1, a device with 20 resources, with authentication: against hello, and the same app on other servers.

``hello`` is a Flask app on the mirror's own web server, which is the minimum cost of a request. waitress and gunicorn
run the same app with a thread for each connection. No side logs requests; the cost of a log line in the mirror is a
separate figure.

CPU time per request: hello takes 92 us, a route without authentication 80 us, E1 124 us. Profile under this load
(py-spy, 300 samples a second of the server's main thread):

- uvicorn 23 %
- Werkzeug 19 %: routing, headers, the response
- what surrounds every request 16 %: key, request id, metrics
- the bridge from ASGI to WSGI 11 %
- Flask 9 %
- uvloop and sockets 8 %
- JSON and views 8 %; the object itself is stored encoded
- SQLite 6 %: one check whether anything was committed

Changes that helped, of 161 us: one check of the database's version instead of one for the key and one for the device's
revision (9 us); a URL adapter that only reads the path (6 us); complete responses that are sent without Werkzeug's copy
of their headers (6 us). These were measured in one process, where everything costs less than under load. Earlier ones:
single statements instead of a transaction each, the entity tag stored with the encoded object, no sessions, no check
for coroutines.

Changes that were not worth their price: a lookup table of metrics, request ids without a system call (both below what
can be measured), a frozen or disabled garbage collector. Flask's own loops over the functions around a request cost
8 us. Replacing them would not have survived the next version of Flask. Resolving the proxies of the request once gained
nearly as much.

A log line for each request cost 83 us (53 us in JSON). Most of it was structlog and the standard logging: finding the
caller (12 us), creating a record (9 us) and passing it on (8 us). Writing the line directly costs 17 us (13 us), a
quarter of which is the system call.
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
    """Compare the mirror with the peers that are available."""
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
    """Return requests for the objects of all devices, in random order, which defeats page caches."""
    requests = [get(f"/v3/devices/{device_id}/echo", filled.key) for device_id in filled.device_ids]
    random.Random(0).shuffle(requests)
    return requests
