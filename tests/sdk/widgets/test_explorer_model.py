"""The explorer's model alone."""

from datetime import UTC, datetime

import pytest

from mirror_sdk import Event, EventKind, MirrorClient
from mirror_sdk.frames import DriftKind
from mirror_sdk.widgets.models.explorer_model import DEVICES_SHOWN, ROWS_SHOWN, ExplorerModel
from mirror_server.keys import Scope

TEMPERATURE, SWITCH, REBOOT = "/3303/0/5700", "/3311/0/5850", "/3/0/4"


@pytest.fixture
def model(client, device_id):
    made = ExplorerModel(client)
    made.load_devices()
    made.choose(device_id)
    return made


def row(model, path):
    return next(one for one in model.rows if one.path == path)


def observation(device_id, kind=EventKind.OBSERVATION):
    return Event(kind=kind, received_at=datetime(2026, 1, 1, tzinfo=UTC), device_id=device_id)


def test_search_and_filters_narrow_the_devices_and_send_nothing(model, bench, transport):
    bench.add_device("thermometer", endpoint_type="Sensor")
    bench.deregister(bench.add_device("lamp", endpoint_type="Light"))
    model.load_devices()
    transport.requests.clear()
    assert [device.endpoint_name for device in model.devices] == ["lamp", "sensor-1", "thermometer"]
    assert model.values_of("endpoint_type") == ["Light", "Sensor"]
    model.find(search=" LAM ")
    assert [text for text, _ in model.choices if "lamp" in text] == ["lamp · deregistered"]
    assert model.devices_text == "1 of 3 devices"
    model.find(search="", endpoint_type="Light", state="registered")
    assert [device.endpoint_name for device in model.devices] == ["sensor-1"]
    model.find(resource_search="temp", state="", endpoint_type="")
    assert [one.path for one in model.rows] == [TEMPERATURE]
    assert transport.requests == []


def test_a_device_that_no_filter_matches_stays_chosen(model, device_id):
    model.find(search="nothing like it")
    assert (model.choices, model.device_id, model.title) == ([], device_id, "sensor-1")


def test_devices_of_one_name_are_told_apart_by_their_ids(client, bench):
    ids = {bench.add_device(name) for name in ("twin", "other")}
    model = ExplorerModel(client)
    model.load_devices()
    first = model.devices[0]
    model._took_devices(model._listing.begin(), [*model._devices, first.model_copy(update={"id": "another"})])
    names = {device_id: text for text, device_id in model.choices}
    assert names["another"] == f"{first.endpoint_name} (another)"
    assert first.id in ids


def test_of_many_devices_a_bounded_number_is_listed(model):
    first = model.devices[0]
    many = [first.model_copy(update={"id": f"{n:04}", "endpoint_name": f"d{n:04}"}) for n in range(5000)]
    model._took_devices(model._listing.begin(), many)
    assert len(model.choices) == DEVICES_SHOWN
    assert model.devices_text == "5,000 devices"
    model.turn_device_page(9999)
    assert model.choices[-1] == ("d4999", "4999")
    model.find(search="d0")
    assert model.choices[0] == ("d0000", "0000")


def test_a_type_is_found_by_its_name_or_a_part_of_names(model, bench):
    for kind in ("LightStrip", "Sensor"):
        bench.add_device(kind, endpoint_type=kind)
    model.load_devices()
    model.find(endpoint_type="ligh")
    assert [device.endpoint_type for device in model.devices] == ["LightStrip", "Light"]
    model.find(endpoint_type=" light ")
    assert [device.endpoint_type for device in model.devices] == ["Light"]


def test_a_read_brings_value_unit_and_time(model):
    assert row(model, TEMPERATURE).value == ""
    model.read(TEMPERATURE)
    read = row(model, TEMPERATURE)
    assert (read.value, read.reported_at, read.activity) == ("21.5", "08:00:00", "")
    assert model.notices.texts == []


def test_a_unit_of_the_device_stands_behind_its_number(model, bench, client, device_id):
    bench.set_value(device_id, "/3303/0/5701", "Cel")
    bench.update_registration(device_id)
    for path in ("/3303/0/5701", TEMPERATURE):
        model.read(path)
    assert row(model, TEMPERATURE).value == "21.5 Cel"


def test_a_refused_read_is_told_and_goes_when_the_next_works(model, bench, device_id):
    bench.set_answer(device_id, "reject")
    model.read(TEMPERATURE)
    (notice,) = model.notices.texts
    assert notice.startswith(f"Reading {TEMPERATURE} of sensor-1: ")
    bench.set_answer(device_id, "normal")
    model.read(TEMPERATURE)
    assert model.notices.texts == []


def test_a_read_under_way_is_shown_and_not_begun_again(client, device_id, later, transport):
    model = ExplorerModel(client, later)
    model.choose(device_id)
    later.make_all()
    model.read(TEMPERATURE)
    model.read(TEMPERATURE)
    assert row(model, TEMPERATURE).activity == "reading …"
    assert len(later.waiting) == 1
    later.make_all()
    assert row(model, TEMPERATURE).activity == ""
    assert sum("device-requests" in request for request in transport.requests) == 1


def test_subscribing_and_ending_it(model, client, device_id):
    model.toggle_subscription(TEMPERATURE)
    assert client.is_subscribed(device_id, TEMPERATURE)
    client.read_value(device_id, TEMPERATURE)  # answered after the subscription, for a device takes one at a time
    model.load()
    assert (row(model, TEMPERATURE).subscription, row(model, TEMPERATURE).is_own) == ("subscribed", True)
    model.toggle_subscription(TEMPERATURE)
    assert not client.is_subscribed(device_id, TEMPERATURE)
    assert (row(model, TEMPERATURE).subscription, row(model, TEMPERATURE).is_own) == ("", False)


def test_a_subscription_of_another_application_is_told_as_such(model, mirror, device_id):
    with MirrorClient("http://mirror.localhost", mirror.new_key(), transport=mirror.transport) as other:
        other.subscribe(device_id, TEMPERATURE)
        other.read_value(device_id, TEMPERATURE)
    model.load()
    assert row(model, TEMPERATURE).subscription == "by another key"


def test_a_device_that_is_offline_leaves_a_subscription_asked_for(model, bench, device_id):
    bench.set_online(device_id, False)
    model.toggle_subscription(TEMPERATURE)
    assert row(model, TEMPERATURE).subscription == "asked for"


def test_what_cannot_be_observed_is_told(model):
    model.toggle_subscription(REBOOT)
    (notice,) = model.notices.texts
    assert notice.startswith(f"Subscribing {REBOOT} of sensor-1: 400 NOT_OBSERVABLE")


def test_drift_marks(model, client, bench, device_id):
    client.write_value(device_id, SWITCH, True)
    bench.set_value(device_id, SWITCH, False)
    client.read_value(device_id, SWITCH)
    model.load()
    assert row(model, SWITCH).drift is DriftKind.REVERTED
    assert row(model, SWITCH).drift_text == "≠ differs\ntrue"
    bench.set_online(device_id, False)
    client.begin_write(device_id, SWITCH, False)
    model.load()
    assert row(model, SWITCH).drift is DriftKind.PENDING
    model.find(only_drift=True)
    assert [one.path for one in model.rows] == [SWITCH]


def test_what_is_unconfirmed_says_so_and_is_no_drift(model, client, device_id):
    client.read_value(device_id, SWITCH)
    client.write_value(device_id, SWITCH, True)
    model.load()
    shown = row(model, SWITCH)
    assert (shown.drift, shown.drift_text) == (DriftKind.UNCONFIRMED, "? unconfirmed\ntrue")
    assert shown.drift_hint == (
        "The device took true; the last report, false, is older: read it, or subscribe, to confirm."
    )
    model.find(only_drift=True)
    assert model.rows == []
    model.find(only_drift=False)
    client.read_value(device_id, SWITCH)
    model.load()
    assert (row(model, SWITCH).drift, row(model, SWITCH).drift_hint) == (None, "")


def test_a_key_that_may_only_read_sees_the_device_without_its_subscriptions(mirror, device_id):
    key = mirror.new_key(Scope.READ)
    with MirrorClient("http://mirror.localhost", key, transport=mirror.transport) as reader:
        model = ExplorerModel(reader)
        model.choose(device_id)
        assert len(model.rows) == 3
        assert model.notices.texts == []


def test_a_device_that_is_unknown_is_told(model):
    model.choose("0" * 32)
    assert model.rows == []
    assert "404" in model.notices.texts[0]
    assert model.subtitle.endswith("could not be read")


def test_an_answer_that_was_overtaken_is_not_shown(client, bench, device_id, later):
    model = ExplorerModel(client, later)
    other = bench.add_device("other", [{"path": "/3/0/0", "value": "x"}])
    model.choose(device_id)
    model.choose(other)
    later.make(1)
    later.make(0)
    assert model.title == "other"
    assert [one.path for one in model.rows] == ["/3/0/0"]


def test_events_have_the_device_looked_at_once_within_a_second(client, device_id, seconds, transport):
    model = ExplorerModel(client, clock=seconds)
    model.choose(device_id)
    transport.requests.clear()
    for _ in range(10):
        model.take([observation(device_id)] * 100)
        seconds.now += 0.09
        model.tick()
    assert transport.requests == []
    seconds.now += 0.11
    model.tick()
    assert transport.requests == [f"GET /v3/devices/{device_id}/echo", f"GET /v2/subscriptions/{device_id}"]


def test_what_happens_to_other_devices_sends_nothing_and_the_mirror_is_looked_at_every_ten_seconds(
    client, device_id, seconds, transport
):
    model = ExplorerModel(client, clock=seconds)
    model.choose(device_id)
    transport.requests.clear()
    model.take([observation("another")])
    seconds.now += 9.9
    model.tick()
    assert transport.requests == []
    seconds.now += 0.2
    model.tick()
    assert len(transport.requests) == 2


def test_a_new_device_is_listed_soon(client, bench, seconds):
    model = ExplorerModel(client, clock=seconds)
    model.load_devices()
    new = bench.add_device("new")
    model.take([observation(new, EventKind.REGISTRATION)])
    seconds.now += 1.1
    model.tick()
    assert [text for text, _ in model.choices] == ["new"]


def test_many_resources_come_in_pages(client, bench):
    count = 2 * ROWS_SHOWN + 5
    device = bench.add_device("big", [{"path": f"/10250/0/{number}", "value": "1"} for number in range(count)])
    model = ExplorerModel(client)
    model.choose(device)
    assert len(model.rows) == ROWS_SHOWN
    assert model.pages.text == "page 1 of 3"
    model.turn_page(7)
    assert len(model.rows) == 5
    model.turn_page(-9)
    assert model.rows[0].path == "/10250/0/0"


def test_a_long_value_is_cut(client, bench):
    device = bench.add_device("long", [{"path": "/10250/0/1", "value": "x" * 5000}])
    model = ExplorerModel(client)
    model.choose(device)
    model.read("/10250/0/1")
    assert row(model, "/10250/0/1").value == "x" * 59 + "…"
