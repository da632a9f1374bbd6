"""Snapshots and ranges are built outside the event loop, which serves others meanwhile. Their number is limited."""

import gc
import itertools

import pytest
from asgi_requests import Reader, Request, busy, limited_bridge, until

from mirror_sdk.wire.routes import SNAPSHOT, SNAPSHOT_RANGES, TOTAL_HEADER
from mirror_server.config import Settings
from mirror_server.core.errors import ApiError
from mirror_server.views.deferred_responses import DeferredResponse
from mirror_server.web.asgi_bridge import ASGIBridge
from mirror_server.web.wsgi_adapter import Unfinished

pytestmark = pytest.mark.anyio

LIST = "/v3/devices"
LOOKED_UP = b"looked_up=default"


@pytest.fixture
async def bridge(server, bridge):
    """The bridge. At its end the server builds no more snapshots."""
    yield bridge
    services = server.services
    await until(lambda: not (services.slow_reads._slots.in_use or services.download_slots.in_use))


@pytest.mark.parametrize("path", [SNAPSHOT, SNAPSHOT_RANGES])
async def test_loop_serves_others_during_a_slow_query_of_devices(server, bridge, key, device, path):
    with busy(server):
        request = await Request(bridge, key, path, LOOKED_UP).begin()
        quick = await Request(bridge, key, LIST, b"named=lamp").begin()
        assert (request.status, quick.status) == (None, 200)
    await request.end()
    # Without a loop, the response is the same.
    with server.call(key, "GET", f"{path}?{LOOKED_UP.decode()}") as complete:
        assert request.status == 200
        assert b"".join(message.get("body", b"") for message in request.sent) == complete.get_data()
        assert {name.lower() for name, _ in complete.headers} <= {*request.headers, "content-length"}
        assert request.headers.get(TOTAL_HEADER.lower()) == complete.headers.get(TOTAL_HEADER)
    assert (request.headers["cache-control"], request.headers["x-content-type-options"]) == ("no-store", "nosniff")


@pytest.mark.parametrize("has_started", [False, True])
async def test_disconnected_client_leaves_no_state(server, bridge, key, device, has_started):
    with busy(server):
        request = await Request(bridge, key, SNAPSHOT, LOOKED_UP).begin()
        if not has_started:
            await request.leave()
    if has_started:
        # The result is available, and no one has read it.
        request.disconnected.set()
        await request.task


async def test_filtered_snapshot_that_no_client_reads_does_not_block_other_slow_reads(server):
    _, key = limited_bridge(server)
    bridge = ASGIBridge(server.app, Settings(max_body_bytes=1000, max_parked_polls=2))

    deaf = Reader(bridge, key, SNAPSHOT, LOOKED_UP)
    await until(lambda: bool(deaf.sent))
    assert (await Request(bridge, key, LIST, LOOKED_UP).end()).status == 200
    assert not deaf.task.done()
    deaf.may_read.set()
    await deaf.end()


async def test_rejected_snapshot_leaves_no_garbage(server, bridge, key, device):
    slots, app_ids = server.services.download_slots, itertools.cycle(("nobody-0", "nobody-1"))
    in_use = list(itertools.takewhile(lambda app_id: slots.acquire(app_id) is None, app_ids))
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        assert (await Request(bridge, key, SNAPSHOT, LOOKED_UP).end()).status == 429
        gc.collect()
        assert not [each for each in gc.garbage if isinstance(each, (Unfinished, DeferredResponse, ApiError))]
    finally:
        gc.set_debug(0)
        gc.enable()
        gc.garbage.clear()
        for app_id in in_use:
            slots.release(app_id)
