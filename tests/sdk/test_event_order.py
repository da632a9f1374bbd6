"""Events arrive in the order of the log, each with its number, and a program can stop and continue at any of them."""

import asyncio
import gc
import json
from contextlib import nullcontext

import httpx
import pytest
from resource_paths import TEMPERATURE
from thread_waits import until

from mirror_sdk import (
    AsyncMirrorClient,
    BadRequest,
    ConnectionFailed,
    GapWarning,
    InvalidValue,
    MirrorClient,
    UnexpectedResponse,
    WebhookReceiver,
)
from mirror_sdk.events import EventKind

URL = "http://mirror.localhost"
DEVICE = "d" * 32
DEVICE_MEMBERS = {"uid": "u", "timestamp": 1, "ep": DEVICE, "original-ep": "sensor-1"}


def kinds(events):
    return [str(event.kind) for event in events]


@pytest.fixture
def backlog(mirror, simulator, client, device_id):
    """Events of several kinds, ten seconds apart, in the order in which they happened."""
    begin = client.events(timeout=0).position
    client.subscribe(device_id, TEMPERATURE)
    assert mirror.services.database.settle(10)
    for change in [
        simulator.deregister,
        simulator.register,
        simulator.deregister,
        simulator.register,
        simulator.update_registration,
    ]:
        simulator.advance(10)
        change(device_id)
    client.subscribe(device_id, TEMPERATURE)
    assert mirror.services.database.settle(10)
    client.read_value(device_id, TEMPERATURE)
    simulator.set_value(device_id, TEMPERATURE, "22.5")
    return begin


AGAIN = ["deregistration", "registration"]
HAPPENED = ["observation", *AGAIN, *AGAIN, "reg_update", "observation", "async_response", "observation"]


@pytest.mark.both_clients
def test_events_are_delivered_in_the_order_in_which_they_happened(client, backlog):
    source = client.events(after=backlog, timeout=0)
    assert source.position == backlog
    events = list(source)
    assert kinds(events) == HAPPENED
    assert [event.seq for event in events] == list(range(backlog + 1, backlog + 1 + len(HAPPENED)))
    assert source.position == client.events(timeout=0).position == events[-1].seq
    # An observation has the time of the device's change, which may be long ago.
    times = [event.changed_at for event in events if event.kind is not EventKind.OBSERVATION]
    assert times == sorted(times)
    assert len(set(times)) == 5


def test_an_async_response_names_its_device_and_path_and_its_value_is_read_by_it(client, simulator):
    light = simulator.add_device("light-1", [{"path": "/3311/0/5850", "value": "1", "writable": True}])
    after = client.events(timeout=0).position
    client.write_value(light, "/3311/0/5850", True)
    client.read_value(light, "/3311/0/5850")
    written, read = client.events(after=after, timeout=0)
    for event in (written, read):
        assert (event.device_id, event.endpoint_name, event.path) == (light, "light-1", "/3311/0/5850")
    assert written.value is None
    assert read.value.python is True


@pytest.mark.both_clients
def test_position_after_some_events_is_not_the_end_of_the_log(client, backlog):
    events = client.events(after=backlog, limit=2, timeout=0)
    assert (len(list(events)), events.position, list(events)) == (2, backlog + 2, [])


@pytest.mark.both_clients
def test_filters_skip_events_and_the_position_advances(client, simulator, backlog, device_id):
    other = simulator.add_device("sensor-2", [{"path": TEMPERATURE, "value": "1", "observable": True}])
    events = client.events(after=backlog, timeout=0, paths=["/3303/*"])
    assert kinds(events) == ["observation"] * 3
    assert events.position == backlog + len(HAPPENED) + 1
    assert kinds(client.events(after=backlog, timeout=0, devices=["sensor-2"])) == ["registration"]
    assert kinds(client.events(after=backlog, timeout=0, devices=["sensor-1"])) == HAPPENED
    assert kinds(client.events(after=backlog, timeout=0, devices=[other], paths=["/3303/*"])) == []
    frame = client.notifications.events_frame(
        after=backlog, timeout=0, devices=["sensor-1"], paths=["/3303/0/*"], limit=2
    )
    assert list(frame["seq"]) == [backlog + 1, backlog + 7]
    assert frame.attrs["mirror"]["position"] == backlog + 7
    rest = client.notifications.events_frame(after=frame.attrs["mirror"]["position"], timeout=0, devices=["sensor-1"])
    assert list(rest["event"]) == HAPPENED[7:]


def test_invalid_position_or_filter_is_rejected_at_the_call_with_the_cure(client):
    # For example a position that a program stored in a file and reads as text.
    for after in ("5", 5.0, True, -1):
        with pytest.raises(InvalidValue, match=r"after=.*int\(\.\.\.\)"):
            client.events(after=after)
    with pytest.raises(TypeError, match=r"paths=\['/3303/\*'\]"):
        client.events(paths="/3303/*")
    with pytest.raises(TypeError, match=r"devices=\['sensor-1'\]"):
        client.events(devices="sensor-1", timeout=0)


@pytest.mark.both_clients
def test_watch_reports_a_loss(client_over, simulator, device_id):
    def lose(_, respond):
        respond.headers["Mirror-Gap"] = "1-2"
        return respond

    seen = []
    with client_over(lose).watch(lambda event: seen.append((event.kind, event.first_seq, event.seq))):
        simulator.update_registration(device_id)
        until(lambda: (EventKind.GAP, 1, 2) in seen)


# Messages of a faulty service


def answering(message, cursor=6, **headers):
    """Return a client whose polls after 3 receive this message and cursor."""
    headers = {"Mirror-Cursor": str(cursor), **headers}
    content = message if isinstance(message, bytes) else json.dumps(message).encode()

    def respond(request):
        if request.url.params.get("after") != "3":
            return httpx.Response(204, headers=headers)
        return httpx.Response(200, headers=headers, content=content)

    return MirrorClient(URL, "key", transport=httpx.MockTransport(respond))


def left(seq, **more):
    return {**DEVICE_MEMBERS, "seq": seq, **more}


LIES = {
    "beyond the cursor": ({"de-registrations": [left(4), left(6)]}, 5, "number of an entry is 6"),
    "of an unknown list": ({"blips": [{"seq": []}]}, 5, "not a whole number"),
    "a log longer than any": ({}, "9" * 5000, "which has too many digits"),
    "nested too deep": (b'{"x":' + b"[" * 100_000, 4, "not JSON"),
}


@pytest.mark.parametrize("lie", LIES)
def test_impossible_message_raises_and_no_event_is_consumed(lie):
    message, cursor, expected_message = LIES[lie]
    events = answering(message, cursor).events(after=3, timeout=0)
    with pytest.raises(UnexpectedResponse, match=expected_message):
        next(events)
    assert events.position == 3


@pytest.mark.parametrize("registrations", [[DEVICE_MEMBERS, DEVICE_MEMBERS], [left(5), left(4)]], ids=["none", "some"])
def test_unnumbered_entries_are_ordered_by_kind_and_move_the_position_last(registrations):
    message = {"registrations": registrations, "de-registrations": [DEVICE]}
    events = answering(message).events(after=3, timeout=0)
    positions = [(str(event.kind), events.position) for event in events]
    assert positions == [("registration", 3), ("registration", 3), ("deregistration", 6)]


def test_entry_that_is_twice_in_a_message_is_returned_twice():
    """Delivery is at least once. The uid identifies the duplicate."""
    events = answering({"registrations": [left(5), left(4), left(4)]}, 5).events(after=3, timeout=0)
    assert [(event.seq, events.position) for event in events] == [(4, 4), (4, 4), (5, 5)]


@pytest.mark.parametrize("time", [{}, {"Mirror-Time": "yesterday"}], ids=["none", "none that is one"])
def test_events_of_a_service_without_times_are_read(time):
    assert answering({}, 4, **time).events(timeout=0).position == 4


@pytest.mark.parametrize("gap", ["1-2", "9-2", "4-200", "4-" + "9" * 5000])
def test_impossible_loss_is_reported_and_does_not_move_the_position(gap):
    events = answering({"registrations": [left(6)]}, **{"Mirror-Gap": gap}).events(after=3, timeout=0)
    with pytest.warns(GapWarning):
        first = next(events)
    assert (first.kind, events.position) == (EventKind.GAP, 3)
    assert (next(events).seq, events.position) == (6, 6)


MALICIOUS = {
    "status": ("async-responses", {"id": "a", "status": 70_000, "payload": ""}),
    "large status": ("async-responses", {"id": "a", "status": 10**30, "payload": ""}),
    "error": ("async-responses", {"id": "a", "status": 200, "error": "\ud800", "payload": ""}),
    "async_id": ("async-responses", {"id": "\ud800", "status": 200, "payload": ""}),
    "path": ("notifications", {"path": "/\ud800", "payload": "MjE="}),
    "uid": ("registrations", {"uid": "\ud800"}),
    "endpoint_name": ("registrations", {"original-ep": "\ud800"}),
    "device_id": ("registrations", {"ep": "\ud800"}),
}


@pytest.mark.parametrize("what", MALICIOUS)
def test_event_that_no_table_can_store_does_not_affect_other_events(what):
    key, more = MALICIOUS[what]
    message = {"de-registrations": [left(4), left(6, uid="w")], key: [left(5, **{"uid": "v", **more})]}
    frame = answering(message).notifications.events_frame(after=3, timeout=0)
    assert frame["seq"].tolist() == [4, 5, 6]


# Events start at the call, on a loop


def test_events_between_the_call_and_the_first_read_are_returned(run, device_id):
    async def program(client):
        events = client.events(limit=2, timeout=60)
        await client.subscribe(device_id, TEMPERATURE)
        await client.read_value(device_id, TEMPERATURE)
        assert [str(event.kind) async for event in events] == ["observation", "async_response"]

    run(program)


def test_unread_events_are_released_and_a_cancelled_read_loses_none(run, device_id):
    async def program(client):
        client.events()
        events = client.events(limit=1, timeout=60)
        step = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)
        step.cancel()
        with pytest.raises(asyncio.CancelledError):
            await step
        await client.subscribe(device_id, TEMPERATURE)
        assert [str(event.kind) async for event in events] == ["observation"]
        client.events()

    run(program)


def test_failure_to_start_is_raised_at_the_first_event_and_the_next_one_restarts(recwarn):
    is_down = True

    def respond(_):
        if is_down:
            raise httpx.ConnectError("refused")
        return httpx.Response(204, headers={"Mirror-Cursor": "7"})

    async def program():
        nonlocal is_down
        async with AsyncMirrorClient(URL, "key", transport=httpx.MockTransport(respond), max_retries=0) as client:
            client.events(timeout=0)
            events = client.events(timeout=0)
            with pytest.raises(ConnectionFailed):
                await anext(events)
            assert events.position is None
            is_down = False
            assert [event async for event in events] == []
            assert events.position == 7

    asyncio.run(program())
    gc.collect()
    assert not recwarn.list


def test_where_no_loop_runs_it_begins_with_the_first_step(mirror, simulator, device_id):
    client = AsyncMirrorClient(URL, mirror.new_key(), transport=mirror.async_transport)
    events = client.events(limit=1, timeout=60)
    assert events.position is None

    async def program():
        async with client, events:
            await client.subscribe(device_id, TEMPERATURE)
            assert [str(event.kind) async for event in events] == ["observation"]

    asyncio.run(program())


def test_several_tasks_that_take_from_one_iterator_get_each_event_once(run, simulator, device_id):
    async def program(client):
        events = client.events(timeout=60)
        await client.devices.list()
        for _ in range(6):
            await asyncio.to_thread(simulator.update_registration, device_id)
        received = await asyncio.gather(*(anext(events) for _ in range(6)))
        assert sorted(event.seq for event in received) == list(range(received[0].seq, received[0].seq + 6))

    run(program)


# Webhooks

UNKNOWN_MEMBER = {"name": "serialization.cfg.include_seq", "message": "unknown"}


REJECTIONS = [
    ({"message": "unknown member include_seq"}, nullcontext(), [True, False]),
    ({"message": "m", "fields": [UNKNOWN_MEMBER]}, nullcontext(), [True, False]),
    ({"message": "the URL does not respond"}, pytest.raises(BadRequest), [True]),
]


@pytest.mark.parametrize(("rejection", "awaited_response", "has_number"), REJECTIONS)
def test_a_service_that_does_not_know_of_numbers_gets_a_webhook_without_them(rejection, awaited_response, has_number):
    bodies = []

    def respond(request):
        bodies.append(request.read())
        if b"include_seq" in bodies[-1]:
            return httpx.Response(400, json={"object": "error", "code": 400, "type": "validation_error", **rejection})
        return httpx.Response(204)

    client = MirrorClient(URL, "key", transport=httpx.MockTransport(respond))
    with WebhookReceiver() as receiver, awaited_response:
        client.notifications.use_webhook(receiver)
    assert [b"include_seq" in body for body in bodies] == has_number
    assert b"deregistrations_as_object" in bodies[-1]
