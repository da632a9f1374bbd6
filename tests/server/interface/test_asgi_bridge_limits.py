"""The limits of the bridge: open polls, unread responses, and time per body and key."""

import asyncio
import itertools
from types import SimpleNamespace

import pytest
from asgi_requests import Reader, Request, append, assert_429, limited_bridge, until

from mirror_server.config import Settings
from mirror_server.views import notifications
from mirror_server.web.asgi_bridge import ASGIBridge
from mirror_server.web.fair_scheduler import FairScheduler

pytestmark = pytest.mark.anyio

MOST = 2
POLL = ("/v2/notification/pull", b"after=latest&hold=55")
WRITING = ("/v2/subscriptions", b"", "PUT")


@pytest.fixture
def bridge(server):
    return ASGIBridge(server.app, Settings(max_body_bytes=1000, max_parked_polls=MOST, request_timeout_seconds=0.05))


@pytest.fixture
def requests_take(monkeypatch):
    """Return a function that sets the duration of each request, all of it CPU time."""

    def take(seconds):
        read = itertools.accumulate(itertools.chain.from_iterable((0, 0, duration, 0) for duration in seconds)).__next__
        monkeypatch.setattr("mirror_server.web.asgi_bridge.time", SimpleNamespace(perf_counter=read, thread_time=read))

    return take


async def test_poll_beyond_the_limit_is_429_until_another_ends(server, bridge):
    polls = [await Request(bridge, server.key(), *POLL).begin() for _ in range(MOST)]
    assert [each.status for each in polls] == [None] * MOST
    assert_429(await Request(bridge, server.key(), *POLL).begin(), "TOO_MANY_POLLS")
    assert (await Request(bridge, server.key(), "/v3/devices").begin()).status == 200
    await polls[0].leave()
    again = await Request(bridge, server.key(), *POLL).begin()
    assert again.status is None
    for each in (polls[1], again):
        await each.leave()


async def test_one_application_gets_a_share_of_the_polls(server):
    bridge = ASGIBridge(server.app, Settings(max_body_bytes=1000, max_parked_polls=4, poll_share=0.5))
    greedy, other = server.key(), server.key()

    polls = [await Request(bridge, greedy, *POLL).begin() for _ in range(2)]
    rejected = await Request(bridge, greedy, *POLL).begin()
    assert_429(rejected, "TOO_MANY_POLLS")
    assert "this key has 2 open polls, streams and websockets" in rejected.json["message"]
    assert (await Request(bridge, greedy, "/v3/devices").begin()).status == 200
    polls.append(await Request(bridge, other, *POLL).begin())
    await polls.pop(0).leave()
    polls.append(await Request(bridge, greedy, *POLL).begin())
    assert [each.status for each in polls] == [None] * 3
    for each in polls:
        await each.leave()


@pytest.mark.parametrize("query", [b"after=0&hold=0", b"hold=0"])
async def test_application_with_unread_responses_gets_429_until_it_reads_them(server, query):
    bridge, key = limited_bridge(server)

    deaf = Reader(bridge, key, "/v2/notification/pull", query)
    await until(lambda: bridge.backpressure.total_bytes > 100_000)
    for path in (("/v2/notification/pull", b"after=0&hold=0"), POLL):
        rejected = await Request(bridge, key, *path).begin()
        assert_429(rejected, "TOO_MUCH_UNREAD")
        assert rejected.headers["retry-after"] == "1"
    assert (await Request(bridge, server.key(), "/v3/devices").begin()).status == 200
    deaf.may_read.set()
    await deaf.end()
    assert max(len(message.get("body", b"")) for message in deaf.sent) <= 64 * 1024
    assert len(deaf.json["registrations"]) >= 30
    assert bridge.backpressure.total_bytes == 0
    assert (await Request(bridge, key, "/v3/devices").begin()).status == 200


async def test_other_keys_are_served_between_large_responses_of_one_key(server):
    _, key = limited_bridge(server)
    bridge = ASGIBridge(server.app, Settings(max_body_bytes=1000, max_parked_polls=100))
    order = []

    other = server.key()
    large = [Request(bridge, key, "/v2/notification/pull", b"after=0&hold=0") for _ in range(5)]
    between = Request(bridge, other, "/v3/devices")
    for each in (*large, between):
        each.task.add_done_callback(lambda _, each=each: order.append(each))
    await asyncio.gather(*(each.task for each in (*large, between)))
    assert {each.status for each in large} == {200}
    assert order.index(between) <= 1


async def test_polls_woken_together_get_responses_within_the_unread_limit_and_the_rest_later(server):
    bridge, key = limited_bridge(server)
    body = {"ep": "y" * 60_000}

    polls = [await Reader(bridge, key, *POLL).begin() for _ in range(5)]
    append(server, key, body)
    await until(lambda: bridge.backpressure.total_bytes > 100_000)
    for _ in range(20):
        await asyncio.sleep(0)
    assert sum(each.status == 200 for each in polls) == 2
    for each in polls:
        each.may_read.set()
    assert [(await each.end()).json["registrations"][0]["ep"] for each in polls] == [body["ep"]] * 5


async def test_long_pages_are_not_read_while_responses_are_unread(server, monkeypatch):
    monkeypatch.setattr(notifications, "_QUICK_ENTRIES", 5)
    # All arrive before the first response is sent, even on a slow machine.
    monkeypatch.setattr("mirror_server.web.fair_scheduler._MAX_SECONDS", 60)
    bridge, key = limited_bridge(server)
    read, started, pages = server.services.log.read, [], []

    def note(app_id, after, *most):
        started.append(after)
        pages.append(read(app_id, after, *most))
        return pages[-1]

    monkeypatch.setattr(server.services.log, "read", note)

    deaf = [Reader(bridge, key, "/v2/notification/pull", b"after=0&hold=0") for _ in range(5)]
    await until(lambda: bridge.backpressure.total_bytes > 100_000)
    await until(lambda: len(pages) == len(started))
    # One response that waits to be read, and one for later.
    assert sum(len(page.entries) >= 30 for page in pages) <= 2
    for each in deaf:
        each.may_read.set()
    assert all([len((await each.end()).json["registrations"]) >= 30 for each in deaf])


async def test_poll_gets_its_response_at_once_when_the_server_stops(server, bridge, monkeypatch):
    monkeypatch.setattr("mirror_server.web.asgi_bridge._LAST_SECONDS", 60)

    request = await Request(bridge, server.key(), *POLL).begin()
    bridge.stop_waiting()
    assert (await request.end()).status == 204


async def test_body_that_does_not_arrive_is_408_and_closes_the_connection(server, bridge):
    slow = await Request(bridge, server.key(), "/v2/subscriptions", method="PUT", body=None).end()
    assert (slow.status, slow.json["type"]) == (408, "request_timeout")
    assert slow.headers["connection"] == "close"


@pytest.mark.parametrize("leaves_first", [True, False])
async def test_entry_added_as_a_client_disconnects_is_in_its_next_plain_poll(server, bridge, key, leaves_first):
    poll = ("/v2/notification/pull", b"hold=20")

    request = await Request(bridge, key, *poll).begin()
    if leaves_first:
        request.disconnected.set()
    append(server, key, {"ep": "device"})
    request.disconnected.set()
    await request.end()
    assert request.sent == []
    assert (await Request(bridge, key, *poll).end()).json == {"registrations": [{"ep": "device"}]}


@pytest.mark.parametrize(
    ("body", "seconds", "before"), [(b" " * 100_000, 0.001, 1), (b"", 0.01, 1), (b"", 0.0015, 2), (b"", 0.0005, 3)]
)
async def test_large_or_many_requests_of_one_key_do_not_block_other_keys(
    server, key, requests_take, body, seconds, before
):
    requests_take(itertools.repeat(seconds))
    bridge = ASGIBridge(server.app, Settings(max_body_bytes=1_000_000, max_parked_polls=MOST))
    sent, completed = {"first": key, "second": key, "third": key, "other": server.key()}, []
    for number, (name, by) in enumerate(sent.items()):
        # A key is one application, with any number of blanks before it.
        request = Request(bridge, f"{' ' * number}{by}", *WRITING, body=body)
        request.task.add_done_callback(lambda _, name=name: completed.append(name))
    await until(lambda: len(completed) == len(sent))
    assert [name for name in completed if name != "other"] == ["first", "second", "third"]
    assert completed.index("other") == before


async def test_requests_woken_too_early_wait_again_and_keep_their_order():
    """The first request makes the others wait. Of those woken together, one is large and one is disconnected."""
    loop, large, disconnected, pause_seconds = asyncio.get_running_loop(), 3, 6, 0.05
    scheduler, served_at = FairScheduler(loop), {}

    async def serve(number):
        await scheduler.turn({})
        served_at[number] = loop.time()
        scheduler.count({}, 0.01 if number == 0 else 0, pause_seconds=pause_seconds if number == large else 0)
        if number == large:
            # As after a large response, which does not end the pause.
            scheduler.pause({})

    tasks = [asyncio.create_task(serve(number)) for number in range(40)]
    await until(lambda: served_at)
    tasks[disconnected].cancel()
    await until(lambda: large in served_at)
    # Without a key, requests of another address do not wait for these.
    await scheduler.turn({"REMOTE_ADDR": "192.0.2.1"})
    assert large + 1 not in served_at
    tasks.append(asyncio.create_task(serve(40)))
    await asyncio.wait(tasks)
    assert list(served_at) == [number for number in range(41) if number != disconnected]
    assert served_at[large + 1] - served_at[large] >= pause_seconds
    await serve(41)


async def test_next_large_body_of_a_key_waits_as_long_as_the_previous_one_ran(server, key, requests_take):
    requests_take(itertools.repeat(1000))
    bridge, body = ASGIBridge(server.app, Settings(max_body_bytes=1_000_000, max_parked_polls=MOST)), b" " * 100_000

    large = [Request(bridge, key, *WRITING, body=body) for _ in range(2)]
    other = await Request(bridge, server.key(), "/v3/devices", b"looked_up=x").end()
    assert (large[0].status, large[1].status, other.status) == (400, None, 200)
    bridge.stop_waiting()
    assert (await large[1].end()).status == 400


async def test_key_paused_on_one_loop_is_served_on_another(server, key, requests_take):
    requests_take(itertools.repeat(1000))
    bridge = ASGIBridge(server.app, Settings(max_body_bytes=1_000_000, max_parked_polls=MOST))

    async def send():
        return (await Request(bridge, key, "/v3/devices").end()).status

    await Request(bridge, key, *WRITING, body=b" " * 100_000).end()
    assert await asyncio.to_thread(asyncio.run, send()) == 200
