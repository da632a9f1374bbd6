"""The device directory: filters, pages, one device, its resources. Source: wire.md 6."""

from urllib.parse import quote

import pytest
from asgi_requests import check_off_the_loop

from mirror_sdk.wire.directory import FILTER_FIELDS, FILTER_OPERATORS, Device, DevicePage
from mirror_server.config import Settings
from mirror_server.store import devices as stored_devices
from mirror_server.web.asgi_bridge import ASGIBridge

DEVICES = "/v3/devices"
FIRST, SECOND, THIRD = "2026-01-05T08:00:00Z", "2026-01-05T08:01:00Z", "2026-01-05T08:02:00Z"


@pytest.fixture(scope="module")
def server(shared_server):
    return shared_server


@pytest.fixture(scope="module")
def key(shared_server):
    return shared_server.key()


@pytest.fixture(scope="module", autouse=True)
def ids(shared_server, key):
    """Devices a, b and c, which register at 8:00, 8:01 and 8:02. Then a updates its registration and b deregisters."""
    found = {}
    for name, kind in [("a", "Light"), ("b", "Lock"), ("c", "Lock")]:
        found[name] = shared_server.add_device(key, name, endpoint_type=kind, queue_mode=name == "c")
        if name != "c":
            shared_server.advance(key, 60)
    shared_server.registration(key, found["a"], "PUT")
    shared_server.registration(key, found["b"], "DELETE")
    return found


@pytest.fixture(params=["by index", "by id"])
def names(server, key, monkeypatch, request):
    if request.param == "by id":
        monkeypatch.setattr(stored_devices, "_MANY", 1)

    def call(query):
        answer = server.call(key, "GET", f"{DEVICES}?{query}")
        assert answer.status_code == 200, answer.get_data()
        DevicePage.model_validate(answer.json, extra="forbid")
        return "".join(sorted(device["endpoint_name"] for device in answer.json["data"]))

    return call


def test_every_filter_operator_works_in_both_spellings(names, ids):
    cases = [
        ("endpoint_name", "a", "a"),
        ("endpoint_name__eq", "a", "a"),
        ("endpoint_name__neq", "a", "bc"),
        ("endpoint_name__in", "a,c,x", "ac"),
        ("endpoint_name__nin", "a,c,x", "b"),
        ("endpoint_name__gte", "b", "bc"),
        ("endpoint_name__lte", "b", "ab"),
        ("endpoint_name__gt", "b", "c"),
        ("endpoint_name__lt", "b", "a"),
        ("name__eq", "b", "b"),
        ("endpoint_type", "", ""),
        ("state", "registered", "ac"),
        ("state__neq", "registered", "b"),
        ("state", "bootstrapped", ""),
        ("created_at", SECOND, "b"),
        ("created_at__gte", SECOND, "bc"),
        ("created_at__lte", "2026-01-05T08:00:59.999+0000", "a"),
        ("created_at__in", f"{FIRST},{THIRD}", "ac"),
        ("created_at__gte", "2026-01-05T09:02:00+01:00", "c"),
        ("updated_at__lte", "2026-01-05T08:01:59.999Z", ""),
        ("updated_at__gte", THIRD, "abc"),
        ("id__neq", ids["a"], "bc"),
        ("id__in", f"{ids['a']},{ids['c']}", "ac"),
        ("endpoint_name", "' OR 1=1 --", ""),
    ]
    for name, value, expected in cases:
        pair = f"{name}={quote(value)}"
        assert names(pair) == expected, pair
        assert names(f"filter={quote(pair, safe='')}") == expected, pair


def test_all_filters_must_match(names):
    cases = {
        "state=registered&endpoint_type=Lock": "c",
        "filter=state%3Dregistered%26endpoint_type__eq%3DLock": "c",
        "filter=state%3Dregistered&endpoint_type=Lock": "c",
        "filter=state%3Dregistered&filter=endpoint_type%3DLock": "c",
        "endpoint_name__gte=b&endpoint_name__gte=c": "c",
        "endpoint_name__gt=a&endpoint_name__lt=c": "b",
        "filter=": "abc",
    }
    assert {query: names(query) for query in cases} == cases


def test_unknown_filter_is_named_and_the_known_ones_are_listed(server, key, check_error):
    for name in ("color", "state__like", "endpoint_name__", "__eq", "State", "queue_mode", "last_contact_at"):
        for query in (f"{name}=x", f"filter={name}%3Dx"):
            body = check_error(server.call(key, "GET", f"{DEVICES}?{query}"), 400, name)
            assert all(known in body.message for known in (*FILTER_FIELDS, "limit, after, order, include"))
            assert all(f"__{known}" in body.message for known in FILTER_OPERATORS)


def test_invalid_value_is_400_with_the_cure(server, key, check_error):
    cases = [
        ("state=gone", "state", "registered or deregistered"),
        ("state__in=registered,gone", "state__in", "'gone'"),
        ("created_at=today", "created_at", "2026-11-20T12:37:55.576Z"),
        ("created_at__gte=2026-01-05T08:00:00", "created_at__gte", "2026-11-20T12:37:55.576Z"),
        ("created_at__gte=1767600000", "created_at__gte", "2026-11-20T12:37:55.576Z"),
        ("created_at__in=2026-01-05T08:00:00Z,x", "created_at__in", "'x'"),
        ("updated_at__lte=", "updated_at__lte", "time"),
        ("filter=created_at%3Dtoday", "created_at", "time"),
        *[(f"limit={value}", "limit", "2 to 1000") for value in ("", "1", "1001", "-2", "x", "2.0")],
        *[(f"order={value}", "order", "ASC or DESC") for value in ("", "asc")],
        *[(f"include={value}", "include", "total_count") for value in ("", "total_count,x")],
    ]
    for query, field, expected_message in cases:
        assert expected_message in check_error(server.call(key, "GET", f"{DEVICES}?{query}"), 400, field).message


def test_too_many_filters_or_values_are_400_with_the_limit(server, key, check_error, names):
    def assert_limited(fits, too_many, limit):
        names(fits)
        assert limit in check_error(server.call(key, "GET", f"{DEVICES}?{too_many}"), 400).message

    def repeated(pair, count):
        return "&".join([pair] * count)

    def as_filter(query):
        return f"filter={quote(query, safe='')}"

    for spell in (str, as_filter):
        assert_limited(spell(repeated("id=a", 100)), spell(repeated("id=a", 101)), "100")
    assert_limited("id__in=" + ",".join(["a"] * 1000), "id__in=" + ",".join(["a"] * 1001), "1000")
    # Filters that need a query for each device.
    for name in ("name__neq", "description", "etag__gte", "custom_attributes__room__neq"):
        one = f"{name}={quote(FIRST)}"
        fits = f"{repeated(one, 10)}&{repeated('id__neq=x', 90)}"
        assert_limited(fits, repeated(one, 11), "the limit is 10")


def test_pages_follow_each_other_in_either_order(server, key, ids):
    def page(query=""):
        body = server.call(key, "GET", f"{DEVICES}?{query}").json
        return [device["id"] for device in body.pop("data")], body

    for order in ("ASC", "DESC"):
        expected = sorted(ids.values(), reverse=order == "DESC")
        found, rest = page(f"limit=2&order={order}")
        assert found == expected[:2]
        assert rest == {"object": "list", "has_more": True, "limit": 2, "order": order, "after": None}
        found, rest = page(f"limit=2&order={order}&after={expected[1]}&include=total_count")
        assert found == expected[2:]
        assert (rest["has_more"], rest["after"], rest["total_count"]) == (False, expected[1], 3)
        found, rest = page(f"order={order}&after={expected[-1]}")
        assert (found, rest["has_more"]) == ([], False)
    found, rest = page("limit=2&endpoint_type=Lock&include=totalCount")
    assert (len(found), rest["has_more"], rest["total_count"]) == (2, False, 2), "just full"
    found, rest = page()
    assert found == sorted(ids.values())
    assert rest == {"object": "list", "has_more": False, "limit": 50, "order": "ASC", "after": None}
    assert page("limit=1000")[1]["limit"] == 1000


def test_device_equals_its_entry_in_the_list(server, key, ids):
    body = server.call(key, "GET", f"{DEVICES}/{ids['c']}").json
    Device.model_validate(body, extra="forbid")
    times = dict.fromkeys(("created_at", "updated_at", "etag", "last_contact_at"), "2026-01-05T08:02:00.000Z")
    assert body.items() >= {"id": ids["c"], "name": "c", "state": "registered", "queue_mode": True, **times}.items()
    assert body in server.call(key, "GET", DEVICES).json["data"]
    assert server.call(key, "GET", f"{DEVICES}/{ids['b']}/").json["state"] == "deregistered"
    # An update of the registration does not change the time of the first one.
    updated = server.call(key, "GET", f"{DEVICES}/{ids['a']}").json
    assert (updated["created_at"], updated["updated_at"]) == ("2026-01-05T08:00:00.000Z", "2026-01-05T08:02:00.000Z")


def test_unknown_device_is_404_with_its_name(server, key, check_error):
    name = {"name": "lamp"}
    requests = [("PUT", "", name), ("PATCH", "", name), ("GET", "/connection", None), ("GET", "/contacts", None)]
    for method, path, body in requests:
        error = check_error(server.call(key, method, f"{DEVICES}/nobody{path}", json=body), 404)
        assert error.reason == "DEVICE_NOT_FOUND"
        assert "nobody" in error.message


@pytest.mark.anyio
async def test_loop_serves_others_during_a_slow_query(server, key):
    bridge = ASGIBridge(server.app, Settings(max_body_bytes=1000, max_parked_polls=100))
    paths = [f"{DEVICES}?{query}" for query in ("name__neq=x", "description=by the door", f"etag__gte={quote(FIRST)}")]
    for path in [*paths, "/v3/device-events?event_type=expired"]:
        await check_off_the_loop(server, bridge, key, path)
