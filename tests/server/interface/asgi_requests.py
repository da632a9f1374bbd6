"""Requests through the bridge, on the event loop of a test."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

from mirror_server.config import Settings
from mirror_server.service import slow_reads
from mirror_server.service.slow_reads import SlowReadPool
from mirror_server.web.asgi_bridge import ASGIBridge


def scope_of(key: str, path: str, query: bytes = b"", method: str = "GET", **headers: str) -> dict[str, Any]:
    all_headers = {"authorization": f"Bearer {key}", "content-type": "application/json", **headers}
    return {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query,
        "http_version": "1.1",
        "scheme": "http",
        "headers": [(name.encode(), value.encode()) for name, value in all_headers.items()],
    }


class Request:
    """A request through the bridge. Its client stays connected until ``disconnected`` is set."""

    def __init__(
        self,
        bridge: ASGIBridge,
        key: str,
        path: str,
        query: bytes = b"",
        method: str = "GET",
        body: bytes | None = b"",
        **headers: str,
    ) -> None:
        """Send the request. With ``None`` as body, no body ever arrives."""
        self.sent: list[dict[str, Any]] = []
        self.disconnected = asyncio.Event()
        self._bodies = [] if body is None else [{"type": "http.request", "body": body, "more_body": False}]
        scope = scope_of(key, path, query, method, **headers)
        self.task = asyncio.ensure_future(bridge(scope, self._receive, self._send))

    async def _receive(self) -> dict[str, Any]:
        if self._bodies:
            return self._bodies.pop()
        await self.disconnected.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        self.sent.append(message)

    @property
    def status(self) -> int | None:
        return self.sent[0]["status"] if self.sent else None

    @property
    def headers(self) -> dict[str, str]:
        return {name.decode(): value.decode() for name, value in self.sent[0]["headers"]}

    @property
    def json(self) -> Any:
        return json.loads(b"".join(message.get("body", b"") for message in self.sent))

    async def begin(self) -> Self:
        """Let the request proceed as far as it can."""
        for _ in range(5):
            await asyncio.sleep(0)
        return self

    async def end(self) -> Self:
        await asyncio.wait_for(self.task, 60)
        return self

    async def leave(self) -> None:
        self.disconnected.set()
        await self.task


class Reader(Request):
    """A client that reads no response body until ``may_read`` is set."""

    def __init__(self, *args: Any) -> None:
        self.may_read = asyncio.Event()
        super().__init__(*args)

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.body":
            await self.may_read.wait()
        self.sent.append(message)


def append(server: Any, key: str, *bodies: Any, kind: str = "registrations") -> None:
    """Add entries to the log of an application in one transaction."""

    def work(session: Any) -> None:
        for body in bodies:
            server.services.log.append(session, kind, [(key.split("_")[1], "device", body)])

    server.services.database.write(work)


def limited_bridge(server: Any) -> tuple[ASGIBridge, str]:
    """Return a bridge with a low limit of unread bytes, and a key with a larger log."""
    bridge = ASGIBridge(server.app, Settings(max_body_bytes=1000, max_parked_polls=100, max_unread_bytes=100_000))
    key = server.key()
    server.add_device(key, "d")
    append(server, key, *({"ep": f"{number}-" + "x" * 10_000} for number in range(30)))
    return bridge, key


async def until(condition: Any) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.001)


def result_of(reads: SlowReadPool, read: Any) -> Any:
    """Return the result of a read and release it, so that the next one of the application starts."""
    try:
        return read.result(60)
    finally:
        reads.release(read)


@contextmanager
def busy(server: Any) -> Iterator[None]:
    """Keep all threads for slow reads busy."""
    pool, end, running = server.services.slow_reads, threading.Event(), threading.Semaphore(0)

    def read() -> bool:
        running.release()
        return end.wait(60)

    reads = [pool.submit(f"nobody-{number}", read) for number in range(slow_reads._THREADS)]
    try:
        # A thread may still be ending an earlier read of the same application, and then start another one first.
        assert all(running.acquire(timeout=60) for _ in reads)
        yield
    finally:
        end.set()
        assert all(result_of(pool, each) for each in reads)


async def check_off_the_loop(server: Any, bridge: ASGIBridge, key: str, path: str) -> None:
    """Check that a slow request runs off the event loop, which serves others meanwhile."""
    path, _, query = path.partition("?")
    with busy(server):
        slow = await Request(bridge, key, path, query.encode()).begin()
        quick = await Request(bridge, key, "/v3/devices").begin()
        assert (slow.status, quick.status) == (None, 200)
    assert (await slow.end()).status == 200
    await until(lambda: not server.services.slow_reads._slots.in_use)


def assert_429(request: Request, reason: str) -> None:
    assert (request.status, request.json["reason"]) == (429, reason)
