"""Snapshots and histories of clients that take nothing of them."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
from bridge_requests import Reader, small_room, until

from mirror_server.extensions.history.store import history
from mirror_server.extensions.history.store.history import HistoryRow

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("path", ["/v3/device-echo", "/v3/device-echo/history"])
async def test_snapshot_or_history_that_no_client_takes_is_made_no_further(new_server, monkeypatch, path):
    server = new_server(keep_history_seconds=86_400)
    bridge, key = small_room(server)
    device = server.add_device(key, "many", *({"path": f"/3303/{number}/5700", "value": "1"} for number in range(4000)))
    values = [
        HistoryRow(10_000 + number, device, None, "/3303/0/5700", 0, 0, "reported", "read", b"x" * 1000, "text/plain")
        for number in range(1000)
    ]
    server.services.database.write(lambda session: history.add(session, values))
    made = []

    class Threads(ThreadPoolExecutor):
        def submit(self, *work):
            made.append(super().submit(*work))
            return made[-1]

    with Threads(8) as threads:
        monkeypatch.setattr("mirror_server.views.download._THREADS", threads)
        deaf = [Reader(bridge, key, path) for _ in range(3)]
        await until(lambda: all(each.sent for each in deaf) and bridge.unread_bytes > 100_000)
        # What is being made counts as much as it may become. When it is there, there may be room for the next.
        count = None
        while count != len(made):
            count = len(made)
            await until(lambda: all(each.done() for each in made))
            for _ in range(20):
                await asyncio.sleep(0)
        assert len(made) <= len(deaf)
        # It began when there was room, and what it makes next waits for the client.
        assert 100_000 < bridge.unread_bytes < 1_000_000
        for each in deaf:
            each.takes.set()
            each.gone.set()
            await each.end()
        assert bridge.unread_bytes == 0
