"""Snapshots and histories for clients that do not read them."""

import pytest
from asgi_requests import limited_bridge
from unread_responses import check_production_stops

from mirror_server.extensions.history.store import history
from mirror_server.extensions.history.store.history import StoredHistoryRow

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("path", ["/v3/device-echo", "/v3/device-echo/history"])
async def test_unread_snapshot_or_history_is_suspended(new_server, monkeypatch, path):
    server = new_server(keep_history_seconds=86_400)
    bridge, key = limited_bridge(server)
    device = server.add_device(key, "many", *({"path": f"/3303/{number}/5700", "value": "1"} for number in range(4000)))
    values = [
        StoredHistoryRow(
            10_000 + number, device, None, "/3303/0/5700", 0, 0, "reported", "read", b"x" * 1000, "text/plain"
        )
        for number in range(1000)
    ]
    server.services.database.write(lambda session: history.add(session, values))
    await check_production_stops(bridge, key, (path, b""), monkeypatch)
