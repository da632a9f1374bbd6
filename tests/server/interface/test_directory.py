"""The device directory and the lists of resources. Source: wire.md 6."""

import pytest

from mirror_sdk.wire.directory import Device, DevicePage

DEVICES = "/v3/devices"


@pytest.fixture(scope="module")
def key(shared_server):
    return shared_server.key()


@pytest.fixture(scope="module")
def ids(shared_server, key):
    """Five devices; e left, and a and b came a minute before the others."""
    server = shared_server
    found = {name: server.add_device(key, name, endpoint_type="Light" if name in "ab" else "Lock") for name in "ab"}
    server.advance(key, 60)
    found |= {name: server.add_device(key, name, endpoint_type="Lock", queue_mode=name == "c") for name in "cde"}
    server.registration(key, found["e"], "DELETE")
    return found


@pytest.fixture
def names(shared_server, key, ids):
    """The names of the devices a query gives."""

    def ask(query):
        answer = shared_server.call(key, "GET", f"{DEVICES}?{query}")
        assert answer.status_code == 200, answer.get_data()
        DevicePage.model_validate(answer.json, extra="forbid")
        return "".join(sorted(device["name"] for device in answer.json["data"]))

    return ask


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", "abcde"),
        ("state=registered", "abcd"),
        ("state__eq=deregistered", "e"),
        ("state__neq=registered", "e"),
        ("endpoint_type=Light", "ab"),
        ("endpoint_type__in=Light,Lock", "abcde"),
        ("endpoint_type__nin=Light,Fan", "cde"),
        ("endpoint_name__gte=b&endpoint_name__lte=d", "bcd"),
        ("endpoint_name__gt=b&endpoint_name__lt=e", "cd"),
        ("filter=state%3Dregistered%26endpoint_type__eq%3DLock", "cd"),
        ("filter=endpoint_name%3Da", "a"),
        ("name__eq=b", "b"),
        ("created_at__gte=2026-01-05T08:01:00Z", "cde"),
        ("created_at__lte=2026-01-05T08:00:59.999%2B0000", "ab"),
        ("updated_at__gte=2026-01-05T09:00:30%2B01:00&state=registered", "cd"),
        ("endpoint_name='%20OR%201=1", ""),
    ],
)
def test_filters_in_both_spellings(names, query, expected):
    assert names(query) == expected


def test_a_device_is_found_by_its_id(names, ids):
    assert names(f"id={ids['c']}") == "c"
    assert names(f"id__in={ids['a']},{ids['d']}") == "ad"


@pytest.mark.parametrize(
    ("query", "field", "told"),
    [
        ("colour=red", "colour", "endpoint_name"),
        ("state__like=x", "state__like", "__eq"),
        ("state=gone", "state", "deregistered"),
        ("created_at__gte=yesterday", "created_at__gte", "2026-11-20T12:37:55.576Z"),
        ("created_at__gte=1767600000", "created_at__gte", "2026-11-20T12:37:55.576Z"),
        ("filter=colour%3Dred", "colour", "endpoint_name"),
        ("limit=1", "limit", "2 to 1000"),
        ("limit=1001", "limit", "2 to 1000"),
        ("limit=x", "limit", "2 to 1000"),
        ("order=UP", "order", "ASC"),
        ("include=everything", "include", "total_count"),
    ],
)
def test_a_query_that_is_wrong_is_refused_with_what_is_known(shared_server, key, ids, query, field, told):
    answer = shared_server.call(key, "GET", f"{DEVICES}?{query}")
    assert (answer.status_code, answer.json["fields"][0]["name"]) == (400, field)
    assert told in answer.json["message"]


@pytest.mark.parametrize(("order", "expected"), [("ASC", 1), ("DESC", -1)])
def test_pages_follow_each_other_to_the_end(shared_server, key, ids, order, expected):
    seen = []
    after = ""
    while True:
        page = shared_server.call(key, "GET", f"{DEVICES}?limit=2&order={order}{after}").json
        assert (page["limit"], page["order"]) == (2, order)
        seen += [device["id"] for device in page["data"]]
        if not page["has_more"]:
            break
        after = f"&after={seen[-1]}"
    assert seen == sorted(ids.values())[::expected]


def test_the_total_is_counted_when_asked_for(shared_server, key, ids):
    assert (
        shared_server.call(key, "GET", f"{DEVICES}?include=total_count&limit=2&state=registered").json["total_count"]
        == 4
    )
    assert "total_count" not in shared_server.call(key, "GET", DEVICES).json


def test_one_device(shared_server, key, ids):
    body = shared_server.call(key, "GET", f"{DEVICES}/{ids['c']}").json
    Device.model_validate(body, extra="forbid")
    assert (body["name"], body["queue_mode"], body["created_at"]) == ("c", True, "2026-01-05T08:01:00.000Z")
    assert shared_server.call(key, "GET", f"{DEVICES}/nobody").json["reason"] == "DEVICE_NOT_FOUND"
    assert shared_server.call(key, "GET", f"{DEVICES}/nobody/echo").status_code == 404


def test_the_resources_of_a_device(shared_server, key, ids):
    listed = shared_server.call(key, "GET", f"/v2/endpoints/{ids['a']}").json
    assert listed == [{"uri": "/3303/0/5700", "obs": True, "rt": "", "type": "text/plain"}]
    assert shared_server.call(key, "GET", "/v2/endpoints/nobody").status_code == 404
