"""The effect of malicious programs on others: memory of the server, and how long others wait.

One connection without a key sends endless headers, or many requests without reading a response. Many connections of one
key request large pages and read none of them. Meanwhile another client polls the health of the server. The figure for
memory is the maximum of the server minus what it had before. Afterwards, the same must be possible again.

Then many connections of one key repeat the most expensive request that the description of each route allows. Meanwhile
another key reads a device object (E1), and lists devices by an attribute, which is a slow read. A search over the
parameters of all routes found the requests: those that scan most, return most or are largest.
"""

from __future__ import annotations

import multiprocessing
import select
import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from functools import partial
from typing import cast

import orjson
from children import Server
from filling import Filled, fill
from machine import allow_many_connections, most_resident_bytes, resident_bytes
from measuring import Figure, at_most, in_requests
from run_settings import Run, get, post
from serving import mirror

from mirror_sdk.wire.routes import HISTORY, SNAPSHOT, SNAPSHOT_RANGES
from mirror_server.core.messages import NOTIFICATIONS
from mirror_server.hooks import open_database
from mirror_server.service import keys
from mirror_server.store import logs

NAME = "malicious"
_MIB = 1 << 20
_ENTRY_BYTES = 4000
_ENTRIES = 1100
_POLL_SECONDS = 0.01
_EXPENSIVE_CONNECTIONS = 40
_MOST_LOG_ENTRIES = 20_000


def measure(run: Run) -> Iterator[Figure]:
    allow_many_connections()
    filled = fill(run.folder / "malicious.db", device_count=1, resource_count=1)
    fill_log(filled)
    page = get("/v2/notification/pull?after=0&hold=0", filled.key).encode()
    attacks: dict[str, Callable[[Server], None]] = {
        f"{run.scale.flood_mib} MiB of headers without a key": partial(flood, mib=run.scale.flood_mib, piece=_HEADERS),
        f"{run.scale.flood_mib} MiB of requests without a key": partial(
            flood, mib=run.scale.flood_mib, piece=_REQUESTS
        ),
        f"{run.scale.deaf} connections that take no page": partial(
            leave_unread, request=page, count=run.scale.deaf, seconds=2 * run.scale.seconds
        ),
    }
    for what, attack in attacks.items():
        with mirror(run, filled, run.cores.one) as server:
            request_ms = run.requests_ms(server)
            grown_mib, slowest_ms = watch(server, attack)
        yield Figure(NAME, f"{what}: memory", grown_mib, "MiB", at_most(64))
        yield in_requests(NAME, f"{what}: slowest response to another", slowest_ms, request_ms, at_most(1500))
    yield from measure_expensive(run)


def measure_expensive(run: Run) -> Iterator[Figure]:
    """Measure how long another key waits while one key sends the most expensive requests."""
    filled = fill(
        run.folder / "expensive.db",
        device_count=run.scale.loop_devices,
        resource_count=2,
        log_entries=min(_MOST_LOG_ENTRIES, run.scale.log_entries),
    )
    with closing(open_database(filled.url)) as database:
        other = keys.create(database, "other", keys.DEFAULT_SCOPES, int(time.time() * 1000))
    others = {
        "E1": get(f"/v3/devices/{filled.device_ids[0]}/echo", other),
        "list by an attribute": get("/v3/devices?custom_attributes__room=B12", other),
    }
    slowest_ms = dict.fromkeys(others, 0.0)
    with mirror(run, filled, run.cores.one, "--simulate", "0", "--keep-history", "30d") as server:
        request_ms = run.requests_ms(server)
        for request in expensive(filled):
            # A separate process, so that it takes no time from this one.
            attacking = multiprocessing.Process(target=repeat, args=(server, request.encode(), run.scale.seconds))
            for _ in until_over(attacking):
                for what, harmless in others.items():
                    began = time.perf_counter()
                    send(server, harmless)
                    slowest_ms[what] = max(slowest_ms[what], 1000 * (time.perf_counter() - began))
    for what, milliseconds in slowest_ms.items():
        # That is 250 ms if a bare request takes 0.25 ms.
        name = f"expensive requests: slowest {what} of another key"
        yield in_requests(NAME, name, milliseconds, request_ms, at_most(1000))


def expensive(filled: Filled) -> list[str]:
    """Yield the most expensive requests of the routes that can take more than a millisecond."""
    key, ids = filled.key, filled.device_ids
    unequal = "&".join(f"endpoint_type__neq=x{number}" for number in range(88))
    looked_up = "&".join("etag__gte=2000-01-01T00:00:00Z" for _ in range(10))
    most = "limit=1000&include=total_count"
    rules = orjson.dumps(
        [
            {"endpoint-name": f"n{rule}", "resource-path": [f"/{rule}/{number}/5" for number in range(60)]}
            for rule in range(1000)
        ]
    )
    return [
        get(f"/v3/devices?{unequal}&endpoint_type__neq=Sensor&include=total_count", key),
        get(f"/v3/devices?{unequal}&{most}", key),
        get(f"/v3/devices?{unequal}&{looked_up}&{most}", key),
        get(f"/v3/devices?id__in={','.join(ids[:900])}&{most}", key),
        get(f"/v3/device-queries?{'&'.join(f'query__neq=x{number}' for number in range(98))}&{most}", key),
        get(f"/v3/device-events?{'&'.join(['event_type__neq=expired'] * 98)}&{most}", key),
        get(f"{SNAPSHOT}?{unequal}&{looked_up}", key),
        get(f"{SNAPSHOT_RANGES}?{unequal}&{looked_up}", key),
        get(f"{HISTORY}?{unequal}&{looked_up}", key),
        get("/v2/endpoints", key),
        get("/v2/limits", key),
        get("/v2/notification/pull?after=0&hold=0", key),
        post("/v2/subscriptions", key, rules.decode()).replace("POST", "PUT", 1),
    ]


def repeat(server: Server, request: bytes, seconds: float) -> None:
    """Send a request on many connections, and again on each when its response begins."""
    with ExitStack() as stack:
        selector = stack.enter_context(selectors.DefaultSelector())
        for _ in range(_EXPENSIVE_CONNECTIONS):
            connection = stack.enter_context(closing(socket.create_connection(("127.0.0.1", server.port))))
            connection.sendall(request)
            selector.register(connection, selectors.EVENT_READ)
        end_at = time.monotonic() + seconds
        while (left := end_at - time.monotonic()) > 0:
            for key, _ in selector.select(left):
                connection = cast("socket.socket", key.fileobj)
                received = connection.recv(1 << 20)
                if not received:
                    selector.unregister(connection)
                elif received.startswith(b"HTTP/1.1 "):
                    connection.sendall(request)


_HEADERS = b"".join(b"X-%d: %s\r\n" % (number, b"a" * 90) for number in range(600))
_REQUESTS = b"GET /v3/devices HTTP/1.1\r\nHost: x\r\n\r\n" * 1500


def fill_log(filled: Filled) -> None:
    """Fill the log of the key's application until one page has the maximum size."""
    app_id = filled.key.split("_")[1]
    body = orjson.dumps({"ep": filled.device_ids[0], "path": filled.paths[0], "payload": "A" * _ENTRY_BYTES})
    entries = [(filled.device_ids[0], body)] * _ENTRIES
    with closing(open_database(filled.url)) as database:
        database.write(
            lambda session: logs.append(
                session, app_id, entries, kind=NOTIFICATIONS, at=int(time.time() * 1000), read_seq=0
            )
        )


def watch(server: Server, attack: Callable[[Server], None]) -> tuple[float, float]:
    """Measure the memory that the server allocates during an attack, and the longest wait of another client."""
    send(server, get("/healthz"))
    before = resident_bytes(server.pid)
    slowest = 0.0
    attacking = threading.Thread(target=attack, args=(server,))
    for _ in until_over(attacking):
        began = time.perf_counter()
        send(server, get("/healthz"))
        slowest = max(slowest, time.perf_counter() - began)
    return max(most_resident_bytes(server.pid) - before, 1) / _MIB, 1000 * slowest


def until_over(attack: threading.Thread | multiprocessing.Process) -> Iterator[None]:
    """Start an attack, and yield repeatedly, at least once, until it is over."""
    attack.start()
    yield
    while attack.is_alive():
        attack.join(_POLL_SECONDS)
        yield


def send(server: Server, request: str) -> None:
    with closing(socket.create_connection(("127.0.0.1", server.port), timeout=60)) as connection:
        connection.sendall(request.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n").encode())
        while connection.recv(65536):
            pass


def flood(server: Server, *, mib: int, piece: bytes) -> None:
    """Send data on one connection, without reading, until the server closes it or reads nothing for a second."""
    with closing(socket.create_connection(("127.0.0.1", server.port))) as connection, suppress(OSError):
        connection.sendall(b"" if piece is _REQUESTS else b"GET / HTTP/1.1\r\nHost: x\r\n")
        connection.settimeout(1)
        for _ in range(mib * _MIB // len(piece)):
            connection.sendall(piece)


def leave_unread(server: Server, *, request: bytes, count: int, seconds: float) -> None:
    """Send requests on many connections repeatedly, and read nothing."""
    with ExitStack() as stack:
        connections = []
        for _ in range(count):
            connection = stack.enter_context(closing(socket.socket()))
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect(("127.0.0.1", server.port))
            connection.setblocking(False)
            connections.append(connection)
        end_at = time.monotonic() + seconds
        while time.monotonic() < end_at:
            for connection in connections:
                with suppress(OSError):
                    connection.send(request)
            select.select([], [], [], 0.1)
