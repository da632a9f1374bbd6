"""The explorer's model alone."""

from datetime import UTC, datetime, timedelta

import httpx
import pytest
from changed_responses import Between
from client_test_data import EXECUTABLE, URL
from resource_paths import SWITCH, TEMPERATURE
from widget_elements import START, observation

from mirror_sdk import MirrorClient
from mirror_sdk.errors import InvalidValue
from mirror_sdk.widgets.models.explorer_model import Card, ExplorerModel
from mirror_server.service.keys import Scope


@pytest.fixture
def model(client, device_id):
    made = ExplorerModel(client)
    made.load_devices()
    made.choose(device_id)
    return made


def row(model, path):
    return next(one for one in model.rows if one["key"] == path)


def test_devices_are_rows_by_their_names(model, simulator, device_id):
    deregistered = simulator.add_device("lamp", endpoint_type="Light")
    simulator.deregister(deregistered)
    model.load_devices()
    rows = [(one["name"], one["type"], one["state"]) for one in model.device_rows]
    assert rows == [("lamp", "Light", "deregistered"), ("sensor-1", "Light", "registered")]
    listed = {one["key"]: one for one in model.device_rows}
    assert listed[device_id]["last_contact"] == datetime(2026, 1, 5, 8, tzinfo=UTC)
    assert listed[deregistered]["tones"] == {"state": "dim"}
    assert model.devices_text == "2 devices"


def test_empty_directory_is_not_confused_with_one_that_could_not_be_read(client):
    model = ExplorerModel(client)
    model.load_devices()
    assert model.devices_text == "the directory lists no device"
    unread = ExplorerModel(client)
    client.close()
    unread.load_devices()
    unread.dismiss()
    assert unread.devices_text == "the directory could not be read"


def test_clock_of_the_mirror_is_known_before_a_device_is_chosen_and_while_one_is_read(client, device_id, later):
    model = ExplorerModel(client, later)
    model.load_devices()
    later.make(0)
    assert model.clock_ahead_ms / 1000 == pytest.approx((START - datetime.now(UTC)).total_seconds(), abs=60)
    known = model.clock_ahead_ms
    model.choose(device_id)
    assert model.clock_ahead_ms == known


def test_card_describes_the_device_and_its_connection(client, mirror, simulator, device_id, model):
    assert model.card == Card(
        name="sensor-1",
        id=device_id,
        type="Light",
        description="",
        state="registered",
        attributes=[],
        connection=[
            ("Connection", "simulated"),
            ("Lifetime", "86,400 s"),
            ("Registered until", "2026-01-06 08:00:00 UTC"),
        ],
        is_reachable=True,
        last_contact=START,
        last_reported=None,
    )
    simulator.set_online(device_id, False)
    client.devices.update(device_id, description="by the door", attributes={"room": "hall"})
    model.load()
    model.load_devices()
    card = model.card
    assert (card.is_reachable, card.description, card.attributes) == (False, "by the door", [("room", "hall")])

    def real(request, answer):
        if not request.url.path.endswith("/connection"):
            return answer
        details = {"protocol": "coap", "lwm2m_version": "1.1", "binding": "UQ", "address": "127.0.0.1:40000"}
        return httpx.Response(200, json=answer.json() | details)

    # An operator sees the address of a real device.
    with MirrorClient(URL, mirror.new_key(), transport=Between(mirror, real)) as operator:
        model = ExplorerModel(operator)
        model.choose(device_id)
    connection = dict(model.card.connection)
    assert connection["Connection"] == "LwM2M 1.1 over CoAP"
    assert (connection["Binding"], connection["Address"]) == ("UQ", "127.0.0.1:40000")


def test_a_read_brings_value_unit_and_time(model, simulator, device_id):
    assert row(model, TEMPERATURE)["value"] == ""
    model.read(TEMPERATURE)
    read = row(model, TEMPERATURE)
    assert (read["value"], read["activity"]) == ("21.5", "")
    assert read["reported_at"] == datetime(2026, 1, 5, 8, tzinfo=UTC)
    simulator.set_value(device_id, "/3303/0/5701", "Cel")
    simulator.update_registration(device_id)
    for path in ("/3303/0/5701", TEMPERATURE):
        model.read(path)
    assert row(model, TEMPERATURE)["value"] == "21.5 °C"
    assert model.notices.texts == []


def test_notice_of_a_rejected_read_goes_when_the_next_read_works(model, simulator, device_id):
    simulator.set_response_mode(device_id, "reject")
    model.read(TEMPERATURE)
    (notice,) = model.notices.texts
    assert notice.startswith(f"Reading {TEMPERATURE} of sensor-1: ")
    rejected_row = row(model, TEMPERATURE)
    assert rejected_row["activity"].startswith("Reading: ")
    assert rejected_row["tones"]["activity"] == "bad"
    assert row(model, SWITCH)["activity"] == ""
    simulator.set_response_mode(device_id, "normal")
    model.read(TEMPERATURE)
    assert model.notices.texts == []
    assert row(model, TEMPERATURE)["activity"] == ""


def test_a_read_in_progress_is_displayed_and_not_started_again(client, device_id, later, transport):
    model = ExplorerModel(client, later)
    model.choose(device_id)
    later.make_all()
    model.read(TEMPERATURE)
    model.read(TEMPERATURE)
    assert row(model, TEMPERATURE)["activity"] == "reading …"
    assert len(later.waiting) == 1
    later.make_all()
    assert row(model, TEMPERATURE)["activity"] == ""
    assert sum("device-requests" in request for request in transport.requests) == 1


def test_own_subscription_and_that_of_another_application(model, client, plain, device_id):
    plain.subscribe(device_id, TEMPERATURE)
    plain.read_value(device_id, TEMPERATURE)
    model.load()
    assert row(model, TEMPERATURE)["subscription"] == "by another key"
    plain.unsubscribe(device_id, TEMPERATURE)
    model.subscribe(TEMPERATURE)
    assert client.subscriptions.is_active(device_id, TEMPERATURE)
    client.read_value(
        device_id, TEMPERATURE
    )  # processed after the subscription, since a device processes one request at a time
    model.load()
    assert row(model, TEMPERATURE)["subscription"] == "subscribed"
    model.unsubscribe(TEMPERATURE)
    assert not client.subscriptions.is_active(device_id, TEMPERATURE)
    assert row(model, TEMPERATURE)["subscription"] == ""
    model.unsubscribe(TEMPERATURE)
    assert model.notices.texts == []


def test_a_subscription_rejected_by_the_device_is_displayed(model, mirror, simulator, device_id):
    for answer, expected in (("reject", "rejected"), ("silent", "requested")):
        simulator.set_response_mode(device_id, answer)
        model.subscribe(TEMPERATURE)
        mirror.services.database.settle(10)
        model.load()
        assert row(model, TEMPERATURE)["subscription"] == expected


def test_status_of_a_resource_that_was_written(model, client, simulator, device_id):
    client.read_value(device_id, SWITCH)
    client.write_value(device_id, SWITCH, True)
    model.load()
    assert row(model, SWITCH)["status"] == "Unconfirmed"
    assert row(model, SWITCH)["hints"]["status"] == (
        "The device accepted true. The last report, false, is older. Read it, or subscribe, to confirm."
    )
    simulator.set_value(device_id, SWITCH, False)
    client.read_value(device_id, SWITCH)
    model.load()
    switch_row = row(model, SWITCH)
    assert (switch_row["status"], switch_row["desired"], switch_row["tones"]["status"]) == ("Drifting", "true", "warn")
    simulator.set_online(device_id, False)
    client.requests.begin_write(device_id, SWITCH, False)
    model.load()
    assert (row(model, SWITCH)["status"], row(model, SWITCH)["tones"]["status"]) == ("Pending", "note")
    assert row(model, TEMPERATURE)["status"] == row(model, TEMPERATURE)["desired"] == ""


def test_the_selected_resources_are_rows_of_the_state_table(model, client):
    model.read(TEMPERATURE)
    found = model.frame([TEMPERATURE, SWITCH])
    complete_frame = client.state_frame()
    assert found["path"].tolist() == [SWITCH, TEMPERATURE] or found["path"].tolist() == [TEMPERATURE, SWITCH]
    assert found.dtypes.equals(complete_frame.dtypes)
    assert found.attrs["mirror"]["taken_at"] == "2026-01-05T08:00:00.000Z"
    assert found.attrs["mirror"]["server"] == URL
    assert list(client.plan(found.assign(value=True)).frame["path"]) == found["path"].tolist()
    empty = ExplorerModel(client).frame([TEMPERATURE])
    assert (len(empty), list(empty)) == (0, list(complete_frame))


def test_a_key_that_may_only_read_sees_the_device_without_its_subscriptions(mirror, device_id):
    key = mirror.new_key(Scope.READ)
    with MirrorClient(URL, key, transport=mirror.transport) as reader:
        model = ExplorerModel(reader)
        model.choose(device_id)
        assert len(model.rows) == 3
        assert model.notices.texts == []


def test_an_erased_device_disappears_from_the_display(model, erase, device_id):
    model.read(TEMPERATURE)
    erase(device_id)
    model.load()
    model.load_devices()
    assert (model.rows, model.device_rows) == ([], [])
    assert "404" in model.notices.texts[0]
    assert len(model.frame([TEMPERATURE])) == 0


def test_last_values_stay_while_the_mirror_does_not_respond(model, client, device_id):
    model.read(TEMPERATURE)
    client.close()
    model.load()
    assert row(model, TEMPERATURE)["value"] == "21.5"
    assert model.notices.texts[0].startswith("Reading sensor-1: ")


def test_response_of_an_older_read_is_ignored(client, simulator, device_id, later):
    model = ExplorerModel(client, later)
    other = simulator.add_device("other", [{"path": "/3/0/0", "value": "x"}])
    model.choose(device_id)
    model.choose(other)
    later.make(1)
    later.make(0)
    assert model.title == "other"
    assert [one["path"] for one in model.rows] == ["/3/0/0"]


def test_a_device_is_read_within_a_second_of_its_events_and_every_ten_seconds(client, device_id, seconds, transport):
    model = ExplorerModel(client, clock=seconds)
    model.choose(device_id)
    transport.requests.clear()
    for _ in range(10):
        model.receive([observation(1, device_id)] * 100)
        seconds.now += 0.09
        model.tick()
    assert transport.requests == []
    seconds.now += 0.11
    model.tick()
    assert transport.requests == [
        f"GET /v3/devices/{device_id}/echo",
        f"GET /v2/subscriptions/{device_id}",
        f"GET /v3/devices/{device_id}/connection",
    ]
    transport.requests.clear()
    model.receive([observation(1, "another")])
    seconds.now += 9.9
    model.tick()
    assert transport.requests == []
    seconds.now += 0.2
    model.tick()
    assert len(transport.requests) == 3


def test_a_device_that_is_being_read_is_not_displayed_after_deselection(client, device_id, later):
    model = ExplorerModel(client, later)
    model.choose(device_id)
    model.choose(None)
    later.make_all()
    assert (model.title, model.rows) == ("No device chosen", [])


def test_resources_are_grouped_by_object_and_minor_ones_are_marked(client, simulator):
    paths = ("/3303/1/5700", TEMPERATURE, "/10250/0/1", "/3/0/0", "/3/0/4")
    device = simulator.add_device("many", [{"path": path, "value": "1"} for path in paths])
    client.read_value(device, TEMPERATURE)
    model = ExplorerModel(client)
    model.choose(device)
    assert [(one["group"], one["name"], one["is_minor"], one["access"]) for one in model.rows] == [
        ("Device", "Manufacturer", True, "R"),
        ("Device", "Reboot", False, "E"),
        ("Temperature 0", "Sensor Value", False, "R"),
        ("Temperature 1", "Sensor Value", True, "R"),
        ("Object 10250", "/10250/0/1", True, ""),
    ]


def test_a_value_is_typed_checked_and_written(model, client, simulator, device_id):
    client.read_value(device_id, SWITCH)
    model.load()
    model.open_resource(SWITCH)
    assert (model.editor.text, model.editor.form.hint) == ("false", "ticked is true, not ticked is false")
    model.enter("perhaps")
    assert "perhaps" in model.editor.problem
    with pytest.raises(InvalidValue):
        model.write(SWITCH, "perhaps")
    model.enter("on")
    assert model.editor.problem == ""
    model.write(SWITCH, model.editor.text)
    assert client.get_device(device_id)[SWITCH].desired_value is True
    model.load()
    assert model.editor.text == "on", "what was typed stays"
    model.open_resource(None)
    assert model.editor is None


def test_failed_write_says_why_and_can_be_acknowledged(model, client, simulator, device_id):
    simulator.set_response_mode(device_id, "reject")
    model.write(SWITCH, "true")
    failed = row(model, SWITCH)
    assert failed["status"] == "Failed"
    assert failed["hints"]["status"].startswith("The write failed: the device rejected the request")
    assert failed["activity"].startswith("Writing: ")
    model.acknowledge(SWITCH)
    assert row(model, SWITCH)["status"] == ""


def test_a_resource_is_executed(model, client, simulator, device_id, transport):
    model.execute(EXECUTABLE)
    assert row(model, EXECUTABLE)["activity"] == ""
    assert model.notices.texts == []
    simulator.set_response_mode(device_id, "reject")
    model.execute(EXECUTABLE, "0")
    assert model.notices.texts[0].startswith(f"Executing {EXECUTABLE} of sensor-1: ")


@pytest.mark.keeps_history
def test_past_of_the_device_is_read_and_grows_with_events(client, plain, simulator, device_id):
    plain.subscribe(device_id, TEMPERATURE)
    simulator.advance(3600)
    simulator.set_value(device_id, TEMPERATURE, 22)
    simulator.advance(1)
    model = ExplorerModel(client)
    model.choose(device_id)
    _, numbers = model.past.line(TEMPERATURE)
    assert numbers.tolist() == [21.5, 22]
    assert row(model, TEMPERATURE)["sparkline"]["values"] == [None, 21.5, 22]
    assert model.past_text == ""
    model.receive([observation(23, device_id, at=START + timedelta(hours=1, seconds=9))])
    assert model.past.line(TEMPERATURE)[1].tolist() == [21.5, 22, 23]
    with pytest.raises(InvalidValue, match="hours must be one of 1, 6, 24, 168, got 5"):
        model.show_hours(5)
    model.show_hours(168)
    assert model.past.line(TEMPERATURE)[1].tolist() == [21.5, 22, 23]
