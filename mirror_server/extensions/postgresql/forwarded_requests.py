"""The leader's side of forwarding, which processes the calls of other processes on the same database."""

from __future__ import annotations

import asyncio
import base64
import logging
import threading
from collections.abc import MutableMapping
from typing import Any

from mirror_server.extensions.postgresql.forwarding import Call, Forwarder, Reply
from mirror_server.extensions.postgresql.store import processes
from mirror_server.store.backend import DatabaseError
from mirror_server.store.database import Database
from mirror_server.views.requests import CALLER
from mirror_server.web.asgi_bridge import ASGIBridge

_log = logging.getLogger(__name__)


class ForwardedRequests:
    """Processes calls through the ASGI bridge on a separate event loop, so that parked polls need no thread.

    Args:
        database: The database of all processes.
        forwarder: The forwarder that stores the responses.
        bridge: The bridge that calls the app.
    """

    def __init__(self, database: Database, forwarder: Forwarder, bridge: ASGIBridge) -> None:
        self._database = database
        self._forwarder = forwarder
        self._bridge = bridge
        self._disconnected: dict[str, asyncio.Event] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="forwarded requests", daemon=True)
        self._thread.start()

    def handle(self, call_id: str) -> None:
        """See :class:`~mirror_server.extensions.postgresql.forwarding.Responder`."""
        self._loop.call_soon_threadsafe(self._start, call_id)

    def cancel(self, call_id: str) -> None:
        """See :class:`~mirror_server.extensions.postgresql.forwarding.Responder`."""
        self._loop.call_soon_threadsafe(self._cancel, call_id)

    def close(self) -> None:
        """See :class:`~mirror_server.extensions.postgresql.forwarding.Responder`."""
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _stop(self) -> None:
        # Parked polls end with a response now. The remaining calls are cancelled after two seconds.
        self._bridge.stop_waiting()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=2)
        for task in self._tasks:
            task.cancel()

    def _start(self, call_id: str) -> None:
        # After an interruption a call is announced again, while it may still be running here.
        if call_id in self._disconnected:
            return
        self._disconnected[call_id] = asyncio.Event()
        task = self._loop.create_task(self._respond(call_id))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _cancel(self, call_id: str) -> None:
        if call_id in self._disconnected:
            self._disconnected[call_id].set()

    async def _respond(self, call_id: str) -> None:
        try:
            request = self._database.query(lambda session: processes.call(session, call_id))
            if request is not None:
                reply = await self._run(Call.from_bytes(request), self._disconnected[call_id])
                # The call counts as running until its response is stored, so that it is not started again.
                stored = self._database.submit_durable(
                    lambda session: self._forwarder.store_response(session, call_id, reply), conflict_keys=(call_id,)
                )
                await asyncio.wrap_future(stored)
        except DatabaseError as error:
            _log.warning("the response to a call of another process could not be stored: %s", error)
        finally:
            del self._disconnected[call_id]

    async def _run(self, call: Call, disconnected: asyncio.Event) -> Reply:
        received: list[MutableMapping[str, Any]] = [{"type": "http.request", "body": base64.b64decode(call.body)}]
        sent: list[MutableMapping[str, Any]] = []

        async def receive() -> MutableMapping[str, Any]:
            if received:
                return received.pop()
            await disconnected.wait()
            return {"type": "http.disconnect"}

        async def send(message: MutableMapping[str, Any]) -> None:
            sent.append(message)

        await self._bridge(_scope(call), receive, send)
        if not sent:
            return Reply(503, [], b"")
        headers = [[name.decode("latin-1"), value.decode("latin-1")] for name, value in sent[0]["headers"]]
        return Reply(sent[0]["status"], headers, b"".join(message.get("body", b"") for message in sent[1:]))


def _scope(call: Call) -> MutableMapping[str, Any]:
    return {
        "type": "http",
        "method": call.method,
        "path": call.path,
        "query_string": call.query.encode("latin-1"),
        "http_version": "1.1",
        "scheme": "http",
        "client": (call.address, 0),
        "headers": [(name.encode("latin-1"), value.encode("latin-1")) for name, value in call.headers if value],
        CALLER: call,
    }
