"""Names, descriptions and custom attributes of devices, and filters by them. Source: wire.md 6 and 9."""

import pytest

from mirror_sdk.wire.directory import UNSUPPORTED_FIELDS, Device

DEVICES = "/v3/devices"
LAMP = {"name": "Lamp", "description": "by the window\nflickers", "custom_attributes": {"room": "B12", "Flügel": "ö"}}


@pytest.fixture
def say(server, key):
    def put(device_id, method="PUT", *, by=key, **said):
        answer = server.call(by, method, f"{DEVICES}/{device_id}", json=said)
        assert answer.status_code == 200, answer.get_data()
        Device.model_validate(answer.json, extra="forbid")
        assert answer.json == server.call(key, "GET", f"{DEVICES}/{device_id}").json
        return answer.json

    return put


@pytest.fixture
def rejected_as(server, key, device, check_error, unchanged):
    def put(method="PUT", **options):
        return check_error(server.call(key, method, f"{DEVICES}/{device}", **options), 400)

    return put


@pytest.fixture
def names(server, key):
    def call(**query):
        answer = server.call(key, "GET", DEVICES, query_string=query)
        assert answer.status_code == 200, answer.get_data()
        return "".join(sorted(device["endpoint_name"] for device in answer.json["data"]))

    return call


def test_description_is_returned_and_absent_members_stay(server, key, device, say):
    before = server.call(key, "GET", f"{DEVICES}/{device}").json
    assert before["name"] == "sensor-1"
    assert "description" not in before
    for method in ("PUT", "PATCH"):
        said = say(device, method, **LAMP)
        assert said.items() >= LAMP.items()
        assert say(device, method) == said
        assert say(device, method, name="Lantern").items() >= (LAMP | {"name": "Lantern"}).items()
        assert say(device, method, custom_attributes={"wing": "north"})["custom_attributes"] == {"wing": "north"}
    (listed,) = server.call(key, "GET", DEVICES).json["data"]
    assert listed == server.call(key, "GET", f"{DEVICES}/{device}").json
    for nothing in (None, ""):
        say(device, **LAMP)
        assert (
            say(device, name=nothing, description=nothing, custom_attributes=None if nothing is None else {}) == before
        )


def test_description_of_any_application_changes_the_etag_alone_and_lasts(server, key, other, device, say):
    before = server.call(key, "GET", f"{DEVICES}/{device}").json
    server.advance(key, 60)
    after = say(device, **LAMP, by=other)
    assert (after["updated_at"], after["created_at"]) == (before["updated_at"], before["created_at"])
    assert after["etag"] > before["etag"]
    server.advance(key, 60)
    assert say(device, **LAMP) == after, "nothing changed"
    server.restart()
    for method in ("PUT", "POST", "DELETE"):
        server.registration(key, device, method)
    lasting = server.call(key, "GET", f"{DEVICES}/{device}").json
    assert lasting.items() >= {**LAMP, "created_at": before["created_at"]}.items()
    assert lasting["etag"] > after["etag"]


def test_complete_device_can_be_sent_back(server, key, device, say):
    undescribed = server.call(key, "GET", f"{DEVICES}/{device}").json
    server.advance(key, 60)
    assert say(device, **undescribed) == undescribed, "its endpoint name is not a name of its own"
    say(device, **LAMP)
    complete = server.call(key, "GET", f"{DEVICES}/{device}").json
    in_microseconds = {name: complete[name].replace("Z", "000Z") for name in ("created_at", "updated_at", "etag")}
    nothing = dict.fromkeys(UNSUPPORTED_FIELDS)
    assert say(device, **(complete | {"name": "Lantern"} | in_microseconds | nothing))["name"] == "Lantern"


COLORS = """
from mirror_server.hooks import extends


@extends
def describe_devices(session, devices):
    return {each.device_id: {"color": ("red", 1), "endpoint_type": "painted"} for each in devices}
"""


def test_device_with_members_of_another_extension_may_be_sent_back(new_server, install, check_error):
    install("colors", COLORS)
    server = new_server()
    key = server.key()
    path = f"{DEVICES}/{server.add_device(key, 'sensor-1')}"
    complete = server.call(key, "GET", path).json
    assert complete["color"] == ["red", 1]
    for content in (complete, LAMP, {"color": None}):
        answer = server.call(key, "PUT", path, json=content)
        assert (answer.status_code, answer.json) == (200, server.call(key, "GET", path).json)
    message = check_error(server.call(key, "PUT", path, json=complete | {"color": "blue"}), 400, "color").message
    assert "not the current value" in message


def test_member_that_cannot_be_changed_is_400_with_its_name(rejected_as):
    cases = [
        ("id", "another", "cannot change"),
        ("endpoint_name", "another", "sets its endpoint name itself"),
        ("endpoint_type", "another", "sets its type itself"),
        ("state", "deregistered", "registers and deregisters itself"),
        ("queue_mode", True, "sets its queue mode itself"),
        ("created_at", "2020-01-01T00:00:00Z", "read the object again"),
        ("etag", "abc", "is not a time"),
        ("last_contact_at", "2020-01-01T00:00:00Z", "read the object again"),
        ("ca_id", "abc", "remove this member"),
        ("groups", ["abc"], "remove this member"),
        ("color", "red", "unknown field"),
        ("name", "a" * 129, "takes at most 128 characters"),
        ("name", "a\nb", "cannot be shown"),
        ("name", 1, "must be a string"),
        ("description", "a" * 2001, "takes at most 2000 characters"),
        ("description", "a\0b", "U+0000"),
        ("custom_attributes", {str.lower(c): "" for c in "ABCDEF"}, "takes at most 5 entries"),
        ("custom_attributes", ["a"], "must be an object"),
    ]
    for name, value, expected_message in cases:
        body = rejected_as(json={name: value, **({} if name == "description" else {"description": "new"})})
        assert [field.name for field in body.fields] == [name]
        assert expected_message in body.message


def test_invalid_custom_attribute_is_400_with_its_name(rejected_as):
    cases = [
        ({"1a": "x"}, "1a", "'1a' is not a valid attribute name; start with a letter"),
        ({"": "x"}, "''", "must not be empty"),
        ({"a" * 129: "x"}, "aaa", "takes at most 128 characters"),
        ({"a": "x" * 129}, "a", "takes at most 128 characters"),
        ({"a\n": "x"}, "a", "is not a valid attribute name; start with a letter"),
        ({"a": None}, "a", "must be a string"),
        ({"a": "\0"}, "a", "U+0000"),
    ]
    for attribute, name, expected_message in cases:
        (field, *_) = rejected_as(json={"custom_attributes": attribute}).fields
        assert field.name.startswith(f"custom_attributes.{name}")
        assert "[key]" not in field.name
        assert expected_message in field.message


def test_post_and_delete_of_devices_are_405_with_the_reason(server, key, device, check_error):
    assert "created when it registers" in check_error(server.call(key, "POST", DEVICES, json=LAMP), 405).message
    assert "operator can erase" in check_error(server.call(key, "DELETE", f"{DEVICES}/{device}"), 405).message


def test_devices_are_found_by_their_description(server, key, say, names):
    a, b, c = (server.add_device(key, name) for name in "abc")
    say(a, name="Lamp", description="old", custom_attributes={"room": "B12", "a__b": "x"})
    say(b, name="Lock", custom_attributes={"room": "B13"})
    cases = [
        ("name", {"": "", "Lamp": "a", "a": "", "c": "c", "lamp": ""}),
        ("name__neq", {"Lamp": "bc"}),
        ("name__nin", {"Lamp,Lock": "c"}),
        ("description", {"old": "a", "": "bc"}),
        ("custom_attributes__room", {"B12": "a", "": "c", "b12": ""}),
        ("custom_attributes__room__neq", {"B12": "bc"}),
        ("custom_attributes__a__b", {"x": "a"}),
        ("custom_attributes__' OR 1=1 --", {"x": ""}),
        ("device_class", {"embedded": ""}),
        ("device_class__neq", {"embedded": "abc"}),
        ("manifest_timestamp__lte", {"2026-01-05T08:00:00Z": ""}),
        ("state", {"registered": "abc", "bootstrapped": ""}),
        ("created_at__gte", {"20260105T080000Z": "abc", "20260105T080001Z": ""}),
        ("bootstrapped_timestamp", {"2026-01-05T08:00:00Z": "abc"}),
    ]
    for name, expected in cases:
        assert {value: names(**{name: value}) for value in expected} == expected, name
    assert names(filter="custom_attributes__room=B12&state=registered&name=Lamp") == "a"
    server.advance(key, 60)
    say(c, name="Key")
    assert names(etag__gte="2026-01-05T08:01:00Z") == "c"
    assert names(etag__lt="2026-01-05T08:01:00Z", include="total_count") == "ab"


def test_filter_that_names_no_attribute_is_400(server, key, check_error):
    for name in ("custom_attributes", "custom_attributes__", "custom_attributes__eq", "id__room"):
        answer = server.call(key, "GET", DEVICES, query_string={name: "x"})
        assert "custom_attributes__NAME" in check_error(answer, 400, name).message


def test_if_match_is_400(rejected_as):
    for method in ("PUT", "PATCH"):
        body = rejected_as(method, json={"name": "b"}, headers={"If-Match": '"nonsense"'})
        assert [field.name for field in body.fields] == ["If-Match"]
