"""Saved filters of the directory. Source: wire.md 9."""

import pytest

from mirror_sdk.wire.device_queries import MAX_QUERIES, DeviceQuery, DeviceQueryPage
from mirror_server.core.errors import CannotServe
from mirror_server.extensions.directory.store import device_queries
from mirror_server.extensions.directory.store.device_queries import DeviceQueryRow

QUERIES = "/v3/device-queries"
LIGHTS = {"name": "Lights", "query": "state=registered&endpoint_type=Light"}


@pytest.fixture
def save(server, key):
    def post(name="Lights", query="endpoint_type=Light", *, by=key):
        answer = server.call(by, "POST", QUERIES, json={"name": name, "query": query})
        assert answer.status_code == 201, answer.get_data()
        DeviceQuery.model_validate(answer.json, extra="forbid")
        assert answer.json == server.call(key, "GET", f"{QUERIES}/{answer.json['id']}").json
        return answer.json

    return post


@pytest.fixture
def page(server, key):
    def call(**query):
        answer = server.call(key, "GET", QUERIES, query_string=query)
        assert answer.status_code == 200, answer.get_data()
        DeviceQueryPage.model_validate(answer.json, extra="forbid")
        return answer.json

    return call


def test_a_query_is_saved_read_changed_and_deleted(server, key, save, page, check_error):
    saved = save(**LIGHTS)
    assert saved == {
        "object": "device-query",
        **LIGHTS,
        "id": saved["id"],
        **dict.fromkeys(("created_at", "updated_at", "etag"), "2026-01-05T08:00:00.000Z"),
    }
    server.advance(key, 60)
    path = f"{QUERIES}/{saved['id']}"
    changed = server.call(key, "PUT", path, json={"name": "Lamps"}).json
    at = "2026-01-05T08:01:00.000Z"
    assert changed == saved | {"name": "Lamps", "updated_at": at, "etag": at}
    server.advance(key, 60)
    assert server.call(key, "PATCH", path, json={"query": LIGHTS["query"]}).json == changed
    assert server.call(key, "PUT", path, json=changed | {"query": "id=a"}).json["query"] == "id=a"
    assert server.call(key, "DELETE", path).status_code == 204
    assert page()["data"] == []
    for method in ("GET", "PUT", "PATCH", "DELETE"):
        body = {} if method in {"GET", "DELETE"} else {"json": LIGHTS}
        assert QUERIES in check_error(server.call(key, method, path, **body), 404).message
    save(**LIGHTS)


def test_invalid_query_is_400_with_its_field(server, key, check_error, save, unchanged_from):
    saved = save(**LIGHTS)
    cases = [
        ({"name": "", "query": ""}, "name", "must not be empty"),
        ({"name": "a" * 201, "query": ""}, "name", "at most 200"),
        ({"name": "a\n", "query": ""}, "name", "cannot be shown"),
        ({"name": "a", "query": f"id={'a' * 1000}"}, "query", "at most 1000"),
        ({"name": "a", "query": "color=red"}, "query", "color"),
        ({"name": "a", "query": "state=broken"}, "query", "is not a state"),
        ({"name": "a", "query": "nonsense"}, "query", "unknown filter"),
        ({"name": "a", "query": {"state": "registered"}}, "query", "must be a string"),
        ({"name": "a", "query": "id=a\n"}, "query", "cannot be shown"),
        ({"name": "a", "query": "", "description": "x"}, "description", "remove this member"),
        ({"name": "a", "query": "", "owner": "x"}, "owner", "unknown field"),
    ]
    of_new = [
        ({"name": "a"}, "query", "missing"),
        ({"query": ""}, "name", "missing"),
        ({"name": "a", "query": "", "id": "1"}, "id", "remove the field"),
        ({"name": "Lights", "query": ""}, "name", "already"),
    ]
    with unchanged_from():
        for body, field, expected_message in [*cases, *of_new]:
            assert expected_message in check_error(server.call(key, "POST", QUERIES, json=body), 400, field).message
        for body, field, expected_message in cases:
            answer = server.call(key, "PUT", f"{QUERIES}/{saved['id']}", json=body)
            assert expected_message in check_error(answer, 400, field).message


def test_name_is_used_once_among_the_queries_of_all_applications(server, key, other, check_error, save, page):
    lights, locks = save("Lights", by=other), save("Locks")
    path = f"{QUERIES}/{locks['id']}"
    check_error(server.call(key, "PUT", path, json={"name": "Lights"}), 400, "name")
    assert server.call(key, "PUT", path, json={"name": "Locks"}).status_code == 200
    assert {query["name"] for query in page()["data"]} == {"Lights", "Locks"}
    assert server.call(key, "DELETE", f"{QUERIES}/{lights['id']}").status_code == 204
    assert server.call(other, "GET", QUERIES).json["data"] == [locks]


def test_members_of_the_service_and_a_condition_are_400(server, key, check_error, save, page):
    saved = save()
    path = f"{QUERIES}/{saved['id']}"
    server.restart()
    for member in ("id", "created_at", "updated_at", "etag"):
        value = "other" if member == "id" else "2020-01-01T00:00:00Z"
        check_error(server.call(key, "PUT", path, json={"name": "b", member: value}), 400, member)
    nothing = dict.fromkeys(("id", "created_at", "updated_at", "etag", "description"))
    assert server.call(key, "PUT", path, json=nothing).json == saved
    for method in ("PUT", "PATCH"):
        answer = server.call(key, method, path, json={"name": "b"}, headers={"If-Match": saved["etag"]})
        assert "`etag`" in check_error(answer, 400, "If-Match").message
    assert page()["data"] == [saved]


def test_device_queries_are_listed_in_pages_and_filtered(server, key, save, page, check_error):
    saved = []
    for number in range(5):
        saved.append(save(f"q{number}", f"name=n{number}"))
        server.advance(key, 1)
    assert page()["data"] == saved
    first = page(limit=2, include="total_count")
    assert (first["data"], first["has_more"], first["total_count"]) == (saved[:2], True, 5)
    rest = page(limit=3, after=first["data"][-1]["id"])
    assert (rest["data"], rest["has_more"], rest["after"]) == (saved[2:], False, saved[1]["id"])
    assert page(order="DESC", limit=2)["data"] == [saved[4], saved[3]]
    assert page(order="DESC", after=saved[1]["id"])["data"] == saved[:1]
    assert page(name="q1")["data"] == page(filter="name=q1")["data"] == [saved[1]]
    assert page(name__nin="q1,q2")["data"] == [saved[0], *saved[3:]]
    assert page(query__eq="name=n3")["data"] == [saved[3]]
    assert page(id__in=f"{saved[0]['id']},x")["data"] == saved[:1]
    assert page(created_at__gte=saved[3]["created_at"])["data"] == saved[3:]
    assert page(updated_at__lte=saved[1]["updated_at"], etag__gte=saved[1]["etag"])["data"] == [saved[1]]
    assert page(description="x")["data"] == []
    for field, value in (("state", "registered"), ("limit", 1)):
        check_error(server.call(key, "GET", QUERIES, query_string={field: value}), 400, field)


def test_number_of_queries_is_limited(server, key, save, check_error):
    def fill(session):
        for number in range(MAX_QUERIES):
            device_queries.put(session, DeviceQueryRow(f"{number:032x}", f"q{number}", "", server.now, server.now))

    server.services.database.write(fill)
    assert f"{MAX_QUERIES}" in check_error(server.call(key, "POST", QUERIES, json=LIGHTS), 400).message
    assert server.call(key, "DELETE", f"{QUERIES}/{0:032x}").status_code == 204
    save()


COLORS = """
from mirror_server.core.errors import ApiError
from mirror_server.hooks import DeviceField, extends


def read_length(name, text):
    if not text.isdecimal():
        raise ApiError.of_field(name, f"{text!r} is not a length")
    return int(text)


@extends
def device_fields():
    looked_up = "coalesce((SELECT d.endpoint_name FROM devices d WHERE d.device_id = devices.device_id), '')"
    return [DeviceField("color", looked_up), DeviceField("length", "length(endpoint_name)", read_length)]
"""


def test_fields_of_an_extension_filter_as_those_of_the_directory(new_server, install, check_error):
    install("colors", COLORS)
    server = new_server()
    key = server.key()
    for name in ("red", "blue", "green"):
        server.add_device(key, name)

    def found(**query):
        answer = server.call(key, "GET", "/v3/devices", query_string=query)
        return {device["endpoint_name"] for device in answer.json["data"]}

    assert found(color="red") == found(filter="color=red") == found(length="3") == {"red"}
    assert found(color__nin="red,blue", length__gte="4", state="registered") == {"green"}
    assert found(filter="color__neq=red&length__lt=5") == {"blue"}
    query = {"name": "short", "query": "length__lt=5&color=red"}
    assert server.call(key, "POST", "/v3/device-queries", json=query).status_code == 201
    wrong = {"name": "wrong", "query": "length=long"}
    assert (
        "not a length" in check_error(server.call(key, "POST", "/v3/device-queries", json=wrong), 400, "query").message
    )
    assert "not a length" in check_error(server.call(key, "GET", "/v3/devices?length=long"), 400, "length").message
    assert ", color, length," in check_error(server.call(key, "GET", "/v3/devices?x=1"), 400, "x").message
    many = "&".join(["color__neq=x"] * 11)
    assert (
        "by name, description, etag, color or attr"
        in check_error(server.call(key, "GET", f"/v3/devices?{many}"), 400).message
    )


def test_device_field_name_conflict_with_the_directory_prevents_the_start(new_server, install):
    install("colors", COLORS.replace('"color"', '"state"'))
    with pytest.raises(CannotServe, match="the server and the extension colors both have the device filter state"):
        new_server()
