"""The device directory: filters, pages, one device, its resources. Source: wire.md 6."""

from urllib.parse import quote

import pytest

from mirror_sdk.wire.directory import FILTER_FIELDS, FILTER_OPERATORS, Device, DevicePage, EndpointResource

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
    """a, b and c come at 8:00, 8:01 and 8:02; at 8:02 a updates its registration and b leaves."""
    found = {}
    for name, kind in [("a", "Light"), ("b", "Lock"), ("c", "Lock")]:
        found[name] = shared_server.add_device(key, name, endpoint_type=kind, queue_mode=name == "c")
        if name != "c":
            shared_server.advance(key, 60)
    shared_server.registration(key, found["a"], "PUT")
    shared_server.registration(key, found["b"], "DELETE")
    return found


@pytest.fixture
def names(server, key):
    def ask(query):
        answer = server.call(key, "GET", f"{DEVICES}?{query}")
        assert answer.status_code == 200, answer.get_data()
        DevicePage.model_validate(answer.json, extra="forbid")
        return "".join(sorted(device["endpoint_name"] for device in answer.json["data"]))

    return ask


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
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
        ("endpoint_type", "Lock", "bc"),
        ("endpoint_type__neq", "Lock", "a"),
        ("endpoint_type", "", ""),
        ("endpoint_type__in", "Light,Lock", "abc"),
        ("state", "registered", "ac"),
        ("state__neq", "registered", "b"),
        ("state__in", "registered,deregistered", "abc"),
        ("state__nin", "deregistered", "ac"),
        ("created_at", SECOND, "b"),
        ("created_at__neq", SECOND, "ac"),
        ("created_at__gte", SECOND, "bc"),
        ("created_at__lte", "2026-01-05T08:00:59.999Z", "a"),
        ("created_at__lte", "2026-01-05T08:00:59.999+0000", "a"),
        ("created_at__in", f"{FIRST},{THIRD}", "ac"),
        ("created_at__nin", f"{FIRST},{THIRD}", "b"),
        ("created_at__gte", "2026-01-05T09:02:00+01:00", "c"),
        ("created_at__gte", "2026-01-05T09:02:00+0100", "c"),
        ("updated_at__lte", "2026-01-05T08:01:59.999Z", ""),
        ("updated_at__gte", THIRD, "abc"),
        ("id", "nobody", ""),
        ("endpoint_name", "' OR 1=1 --", ""),
    ],
)
def test_every_operator_in_both_spellings(names, name, value, expected):
    pair = f"{name}={quote(value)}"
    assert names(pair) == expected
    assert names(f"filter={quote(pair, safe='')}") == expected


def test_devices_are_found_by_id(names, ids):
    assert names(f"id={ids['a']}") == "a"
    assert names(f"id__neq={ids['a']}") == "bc"
    assert names(f"id__in={ids['a']},{ids['c']}") == "ac"
    assert names(f"id__gte={min(ids.values())}&id__lte={min(ids.values())}") in "abc"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("state=registered&endpoint_type=Lock", "c"),
        ("filter=state%3Dregistered%26endpoint_type__eq%3DLock", "c"),
        ("filter=state%3Dregistered&endpoint_type=Lock", "c"),
        ("filter=state%3Dregistered&filter=endpoint_type%3DLock", "c"),
        ("endpoint_name__gte=b&endpoint_name__gte=c", "c"),
        ("endpoint_name__gt=a&endpoint_name__lt=c", "b"),
        ("filter=", "abc"),
    ],
)
def test_all_filters_hold_together(names, query, expected):
    assert names(query) == expected


@pytest.mark.parametrize(
    "name",
    ["colour", "state__like", "endpoint_name__", "__eq", "State", "state_eq", "queue_mode", "id__eq__eq", "Limit"],
)
@pytest.mark.parametrize("spelling", ["parameter", "filter"])
def test_an_unknown_filter_is_named_and_the_known_ones_are_listed(server, key, refused, name, spelling):
    query = f"{name}=x" if spelling == "parameter" else f"filter={name}%3Dx"
    body = refused(server.call(key, "GET", f"{DEVICES}?{query}"), 400, name)
    assert all(known in body.message for known in FILTER_FIELDS)
    assert all(f"__{known}" in body.message for known in FILTER_OPERATORS)


@pytest.mark.parametrize(
    ("query", "field", "told"),
    [
        ("state=gone", "state", "registered or deregistered"),
        ("state__in=registered,gone", "state__in", "'gone'"),
        ("state=", "state", "registered"),
        ("created_at=today", "created_at", "2026-11-20T12:37:55.576Z"),
        ("created_at__gte=2026-01-05T08:00:00", "created_at__gte", "2026-11-20T12:37:55.576Z"),
        ("created_at__gte=1767600000", "created_at__gte", "2026-11-20T12:37:55.576Z"),
        ("created_at__in=2026-01-05T08:00:00Z,x", "created_at__in", "'x'"),
        ("updated_at__lte=", "updated_at__lte", "time"),
        ("updated_at__lte=2026-13-05T08:00:00Z", "updated_at__lte", "time"),
        ("filter=created_at%3Dtoday", "created_at", "time"),
        *[(f"limit={value}", "limit", "2 to 1000") for value in ("", "0", "1", "1001", "-2", "x", "2.0")],
        *[(f"order={value}", "order", "ASC or DESC") for value in ("", "asc", "UP")],
        *[(f"include={value}", "include", "total_count") for value in ("", "x", "total_count,x")],
    ],
)
def test_a_bad_value_is_named_with_the_cure(server, key, refused, query, field, told):
    assert told in refused(server.call(key, "GET", f"{DEVICES}?{query}"), 400, field).message


@pytest.mark.parametrize("spelling", ["parameter", "filter"])
def test_too_many_filters_are_refused_by_their_limit(server, key, refused, names, spelling):
    def query(count):
        pairs = "&".join(["endpoint_name=a"] * count)
        return pairs if spelling == "parameter" else f"filter={quote(pairs, safe='')}"

    assert names(query(100)) == "a"
    for count in [101, 3000]:
        assert "100" in refused(server.call(key, "GET", f"{DEVICES}?{query(count)}"), 400).message


@pytest.mark.parametrize("name", ["name__neq", "description", "etag__gte", "custom_attributes__room__neq"])
def test_too_many_filters_that_are_looked_up_for_each_device_are_refused(server, key, refused, name):
    one = f"{name}={quote(FIRST)}"
    assert (
        server.call(key, "GET", f"{DEVICES}?{'&'.join([one] * 10)}&{'&'.join(['id__neq=x'] * 90)}").status_code == 200
    )
    told = refused(server.call(key, "GET", f"{DEVICES}?{'&'.join([one] * 11)}"), 400).message
    assert "10 is the limit" in told


def test_too_many_values_of_a_filter_are_refused_by_their_limit(server, key, refused, names):
    def query(count):
        return "endpoint_name__in=" + ",".join(["a"] * count)

    assert names(query(1000)) == "a"
    assert "1000" in refused(server.call(key, "GET", f"{DEVICES}?{query(1001)}"), 400).message


@pytest.mark.parametrize("order", ["ASC", "DESC"])
def test_pages_follow_each_other(server, key, ids, order):
    expected = sorted(ids.values(), reverse=order == "DESC")
    first = server.call(key, "GET", f"{DEVICES}?limit=2&order={order}").json
    assert [device["id"] for device in first["data"]] == expected[:2]
    assert (first["has_more"], first["limit"], first["order"], first["after"]) == (True, 2, order, None)
    after = expected[1]
    second = server.call(key, "GET", f"{DEVICES}?limit=2&order={order}&after={after}&include=total_count").json
    assert [device["id"] for device in second["data"]] == expected[2:]
    assert (second["has_more"], second["after"], second["total_count"]) == (False, after, 3)
    last = server.call(key, "GET", f"{DEVICES}?order={order}&after={expected[-1]}").json
    assert (last["data"], last["has_more"]) == ([], False)


def test_a_page_that_is_just_full_has_no_more(server, key):
    page = server.call(key, "GET", f"{DEVICES}?limit=2&endpoint_type=Lock").json
    assert (len(page["data"]), page["has_more"]) == (2, False)


def test_the_usual_page(server, key, ids):
    page = server.call(key, "GET", DEVICES).json
    assert [device["id"] for device in page.pop("data")] == sorted(ids.values())
    assert page == {"object": "list", "has_more": False, "limit": 50, "order": "ASC", "after": None}
    assert server.call(key, "GET", f"{DEVICES}?limit=1000").json["limit"] == 1000


@pytest.mark.parametrize("include", ["total_count", "totalCount"])
def test_the_total_is_told_to_who_asks_in_either_spelling(server, key, include):
    assert server.call(key, "GET", f"{DEVICES}?include={include}&limit=2").json["total_count"] == 3


def test_the_total_counts_what_the_filters_leave(server, key):
    query = "include=total_count&endpoint_type=Lock&state=registered"
    assert server.call(key, "GET", f"{DEVICES}?{query}").json["total_count"] == 1


def test_one_device_is_what_the_list_shows_of_it(server, key, ids, refused):
    body = server.call(key, "GET", f"{DEVICES}/{ids['c']}").json
    Device.model_validate(body, extra="forbid")
    assert body == {
        "object": "device",
        "id": ids["c"],
        "name": "c",
        "endpoint_name": "c",
        "endpoint_type": "Lock",
        "state": "registered",
        "created_at": "2026-01-05T08:02:00.000Z",
        "updated_at": "2026-01-05T08:02:00.000Z",
        "etag": "2026-01-05T08:02:00.000Z",
        "bootstrapped_timestamp": "2026-01-05T08:02:00.000Z",
        "custom_attributes": {},
        "queue_mode": True,
        "last_contact_at": "2026-01-05T08:02:00.000Z",
    }
    assert body in server.call(key, "GET", DEVICES).json["data"]
    assert server.call(key, "GET", f"{DEVICES}/{ids['b']}/").json["state"] == "deregistered"
    assert refused(server.call(key, "GET", f"{DEVICES}/nobody"), 404).reason == "DEVICE_NOT_FOUND"


def test_a_registration_keeps_the_time_of_the_first_one(server, key, ids):
    assert server.call(key, "GET", f"{DEVICES}/{ids['a']}").json["created_at"] == "2026-01-05T08:00:00.000Z"
    assert server.call(key, "GET", f"{DEVICES}/{ids['a']}").json["updated_at"] == "2026-01-05T08:02:00.000Z"


def test_the_endpoints_list_what_the_device_has_now(server, key, refused):
    resources = [{"path": "/3/0/0", "value": "x"}, {"path": "/3303/0/5700", "observable": True}]
    device = server.add_device(key, "z", *resources)
    server.set_value(key, device, "1", "/3311/0/5850", observable=True)
    server.call(key, "DELETE", f"/sim/v1/devices/{device}/resources/3/0/0")
    listed = server.call(key, "GET", f"/v2/endpoints/{device}").json
    assert {entry["uri"]: entry["obs"] for entry in listed} == {"/3/0/0": False, "/3303/0/5700": True}
    server.registration(key, device, "PUT")
    listed = server.call(key, "GET", f"/v2/endpoints/{device}/").json
    for entry in listed:
        EndpointResource.model_validate(entry, extra="forbid", strict=True)
    assert sorted(listed, key=lambda entry: entry["uri"]) == [
        {"uri": uri, "obs": True, "rt": "", "type": "text/plain"} for uri in ("/3303/0/5700", "/3311/0/5850")
    ]
    refused(server.call(key, "GET", "/v2/endpoints/nobody"), 404)
