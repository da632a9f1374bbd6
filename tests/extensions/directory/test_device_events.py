"""The events of device registrations, as a list. Source: wire.md 9."""

import pytest
from click.testing import CliRunner

from mirror_sdk.wire.device_events import DeviceEventPage
from mirror_server.cli import main
from mirror_server.devices.interface import NotRegistered
from mirror_server.extensions.directory.store import device_events

EVENTS = "/v3/device-events"


@pytest.fixture
def events(server, key):
    def call(path=EVENTS, **query):
        answer = server.call(key, "GET", path, query_string=query)
        assert answer.status_code == 200, answer.get_data()
        DeviceEventPage.model_validate(answer.json, extra="forbid")
        return answer.json["data"]

    return call


def test_registration_events_are_listed_in_order(server, key, device, events):
    server.advance(key, 1)
    for method in ("PUT", "POST", "DELETE"):
        server.registration(key, device, method)
    # The deregistration of a deregistered device changes nothing.
    server.services.devices.deregistered(device)
    with pytest.raises(NotRegistered):
        server.services.devices.registration_updated(device).result(60)
    server.registration(key, device, "POST")
    # Neither values nor writes nor restarts are events.
    server.subscribe(key, device)
    server.set_value(key, device, "22")
    server.submit(key, device, "r1", "GET", "/3303/0/5700")
    server.restart()
    server.patch(key, device, online=False)
    server.advance(key, 2 * 86400)
    found = events()
    assert [(event["event_type"], event["state_change"]) for event in found] == [
        ("registration", True),
        ("reg_update", False),
        ("registration", False),
        ("deregistration", True),
        ("deregistration", False),
        ("registration", True),
        ("expired", True),
    ]
    assert [event["id"] for event in found] == sorted(event["id"] for event in found)
    expected = {"device_id": device, "description": "Device deregistered", "data": {"endpoint_name": "sensor-1"}}
    expected |= {"event_type_description": "INFO", "changes": {}}
    times = dict.fromkeys(("date_time", "created_at", "etag"), "2026-01-05T08:00:01.000Z")
    assert found[3].items() >= (expected | times).items()
    for path in (EVENTS, "/v3/devicelog"):
        assert server.call(key, "GET", f"{path}/{found[3]['id']}").json == found[3]
        assert events(path) == found


def test_next_page_starts_after_the_previous_one(server, key, device, events):
    for _ in range(4):
        server.registration(key, device, "PUT")
    found = events()
    page = server.call(key, "GET", EVENTS, query_string={"limit": 2, "include": "total_count"}).json
    assert (page["data"], page["has_more"], page["total_count"]) == (found[:2], True, 5)
    assert events(limit=3, after=found[1]["id"]) == found[2:]
    assert events(order="DESC") == found[::-1]
    assert events(order="DESC", after=found[1]["id"]) == found[:1]


def test_device_events_are_filtered(server, key, events):
    a, b = (server.add_device(key, name) for name in "ab")
    server.advance(key, 60)
    server.registration(key, a, "PUT")
    server.registration(key, b, "DELETE")
    first, second, third, fourth = events()
    cases = {
        ("device_id", a): [first, third],
        ("device_id__neq", a): [second, fourth],
        ("event_type", "reg_update"): [third],
        ("event_type", "update.device.device-created"): [],
        ("event_type__nin", "reg_update,expired"): [first, second, fourth],
        ("description", "Device deregistered"): [fourth],
        ("state_change", "True"): [first, second, fourth],
        ("state_change__eq", "false"): [third],
        ("id__in", f"{second['id']},x,{fourth['id']}"): [second, fourth],
        ("date_time__gte", "2026-01-05T08:01:00Z"): [third, fourth],
        ("date_time__lte", "20260105T080059Z"): [first, second],
        ("filter", f"device_id={a}&date_time__gte=2026-01-05T08:01:00Z"): [third],
    }
    assert {case: events(**{case[0]: case[1]}) for case in cases} == cases


def test_invalid_query_is_400_with_its_name_and_unknown_id_404(server, key, check_error):
    cases = [
        ("color", "red"),
        ("state", "registered"),
        ("state_change", "perhaps"),
        ("date_time__gte", "yesterday"),
        ("after", "x"),
        ("after", "f" * 32),
        ("limit", "0"),
    ]
    for path in (EVENTS, "/v3/devicelog"):
        for field, value in cases:
            check_error(server.call(key, "GET", path, query_string={field: value}), 400, field)
    for event_id in ("x", "0" * 32, "f" * 32, "8" + "0" * 15, "%00"):
        assert EVENTS in check_error(server.call(key, "GET", f"{EVENTS}/{event_id}"), 404).message


def test_old_events_are_deleted_after_a_month_or_the_configured_time(server, key, device, events, new_server):
    server.advance(key, 29 * 86400)
    assert events()[0]["date_time"] == "2026-01-05T08:00:00.000Z"
    server.advance(key, 2 * 86400)
    found = events()
    assert found
    assert all(event["date_time"] > "2026-01-06" for event in found)
    assert server.call(key, "GET", f"/v3/devices/{device}").status_code == 200
    short = new_server(keep_device_events_seconds=3600)
    key = short.key()
    short.registration(key, short.add_device(key, "a"), "DELETE")
    short.advance(key, 3 * 3600)
    assert short.call(key, "GET", EVENTS).json["data"] == []


def test_invalid_setting_is_a_usage_error():
    cases = {
        ("--keep-device-events", "59s"): "59s is too short",
        ("--keep-device-events", "a month"): "is not a duration",
        ("--max-device-events", "999"): "not in the range",
    }
    for words, expected_message in cases.items():
        result = CliRunner().invoke(main, ["run", *words])
        assert result.exit_code == 2
        assert expected_message in " ".join(result.output.split())


def test_newest_events_stay_when_there_are_too_many(server, device):
    # After the events of the device's registration.
    begin = 2**50

    def fill(session):
        for revision in range(begin, begin + 10):
            device_events.add(session, revision, device, "reg_update", server.now, state_change=False)
        while device_events.drop(session, before=0, keep=4, most=3) == 3:
            pass
        return device_events.page(session, (), after=None, descending=False, limit=100)

    assert [row.revision for row in server.services.database.write(fill)] == [*range(begin + 6, begin + 10)]


@pytest.mark.with_extension("history")
def test_event_and_history_row_have_the_same_number(new_server):
    server = new_server(keep_history_seconds=86400)
    key = server.key()
    device = server.add_device(key, "a")
    server.registration(key, device, "DELETE")
    ids = [int(event["id"], 16) for event in server.call(key, "GET", EVENTS).json["data"]]
    text = server.call(key, "GET", "/v3/device-echo/history").get_data(as_text=True)
    assert len(ids) == 2
    assert all(f'"revision":{number}' in text for number in ids)
