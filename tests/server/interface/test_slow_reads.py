"""Slow queries run off the event loop, which serves others meanwhile. Their number is limited."""

import asyncio
import gc
import threading
from functools import partial

import pytest
from asgi_requests import Request, append, busy, result_of, until
from device_resources import setting

from mirror_server.core.errors import ApiError
from mirror_server.service import slow_reads
from mirror_server.service.slow_reads import SlowReadPool
from mirror_server.store.conditions import Condition
from mirror_server.views import notifications, responses
from mirror_server.views.deferred_responses import DeferredResponse
from mirror_server.web.wsgi_adapter import Unfinished

pytestmark = pytest.mark.anyio

LIST, PULL = "/v3/devices", "/v2/notification/pull"
LOOKED_UP = b"looked_up=default"


@pytest.fixture
def device(server, key):
    server.add_device(key, "other")
    return server.add_device(key, "lamp")


@pytest.fixture
async def bridge(server, bridge):
    """The bridge. At its end the server has no slow read left."""
    yield bridge
    services = server.services
    await until(lambda: not (services.slow_reads._slots.in_use or services.download_slots.in_use))


@pytest.fixture
def long_log(server, key):
    """Add more notifications than are read on the loop; return their number."""
    count = notifications._QUICK_ENTRIES + 1
    append(server, key, *({"ep": f"d{number}"} for number in range(count)), kind="reg-updates")
    return count


async def test_loop_serves_others_during_a_slow_query(server, bridge, key, device):
    with busy(server):
        slow = await Request(bridge, key, LIST, LOOKED_UP).begin()
        quick = await Request(bridge, key, LIST, b"named=lamp").begin()
        assert (slow.status, quick.status) == (None, 200)
    await slow.end()
    # Without a loop the response is the same.
    with server.call(key, "GET", f"{LIST}?{LOOKED_UP.decode()}") as complete:
        assert slow.status == 200
        assert b"".join(message.get("body", b"") for message in slow.sent) == complete.get_data()
        assert {name.lower() for name, _ in complete.headers} <= {*slow.headers, "content-length"}


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("/v3/devices/{}/echo", b""),
        ("/v2/endpoints/{}", b""),
        (PULL, b"after=0&hold=0"),
        (PULL, b"hold=55"),
    ],
)
async def test_loop_serves_others_while_a_long_response_is_encoded(server, bridge, key, device, long_log, path, query):
    resources = [setting(f"/3303/{number}/5700", "1") for number in range(400)]
    large = server.add_device(key, "large", *resources)
    with busy(server):
        slow = await Request(bridge, key, path.format(large), query).begin()
        small = await Request(bridge, key, (path if "{}" in path else LIST).format(device)).begin()
        assert (slow.status, small.status) == (None, 200)
    await slow.end()
    assert slow.status == 200
    if path == PULL:
        assert len(slow.json["reg-updates"]) == long_log


@pytest.mark.parametrize("has_started", [False, True])
async def test_disconnected_client_leaves_no_waiting_read(server, bridge, key, device, has_started):
    with busy(server):
        slow = await Request(bridge, key, LIST, LOOKED_UP).begin()
        if not has_started:
            await slow.leave()
    if has_started:
        # The result is available and was not read.
        slow.disconnected.set()
        await slow.task


async def test_one_application_gets_a_share_of_the_slow_reads(server, bridge, key, device):
    with busy(server):
        most = slow_reads._MAX_WAITING // 2
        waiting = [await Request(bridge, key, LIST, LOOKED_UP).begin() for _ in range(most)]
        rejected = await Request(bridge, key, LIST, LOOKED_UP).begin()
        assert rejected.status == 429
        error = rejected.json
        assert error["reason"] == "TOO_MANY_QUESTIONS"
        assert f"this key has {most} slow reads waiting or running" in error["message"]
        assert (await Request(bridge, key, LIST, b"named=lamp").begin()).status == 200
        other = await Request(bridge, server.key(), LIST, LOOKED_UP).begin()
        assert other.status is None
    for each in (*waiting, other):
        await each.end()
        assert each.status == 200


async def test_slow_query_times_out_with_503_or_401_if_the_key_was_revoked(server, bridge, key, device, monkeypatch):
    with busy(server):
        queued = await Request(bridge, key, LIST, LOOKED_UP).begin()
        monkeypatch.setattr(responses, "_READ_TIMEOUT_SECONDS", 0)
        late = await Request(bridge, key, LIST, LOOKED_UP).end()
        assert late.status == 503
        assert "fewer filters" in late.json["message"]
        await asyncio.to_thread(server.revoke, key)
    assert (await queued.end()).status == 401


def test_applications_take_turns_with_slow_reads(server, monkeypatch):
    monkeypatch.setattr(slow_reads, "_THREADS", 1)
    reads = server.services.slow_reads = SlowReadPool(share=1)
    started = []
    with busy(server):
        many = [reads.submit("many", partial(started.append, f"many {number}")) for number in range(5)]
        canceled = reads.submit("many", partial(started.append, "canceled"))
        few = [reads.submit("few", partial(started.append, f"few {number}")) for number in range(2)]
        reads.release(canceled)
    for each in (many[0], few[0], many[1], few[1], *many[2:]):
        result_of(reads, each)
    assert started == ["many 0", "few 0", "many 1", "few 1", "many 2", "many 3", "many 4"]
    assert not reads._waiting
    assert not reads._busy


def test_reads_of_one_application_leave_a_thread_for_others(server):
    reads, end = server.services.slow_reads, threading.Event()
    waiting = [reads.submit("many", lambda: end.wait(60)) for _ in range(slow_reads._THREADS)]
    try:
        assert result_of(reads, reads.submit("few", lambda: "read")) == "read"
        assert not waiting[-1].running()
    finally:
        end.set()
    assert all(result_of(reads, each) for each in waiting)


def test_read_released_while_running_frees_its_turn_when_it_ends(server):
    reads, has_started, end = server.services.slow_reads, threading.Event(), threading.Event()

    def read():
        has_started.set()
        return end.wait(60)

    left = reads.submit("one", read)
    assert has_started.wait(60)
    for _ in range(2):
        reads.release(left)
    following = reads.submit("one", lambda: "read")
    assert not following.running()
    end.set()
    assert result_of(reads, following) == "read"


def test_failing_read_raises_and_frees_its_turn(server):
    reads = server.services.slow_reads
    with pytest.raises(ZeroDivisionError):
        result_of(reads, reads.submit("one", lambda: 1 / 0))
    assert result_of(reads, reads.submit("one", lambda: "read")) == "read"


async def test_plain_poll_of_a_disconnected_client_does_not_move_the_position(server, bridge, key, long_log):
    with busy(server):
        slow = await Request(bridge, key, PULL, b"hold=0").begin()
        await slow.leave()
    again = await Request(bridge, key, PULL, b"hold=0").begin()
    await again.end()
    assert len(again.json["reg-updates"]) == long_log


def condition(column="endpoint_type", comparison="NOT IN", values=1):
    is_unique = column in {"device_id", "endpoint_name"}
    return Condition(column, comparison, tuple(map(str, range(values))), is_unique=is_unique)


@pytest.mark.parametrize(
    ("conditions", "rows", "options", "is_long"),
    [
        ([], 10_000, {"returned": 50, "counts": True}, False),
        ([], 10_000, {"returned": 1000}, True),
        ([], 1_000_000, {"counts": True}, True),
        ([condition()], 100_000, {"returned": 50}, True),
        ([condition()] * 98, 10_000, {}, True),
        ([condition()] * 20, 100, {"returned": 50}, False),
        ([condition("endpoint_name", "IN")], 1_000_000, {"returned": 50, "counts": True}, False),
        ([condition("device_id", "IN", 990)], 10_000, {"returned": 1000}, True),
        ([condition("(SELECT 1)")], 1, {}, True),
    ],
)
def test_slow_queries_are_recognized_by_their_estimated_time(conditions, rows, options, is_long):
    assert slow_reads.is_slow_read(conditions, rows=rows, **options) is is_long


async def test_completed_requests_leave_no_garbage(server, bridge, key, device):
    rejected = (f"/v2/device-requests/{device}", b"async-id=x", "POST", b'{"method":"GET","uri":"/1/2/3"}')
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        slow = [Request(bridge, key, *each) for each in ((LIST,), (LIST, LOOKED_UP), rejected)]
        assert [(await each.end()).status for each in slow] == [200, 200, 400]
        del slow
        # The writer thread references the last change until the next one.
        server.services.database.submit(lambda _: None).result(60)
        gc.collect()
        assert not [each for each in gc.garbage if isinstance(each, (Unfinished, DeferredResponse, ApiError))]
    finally:
        gc.set_debug(0)
        gc.enable()
        gc.garbage.clear()
