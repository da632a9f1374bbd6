"""The model of the fleet's overview alone."""

from datetime import UTC, datetime

import pytest

from mirror_sdk import Event, EventKind
from mirror_sdk.widgets.models.fleet_model import DEVICES_IN_A_LOOK, TILES_SHOWN, Condition, FleetModel

TEMPERATURE, SWITCH = "/3303/0/5700", "/3311/0/5850"
SNAPSHOT = "GET /v3/device-echo"
RESOURCES = [
    {"path": TEMPERATURE, "value": "21.5", "observable": True},
    {"path": SWITCH, "value": "0", "writable": True},
]


def event(kind, device_id=None):
    return Event(kind=kind, received_at=datetime(2026, 1, 1, tzinfo=UTC), device_id=device_id)


def add(bench, name):
    return bench.add_device(name, RESOURCES)


@pytest.fixture
def model(client, seconds):
    return FleetModel(client, clock=seconds)


def shown(model):
    return {tile.name: tile.text for tile in model.tiles}


def test_each_device_shows_what_is_to_be_known_the_worst_first(model, client, bench):
    ids = {name: add(bench, name) for name in ("fine", "silent", "pending", "drifting", "failed", "gone")}
    for name in ("fine", "pending", "drifting", "failed", "gone"):
        client.read_value(ids[name], TEMPERATURE)
    client.write_value(ids["drifting"], SWITCH, True)
    bench.set_value(ids["drifting"], SWITCH, False)
    client.read_value(ids["drifting"], SWITCH)
    bench.set_answer(ids["failed"], "reject")
    assert client.begin_write(ids["failed"], SWITCH, True).exception() is not None
    bench.set_online(ids["pending"], False)
    client.begin_write(ids["pending"], SWITCH, True)
    bench.deregister(ids["gone"])
    model.load()
    assert list(shown(model).items()) == [
        ("failed", "1 failed"),
        ("drifting", "1 drifting"),
        ("pending", "1 pending"),
        ("silent", "never reported"),
        ("gone", "not registered"),
        ("fine", "all as asked for"),
    ]
    client.read_value(ids["fine"], SWITCH)
    client.write_value(ids["fine"], SWITCH, True)
    model.load()
    assert shown(model)["fine"] == "1 unconfirmed"
    assert model.counts_text == "6 devices · 1 failed write · 1 drifting value · 1 pending write · 0 stale values"
    assert model.counts[Condition.FINE] == 1
    model.find("", Condition.PENDING)
    assert list(shown(model)) == ["pending"]
    model.find("RIFT", None)
    assert list(shown(model)) == ["drifting"]


def test_a_value_older_than_it_may_be_is_stale(model, client, bench):
    client.read_value(add(bench, "old"), TEMPERATURE)
    bench.advance(3599)
    model.load()
    assert shown(model) == {"old": "all as asked for"}
    bench.advance(2)
    model.load()
    assert shown(model) == {"old": "1 stale"}


@pytest.mark.parametrize("seconds_given", [0, -1, float("nan")])
def test_an_age_is_above_nothing(client, seconds_given):
    with pytest.raises(ValueError, match="stale_after_seconds"):
        FleetModel(client, stale_after_seconds=seconds_given)


def test_an_event_has_its_device_looked_at_again_and_no_other(model, client, bench, seconds, transport):
    ids = [add(bench, name) for name in ("a", "b", "c")]
    model.load()
    client.read_value(ids[1], TEMPERATURE)
    transport.requests.clear()
    model.take([event(EventKind.OBSERVATION, ids[1])] * 500)
    model.tick()
    assert transport.requests == []
    seconds.now += 1.1
    model.tick()
    (request,) = transport.requests
    assert request == SNAPSHOT
    assert shown(model)["b"] == "all as asked for"


def test_tiles_stay_where_they_are_when_an_event_changes_them(model, client, bench, seconds):
    ids = [add(bench, name) for name in ("a", "b")]
    for device_id in ids:
        client.read_value(device_id, TEMPERATURE)
    model.load()
    bench.set_online(ids[1], False)
    client.begin_write(ids[1], SWITCH, True)
    model.take([event(EventKind.OBSERVATION, ids[1])])
    seconds.now += 1.1
    model.tick()
    assert list(shown(model).items()) == [("a", "all as asked for"), ("b", "1 pending")]
    model.load()
    assert next(iter(shown(model))) == "b"


def test_an_answer_has_devices_looked_at_where_a_write_waits(model, client, bench, seconds):
    device_id = add(bench, "writer")
    client.read_value(device_id, TEMPERATURE)
    bench.set_online(device_id, False)
    request = client.begin_write(device_id, SWITCH, True)
    model.load()
    assert shown(model) == {"writer": "1 pending"}
    bench.set_online(device_id, True)
    request.result()
    model.take([event(EventKind.ASYNC_RESPONSE)])
    seconds.now += 1.1
    model.tick()
    assert "pending" not in shown(model)["writer"]


def test_a_new_device_comes_in_with_its_registration(model, bench, seconds):
    model.load()
    assert model.empty_text == "The directory lists no device."
    model.take([event(EventKind.REGISTRATION, add(bench, "new"))])
    seconds.now += 1.1
    model.tick()
    assert list(shown(model)) == ["new"]


def test_a_large_fleet_is_read_by_two_requests_and_shown_in_pages(model, bench, transport):
    for number in range(250):
        bench.add_device(f"device-{number:04}")
    transport.requests.clear()
    model.load()
    assert transport.requests == ["GET /v3/devices", SNAPSHOT]
    assert model.counts_text.startswith("250 devices · ")
    assert len(model.tiles) == TILES_SHOWN
    model.turn_page(99)
    assert len(model.tiles) == 250 % TILES_SHOWN


def test_many_devices_that_events_are_about_are_looked_at_in_parts(model, bench, seconds, transport):
    ids = [bench.add_device(f"device-{number:04}") for number in range(DEVICES_IN_A_LOOK + 1)]
    model.load()
    transport.requests.clear()
    model.take([event(EventKind.OBSERVATION, device_id) for device_id in ids])
    seconds.now += 1.1
    model.tick()
    assert transport.requests == [SNAPSHOT]
    assert len(model._changed) == 1


def test_a_fleet_that_cannot_be_read_is_told(model, client):
    client.close()
    model.load()
    assert model.notices.texts[0].startswith("Reading the fleet: ")


def test_a_device_that_is_gone_has_the_directory_read_again(model, client, bench, seconds, monkeypatch):
    ids = [add(bench, name) for name in ("a", "b")]
    model.load()
    listed = client.list_devices()
    monkeypatch.setattr(client, "list_devices", lambda: [device for device in listed if device.id == ids[0]])
    model._directory = model._directory | {"no-such": listed[1].model_copy(update={"id": "no-such"})}
    model.take([event(EventKind.OBSERVATION, "no-such")])
    for _ in range(2):
        seconds.now += 1.1
        model.tick()
    assert list(shown(model)) == ["a"]
    assert model.notices.texts == []
