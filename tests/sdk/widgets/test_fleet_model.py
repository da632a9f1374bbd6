"""The model of the fleet table, without a widget."""

from datetime import UTC, datetime

import pytest
from client_test_data import LAMP, SENSOR, URL
from resource_paths import SWITCH, TEMPERATURE

from mirror_sdk import Event, EventKind
from mirror_sdk.errors import InvalidValue
from mirror_sdk.widgets.models import fleet_model
from mirror_sdk.widgets.models.fleet_model import FLEET_SCHEMA, FleetModel
from mirror_sdk.widgets.models.status import Status

SNAPSHOT = "GET /v3/device-echo"


def event(kind, device_id=None):
    return Event(kind=kind, received_at=datetime(2026, 1, 1, tzinfo=UTC), device_id=device_id)


def add(simulator, name):
    return simulator.add_device(name, [SENSOR, LAMP])


@pytest.fixture
def model(client, seconds):
    return FleetModel(client, clock=seconds)


def a_second_later(model, seconds):
    seconds.now += 1.1
    model.tick()


def displayed(model):
    return {row["name"]: row["hints"]["status"] for row in model.displayed_rows}


def test_devices_have_a_status_and_the_worst_is_first(model, client, simulator):
    ids = {name: add(simulator, name) for name in ("fine", "silent", "pending", "drifting", "failed", "gone")}
    for name in ("fine", "pending", "drifting", "failed", "gone"):
        client.read_value(ids[name], TEMPERATURE)
    client.write_value(ids["drifting"], SWITCH, True)
    simulator.set_value(ids["drifting"], SWITCH, False)
    client.read_value(ids["drifting"], SWITCH)
    simulator.set_response_mode(ids["failed"], "reject")
    assert client.requests.begin_write(ids["failed"], SWITCH, True).exception() is not None
    simulator.set_online(ids["pending"], False)
    client.requests.begin_write(ids["pending"], SWITCH, True)
    simulator.deregister(ids["gone"])
    model.load()
    assert list(displayed(model).items()) == [
        ("failed", "1 failed"),
        ("drifting", "1 drifting"),
        ("pending", "1 pending"),
        ("silent", "never reported"),
        ("gone", "offline"),
        ("fine", "in sync"),
    ]
    client.read_value(ids["fine"], SWITCH)
    client.write_value(ids["fine"], SWITCH, True)
    model.load()
    assert displayed(model)["fine"] == "1 unconfirmed"
    assert model.counts_text == "6 devices · 1 failed write · 1 drifting value · 1 pending write · 0 stale values"
    assert model.counts[Status.IN_SYNC] == 1
    model.show_only(Status.PENDING)
    assert list(displayed(model)) == ["pending"]
    (row,) = model.displayed_rows
    assert (row["status"], row["pending"], row["failed"]) == ("Pending", 1, None)
    assert row["tones"] == {"pending": "note"}
    assert row["hints"]["name"] == f"pending ({ids['pending']})"
    model.show_only(None)
    assert len(model.rows) == 6
    assert model.as_of_text == "as of 2026-01-05 08:00:00 UTC"


def observe(client, device_id):
    client.subscribe(device_id, TEMPERATURE)
    client.read_value(
        device_id, TEMPERATURE
    )  # processed after the subscription, since a device processes one request at a time


def stale(model):
    model.load()
    return {row["name"] for row in model.rows if row["stale"]}


def test_value_is_stale_after_three_reporting_intervals_and_an_hour(model, client, simulator):
    quick, slow = add(simulator, "quick"), add(simulator, "slow")
    for device_id in (quick, slow):
        observe(client, device_id)
    model.load()
    for number in range(6):
        simulator.advance(1500)
        simulator.set_value(quick, TEMPERATURE, number)
        if number % 2:
            simulator.set_value(slow, TEMPERATURE, number)
        model.load()
    for device_id in (quick, slow):
        simulator.set_online(device_id, False)
    simulator.advance(3 * 1500)
    assert stale(model) == set()
    simulator.advance(1)
    assert stale(model) == {"quick"}
    simulator.advance(3 * 1500)
    assert stale(model) == {"quick", "slow"}


def test_selected_devices_are_a_table_for_a_plan(model, client, simulator):
    ids = [add(simulator, name) for name in ("a", "b", "c")]
    client.read_value(ids[1], TEMPERATURE)
    model.load()
    found = model.frame([ids[2], ids[1], "0" * 32])
    assert list(found) == FLEET_SCHEMA.names
    assert found["device_id"].tolist() == [row["key"] for row in model.rows if row["key"] in ids[1:]]
    assert found.set_index("endpoint_name").loc["b", ["status", "resources"]].tolist() == ["in_sync", 2]
    metadata = {"taken_at": "2026-01-05T08:00:00.000Z", "complete": True, "server": URL, "devices": 3}
    assert found.attrs["mirror"] == metadata
    plan = client.plan(found.assign(path=SWITCH, value=True))
    assert plan.frame["device_id"].tolist() == found["device_id"].tolist()
    assert model.frame([]).dtypes.astype(str).tolist() == found.dtypes.astype(str).tolist()


def test_event_has_only_its_device_read_again(model, client, simulator, seconds, transport):
    ids = [add(simulator, name) for name in ("a", "b", "c")]
    model.load()
    client.read_value(ids[1], TEMPERATURE)
    transport.requests.clear()
    model.receive([event(EventKind.OBSERVATION, ids[1])] * 500)
    model.tick()
    assert transport.requests == []
    a_second_later(model, seconds)
    (request,) = transport.requests
    assert request == SNAPSHOT
    assert displayed(model)["b"] == "in sync"


def test_device_with_an_event_during_a_read_of_the_fleet_is_read_after_it(client, simulator, seconds):
    device_id = add(simulator, "a")
    outcomes = []

    def run(call, then, _):
        outcome = call()
        outcomes.append(lambda: then(outcome))

    model = FleetModel(client, run, clock=seconds)
    model.load()
    client.read_value(device_id, TEMPERATURE)
    model.receive([event(EventKind.OBSERVATION, device_id)])
    outcomes.pop()()
    assert displayed(model) == {"a": "never reported"}
    a_second_later(model, seconds)
    outcomes.pop()()
    assert displayed(model) == {"a": "in sync"}


def test_rows_stay_where_they_are_when_an_event_changes_them(model, client, simulator, seconds):
    ids = [add(simulator, name) for name in ("a", "b")]
    for device_id in ids:
        client.read_value(device_id, TEMPERATURE)
    model.load()
    simulator.set_online(ids[1], False)
    client.requests.begin_write(ids[1], SWITCH, True)
    model.receive([event(EventKind.OBSERVATION, ids[1])])
    a_second_later(model, seconds)
    assert list(displayed(model).items()) == [("a", "in sync"), ("b", "1 pending")]
    model.load()
    assert next(iter(displayed(model))) == "b"


def test_a_large_fleet_is_read_by_two_requests_and_its_events_in_parts(
    model, simulator, seconds, transport, monkeypatch
):
    monkeypatch.setattr(fleet_model, "DEVICES_PER_READ", 25)
    ids = [simulator.add_device(f"device-{number:04}") for number in range(30)]
    transport.requests.clear()
    model.load()
    assert transport.requests == ["GET /v3/devices", SNAPSHOT]
    assert model.counts_text.startswith("30 devices · ")
    model.receive([event(EventKind.OBSERVATION, device_id) for device_id in ids])
    transport.requests.clear()
    a_second_later(model, seconds)
    assert transport.requests == [SNAPSHOT]
    assert len(model._changed_ids) == 5


def test_a_new_device_comes_in_with_its_registration(model, simulator, seconds):
    model.load()
    assert model.empty_text == "The directory lists no device."
    model.receive([event(EventKind.REGISTRATION, add(simulator, "new"))])
    a_second_later(model, seconds)
    assert list(displayed(model)) == ["new"]


def test_failed_read_of_the_fleet_is_a_notice(model, client):
    client.close()
    model.load()
    assert model.notices.texts[0].startswith("Reading the fleet: ")
    assert (model.as_of_text, model.empty_text) == ("not read", "")


def test_failed_read_of_the_fleet_is_repeated_after_growing_pauses(model, simulator, seconds):
    add(simulator, "a")
    attempts, run = [], model.run

    def fail(_call, _then, failed):
        attempts.append(seconds.now)
        failed(ConnectionError("the service is away"))

    model.run = fail
    model.load()
    for _ in range(100):
        seconds.now += 1
        model.tick()
    assert [at - attempts[0] for at in attempts] == [0, 10, 30, 70]
    assert model.notices.texts == ["Reading the fleet: the service is away"]
    model.run = run
    for _ in range(60):
        seconds.now += 1
        model.tick()
    assert list(displayed(model)) == ["a"]
    assert model.notices.texts == []


def test_erased_device_goes_with_the_next_read(model, client, simulator, erase):
    ids = [add(simulator, name) for name in ("a", "b")]
    model.load()
    erase(ids[1])
    model.load()
    assert list(displayed(model)) == ["a"]
    assert len(model.frame(ids)) == 1


def values(model):
    return {row["name"]: row["value"] for row in model.rows}


def test_main_value_of_each_device_is_displayed_until_the_view_names_a_resource(model, client, simulator):
    ids = [simulator.add_device(name, [SENSOR, LAMP]) for name in ("s1", "s2", "t1")]
    for one in ids:
        client.read_value(one, SWITCH)
    client.read_value(ids[0], TEMPERATURE)
    client.read_value(ids[2], TEMPERATURE)
    model.load()
    assert [(one.path, one.label, one.devices) for one in model.resources] == [
        (SWITCH, "Light Control · On/Off", 3),
        (TEMPERATURE, "Temperature · Sensor Value", 2),
    ]
    assert model.resource is None
    assert values(model) == {"s1": "21.5", "s2": "false", "t1": "21.5"}
    row = next(row for row in model.rows if row["name"] == "t1")
    assert row["sparkline"] == {"at": [0, 47], "values": [None, 21.5]}
    assert row["hints"]["value"] == "Temperature, reported 2026-01-05 08:00:00 UTC"
    model.change_view({"resource": TEMPERATURE})
    assert values(model) == {"s1": "21.5", "s2": "", "t1": "21.5"}
    assert model.resource.label == "Temperature · Sensor Value"
    model.change_view({"resource": "/3304/0/5700"})
    assert (model.resource.label, model.resource.devices) == ("Humidity · Sensor Value", 0)
    assert set(values(model).values()) == {""}


def test_sparkline_starts_again_if_another_value_becomes_the_main_one(model, client, simulator):
    one, other = add(simulator, "one"), add(simulator, "other")
    client.read_value(one, SWITCH)
    client.read_value(one, TEMPERATURE)
    client.read_value(other, SWITCH)
    model.load()
    client.read_value(other, TEMPERATURE)
    model.load()
    row = next(row for row in model.rows if row["name"] == "other")
    assert (row["value"], row["sparkline"]) == ("21.5", {"at": [0, 47], "values": [None, 21.5]})


def test_first_value_of_a_device_is_displayed_without_another_read_of_the_fleet(
    model, client, simulator, transport, seconds
):
    ids = {name: add(simulator, name) for name in ("a", "b")}
    model.load()
    assert (values(model), model.resources) == ({"a": "", "b": ""}, [])
    for name, path, expected in (("a", SWITCH, "false"), ("b", TEMPERATURE, "21.5")):
        client.read_value(ids[name], path)
        transport.requests.clear()
        model.receive([event(EventKind.OBSERVATION, ids[name])])
        a_second_later(model, seconds)
        assert transport.requests.count(SNAPSHOT) == 1
        assert values(model)[name] == expected
    assert [(one.path, one.devices) for one in model.resources] == [(SWITCH, 1), (TEMPERATURE, 1)]


@pytest.mark.keeps_history
def test_sparklines_are_read_with_one_request_for_all_devices(client, simulator, plain, transport, monkeypatch):
    ids = [add(simulator, name) for name in ("a", "b")]
    for one in ids:
        plain.subscribe(one, TEMPERATURE)
    for number in (1, 2):
        simulator.advance(3600)
        for one in ids:
            simulator.set_value(one, TEMPERATURE, number)
    simulator.advance(1)
    calls = []
    monkeypatch.setattr(
        client, "history", lambda *args, _read=client.history, **options: calls.append(1) or _read(*args, **options)
    )
    model = FleetModel(client)
    model.load()
    assert {tuple(row["sparkline"]["values"]) for row in model.rows} == {(None, 21.5, 1.0, 2.0)}
    # Once for the day, and once for its compacted part.
    assert len(calls) == 2
    assert model.sparkline_text == "mean of each half hour in the last 24 hours"
    simulator.set_value(ids[0], TEMPERATURE, 3)
    model.load()
    assert sorted(row["sparkline"]["values"][-1] for row in model.rows) == [2.0, 2.5]
    assert len(calls) == 2


def test_attributes_are_columns(model, client, simulator):
    device_id = add(simulator, "a")
    client.devices.update(device_id, attributes={"room": "hall"})
    model.load()
    assert model.attributes == ["room"]
    assert model.rows[0]["attribute.room"] == "hall"


def test_selected_devices_are_read_and_subscribed(model, client, simulator, seconds):
    ids = [add(simulator, name) for name in ("a", "b", "c")]
    for one in ids[:2]:
        client.read_value(one, TEMPERATURE)
    model.load()
    model.select([ids[2]])
    with pytest.raises(InvalidValue, match="none of the selected devices has a value in the table"):
        model.read_selected()
    model.select(ids)
    assert model.selected_with_value == ids[:2]
    simulator.set_value(ids[0], TEMPERATURE, 30)
    simulator.set_response_mode(ids[1], "reject")
    model.read_selected()
    assert model.activity == "Read Temperature of 1 device"
    (notice,) = model.notices.texts
    assert notice.startswith("Reading Temperature of 2 devices: failed for 1 device. b: ")
    a_second_later(model, seconds)
    assert values(model) == {"a": "30", "b": "21.5", "c": ""}
    simulator.set_response_mode(ids[1], "normal")
    model.subscribe_selected()
    assert model.activity == "Subscribed to Temperature of 2 devices"
    assert model.notices.texts == []
    assert all(client.subscriptions.is_active(one, TEMPERATURE) for one in ids[:2])
    model.select([])
    assert model.activity == ""


def test_too_many_selected_devices_are_not_read(model, client, simulator, monkeypatch):
    monkeypatch.setattr(fleet_model, "MOST_DEVICES_AT_ONCE", 1)
    ids = [add(simulator, name) for name in ("a", "b")]
    for one in ids:
        client.read_value(one, TEMPERATURE)
    model.load()
    model.select(ids)
    with pytest.raises(InvalidValue, match="2 devices are selected; select at most 1 at once"):
        model.subscribe_selected()
