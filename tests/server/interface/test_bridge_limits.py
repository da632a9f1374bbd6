"""What the bridge bounds: the polls that are parked, and the time a body may take."""

import asyncio
import itertools
from types import SimpleNamespace

import pytest
from bridge_requests import Reader, Request, append, assert_refused, small_room, until

from mirror_server.config import Settings
from mirror_server.views import notifications
from mirror_server.web.bridge import Bridge
from mirror_server.web.shares import Shares

pytestmark = pytest.mark.anyio

MOST = 2
POLL = ("/v2/notification/pull", b"after=latest&hold=55")
WRITING = ("/v2/subscriptions", b"", "PUT")


@pytest.fixture
def bridge(server):
    return Bridge(server.app, Settings(max_body_bytes=1000, max_parked_polls=MOST, request_timeout_seconds=0.05))


@pytest.fixture
def requests_take(monkeypatch):
    """Has requests take so many seconds each, of which this thread works all."""

    def take(seconds):
        read = itertools.accumulate(itertools.chain.from_iterable((0, 0, taken, 0) for taken in seconds)).__next__
        monkeypatch.setattr("mirror_server.web.bridge.time", SimpleNamespace(perf_counter=read, thread_time=read))

    return take


async def test_one_poll_too_many_is_429_until_another_has_left(server, bridge):
    held = [await Request(bridge, server.key(), *POLL).begin() for _ in range(MOST)]
    assert [each.status for each in held] == [None] * MOST
    assert_refused(await Request(bridge, server.key(), *POLL).begin(), "TOO_MANY_POLLS")
    assert (await Request(bridge, server.key(), "/v3/devices").begin()).status == 200
    await held[0].leave()
    again = await Request(bridge, server.key(), *POLL).begin()
    assert again.status is None
    for each in (held[1], again):
        await each.leave()


async def test_one_application_has_a_share_of_the_places(server):
    bridge = Bridge(server.app, Settings(max_body_bytes=1000, max_parked_polls=4, poll_share=0.5))
    greedy, other = server.key(), server.key()

    held = [await Request(bridge, greedy, *POLL).begin() for _ in range(2)]
    refused = await Request(bridge, greedy, *POLL).begin()
    assert_refused(refused, "TOO_MANY_POLLS")
    assert "2 polls, streams and websockets are open with this key" in refused.json["message"]
    assert (await Request(bridge, greedy, "/v3/devices").begin()).status == 200
    held.append(await Request(bridge, other, *POLL).begin())
    await held.pop(0).leave()
    held.append(await Request(bridge, greedy, *POLL).begin())
    assert [each.status for each in held] == [None] * 3
    for each in held:
        await each.leave()


@pytest.mark.parametrize("query", [b"after=0&hold=0", b"hold=0"])
async def test_client_that_leaves_responses_unread_gets_no_more_until_it_takes_them(server, query):
    bridge, key = small_room(server)

    deaf = Reader(bridge, key, "/v2/notification/pull", query)
    await until(lambda: bridge.backpressure.total_bytes > 100_000)
    for path in (("/v2/notification/pull", b"after=0&hold=0"), POLL):
        refused = await Request(bridge, key, *path).begin()
        assert_refused(refused, "TOO_MUCH_UNREAD")
        assert refused.headers["retry-after"] == "1"
    assert (await Request(bridge, server.key(), "/v3/devices").begin()).status == 200
    deaf.takes.set()
    await deaf.end()
    assert max(len(message.get("body", b"")) for message in deaf.sent) <= 64 * 1024
    assert len(deaf.json["registrations"]) >= 30
    assert bridge.backpressure.total_bytes == 0
    assert (await Request(bridge, key, "/v3/devices").begin()).status == 200


async def test_others_are_served_between_the_large_responses_of_one_key(server):
    _, key = small_room(server)
    bridge = Bridge(server.app, Settings(max_body_bytes=1000, max_parked_polls=100))
    order = []

    other = server.key()
    large = [Request(bridge, key, "/v2/notification/pull", b"after=0&hold=0") for _ in range(5)]
    between = Request(bridge, other, "/v3/devices")
    for each in (*large, between):
        each.task.add_done_callback(lambda _, each=each: order.append(each))
    await asyncio.gather(*(each.task for each in (*large, between)))
    assert {each.status for each in large} == {200}
    assert order.index(between) <= 1


async def test_polls_that_wake_together_are_answered_as_far_as_there_is_room_and_the_others_later(server):
    bridge, key = small_room(server)
    body = {"ep": "y" * 60_000}

    held = [await Reader(bridge, key, *POLL).begin() for _ in range(5)]
    append(server, key, body)
    await until(lambda: bridge.backpressure.total_bytes > 100_000)
    for _ in range(20):
        await asyncio.sleep(0)
    assert sum(each.status == 200 for each in held) == 2
    for each in held:
        each.takes.set()
    assert [(await each.end()).json["registrations"][0]["ep"] for each in held] == [body["ep"]] * 5


async def test_long_pages_that_no_client_takes_are_not_read(server, monkeypatch):
    monkeypatch.setattr(notifications, "_QUICK_ENTRIES", 5)
    # All come in before the answer to one waits to be taken, however slow the machine is.
    monkeypatch.setattr("mirror_server.web.shares._MAX_SECONDS", 60)
    bridge, key = small_room(server)
    read, begun, pages = server.services.log.read, [], []

    def note(app_id, after, *most):
        begun.append(after)
        pages.append(read(app_id, after, *most))
        return pages[-1]

    monkeypatch.setattr(server.services.log, "read", note)

    deaf = [Reader(bridge, key, "/v2/notification/pull", b"after=0&hold=0") for _ in range(5)]
    await until(lambda: bridge.backpressure.total_bytes > 100_000)
    await until(lambda: len(pages) == len(begun))
    # One that waits to be taken, and one for when there is room.
    assert sum(len(page.entries) >= 30 for page in pages) <= 2
    for each in deaf:
        each.takes.set()
    assert all([len((await each.end()).json["registrations"]) >= 30 for each in deaf])


async def test_poll_is_answered_at_once_when_the_server_stops(server, bridge, monkeypatch):
    monkeypatch.setattr("mirror_server.web.bridge._LAST_SECONDS", 60)

    held = await Request(bridge, server.key(), *POLL).begin()
    bridge.stop_waiting()
    assert (await held.end()).status == 204


async def test_body_that_does_not_arrive_is_408_and_the_connection_ends(server, bridge):
    slow = await Request(bridge, server.key(), "/v2/subscriptions", method="PUT", body=None).end()
    assert (slow.status, slow.json["type"]) == (408, "request_timeout")
    assert slow.headers["connection"] == "close"


@pytest.mark.parametrize("leaves_first", [True, False])
async def test_entry_that_comes_as_a_client_leaves_is_for_its_next_plain_poll(server, bridge, key, leaves_first):
    poll = ("/v2/notification/pull", b"hold=20")

    held = await Request(bridge, key, *poll).begin()
    if leaves_first:
        held.gone.set()
    append(server, key, {"ep": "device"})
    held.gone.set()
    await held.end()
    assert held.sent == []
    assert (await Request(bridge, key, *poll).end()).json == {"registrations": [{"ep": "device"}]}


@pytest.mark.parametrize(
    ("body", "seconds", "before"), [(b" " * 100_000, 0.001, 1), (b"", 0.01, 1), (b"", 0.0015, 2), (b"", 0.0005, 3)]
)
async def test_large_bodies_and_long_or_many_requests_of_one_key_let_others_have_their_turn(
    server, key, requests_take, body, seconds, before
):
    requests_take(itertools.repeat(seconds))
    bridge = Bridge(server.app, Settings(max_body_bytes=1_000_000, max_parked_polls=MOST))
    sent, answered = {"first": key, "second": key, "third": key, "other": server.key()}, []
    for number, (name, by) in enumerate(sent.items()):
        # One key is one application, with as many blanks before it as may be.
        request = Request(bridge, f"{' ' * number}{by}", *WRITING, body=body)
        request.task.add_done_callback(lambda _, name=name: answered.append(name))
    await until(lambda: len(answered) == len(sent))
    assert [name for name in answered if name != "other"] == ["first", "second", "third"]
    assert answered.index("other") == before


async def test_requests_that_were_called_too_early_wait_again_and_are_served_before_later_ones():
    """The first sends the others to wait. Of those that are called together one is large, and one is gone."""
    loop, large, gone, pause_seconds = asyncio.get_running_loop(), 3, 6, 0.05
    shares, served_at = Shares(loop), {}

    async def serve(number):
        await shares.turn({})
        served_at[number] = loop.time()
        shares.count({}, 0.01 if number == 0 else 0, pause_seconds=pause_seconds if number == large else 0)
        if number == large:
            # As after a large response, which does not end the rest.
            shares.pause({})

    asked = [asyncio.create_task(serve(number)) for number in range(40)]
    await until(lambda: served_at)
    asked[gone].cancel()
    await until(lambda: large in served_at)
    # Without a key, those of another address do not wait for these.
    await shares.turn({"REMOTE_ADDR": "192.0.2.1"})
    assert large + 1 not in served_at
    asked.append(asyncio.create_task(serve(40)))
    await asyncio.wait(asked)
    assert list(served_at) == [number for number in range(41) if number != gone]
    assert served_at[large + 1] - served_at[large] >= pause_seconds
    await serve(41)


async def test_next_large_body_of_a_key_waits_as_long_as_the_one_before_took(server, key, requests_take):
    requests_take(itertools.repeat(1000))
    bridge, body = Bridge(server.app, Settings(max_body_bytes=1_000_000, max_parked_polls=MOST)), b" " * 100_000

    large = [Request(bridge, key, *WRITING, body=body) for _ in range(2)]
    other = await Request(bridge, server.key(), "/v3/devices", b"looked_up=x").end()
    assert (large[0].status, large[1].status, other.status) == (400, None, 200)
    bridge.stop_waiting()
    assert (await large[1].end()).status == 400


async def test_key_that_rests_on_one_loop_is_served_on_another(server, key, requests_take):
    requests_take(itertools.repeat(1000))
    bridge = Bridge(server.app, Settings(max_body_bytes=1_000_000, max_parked_polls=MOST))

    async def ask():
        return (await Request(bridge, key, "/v3/devices").end()).status

    await Request(bridge, key, *WRITING, body=b" " * 100_000).end()
    assert await asyncio.to_thread(asyncio.run, ask()) == 200
