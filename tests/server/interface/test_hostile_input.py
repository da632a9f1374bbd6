"""Input that is made to confuse: refused with the field and the cure, and nothing is changed. Source: wire.md 0."""

import json

import databases
import pytest

from mirror_sdk.wire.errors import ErrorBody

PATH = "/3303/0/5700"


@pytest.fixture(scope="module")
def key(shared_server):
    shared_server.device = shared_server.add_device(
        shared_server.key(), "d", {"path": PATH, "value": "1", "writable": True, "observable": True}
    )
    made = shared_server.key()
    assert shared_server.services.database.settle(10)
    return made


@pytest.fixture
def unchanged(shared_server, key):
    """Checks at the end that nothing is stored that was not before."""

    def dump():
        with shared_server.services.database.read() as session:
            tables = databases.tables(shared_server.settings.database_url)
            return {table: sorted(map(repr, session.rows(f"SELECT * FROM {table}"))) for table in tables}

    before = dump()
    yield
    assert dump() == before


def refused(answer, code=400, field=None):
    assert answer.status_code == code, answer.get_data()
    body = ErrorBody.model_validate(answer.json, extra="forbid", strict=True)
    assert body.message
    if field is not None:
        assert [each.name for each in body.fields] == [field]
        assert field in body.message
    return body


REPEATED = [
    ("GET", "/v2/notification/pull", "after=1&after=2", "after"),
    ("GET", "/v2/notification/pull", "after=latest&after=latest", "after"),
    ("GET", "/v2/notification/pull", "after=0&hold=0&hold=1", "hold"),
    ("GET", "/v2/notification/events", "after=0&after=1", "after"),
    ("GET", "/v3/devices", "limit=2&limit=3", "limit"),
    ("GET", "/v3/devices", "after=a&after=b", "after"),
    ("GET", "/v3/devices", "order=ASC&order=DESC", "order"),
    ("GET", "/v3/devices", "include=total_count&include=total_count", "include"),
    ("POST", "/v2/device-requests/{device}", "async-id=a&async-id=b", "async-id"),
    ("POST", "/v2/device-requests/{device}", "retry=1&retry=2", "retry"),
    ("POST", "/v2/device-requests/{device}", "expiry-seconds=1&expiry-seconds=2", "expiry-seconds"),
    ("PUT", "/v2/subscriptions", "apply=now&apply=now", "apply"),
]


@pytest.mark.parametrize(("method", "path", "query", "field"), REPEATED)
def test_a_parameter_that_is_there_twice_is_refused(shared_server, key, unchanged, method, path, query, field):
    body = {"POST": {"method": "GET", "uri": PATH}, "PUT": []}.get(method)
    options = {} if body is None else {"json": body}
    url = f"{path.format(device=shared_server.device)}?{query}"
    assert "once" in refused(shared_server.call(key, method, url, **options), field=field).message


def test_an_expiry_that_contradicts_the_query_is_refused(shared_server, key, unchanged):
    url = f"/v2/device-requests/{shared_server.device}?expiry-seconds=5"
    body = {"method": "GET", "uri": PATH, "expiry_seconds": 6}
    refused(shared_server.call(key, "POST", url, json=body), field="expiry_seconds")


BODIES = {
    "POST /v2/device-requests/{device}": {"method": "PUT", "uri": PATH, "payload-b64": "MQ=="},
    "PUT /v2/notification/callback": {"url": "http://127.0.0.1:9/x"},
    "POST /sim/v1/devices": {"endpoint_name": "new"},
    "PATCH /sim/v1/devices/{device}": {"online": True},
    "PUT /sim/v1/devices/{device}/resources/3303/0/5700": {"value": "5"},
    "POST /sim/v1/clock": {"advance_seconds": 1},
}


@pytest.mark.parametrize("route", BODIES)
def test_a_member_that_is_there_twice_is_refused(shared_server, key, unchanged, route):
    method, path = route.format(device=shared_server.device).split()
    name, value = next(iter(BODIES[route].items()))
    text = json.dumps(BODIES[route])[:-1] + f", {json.dumps(name)}: {json.dumps(value)}}}"
    assert json.loads(text) == BODIES[route]
    refused(shared_server.call(key, method, path, data=text, content_type="application/json"), field=name)


@pytest.mark.parametrize("route", BODIES)
@pytest.mark.parametrize(
    "encode",
    [
        lambda text: text.encode("utf-16"),
        lambda text: text.encode("utf-32-le"),
        lambda text: b"\xef\xbb\xbf" + text.encode(),
        lambda text: text[:-1].encode() + b', "x": "\xff"}',
        lambda text: text[:-1].encode() + b', "x": "\\ud800"}',
        lambda text: text.replace("{", "{'x': 1, ", 1).encode(),
        lambda text: text.encode() + b"\0",
        lambda text: text.encode() + text.encode(),
        lambda text: text[:-1].encode() + b', "x": NaN}',
        lambda text: text[:-1].encode() + b', "x": -Infinity}',
        lambda text: text[:-1].encode() + b', "x": 1e99999}',
        lambda text: text[:-1].encode() + b', "x": ' + b"9" * 5000 + b"}",
        lambda text: text[:-1].encode() + b', "x": ' + b"[" * 1000 + b"]" * 1000 + b"}",
    ],
    ids=[
        "utf-16",
        "utf-32",
        "BOM",
        "no UTF-8",
        "surrogate",
        "quotes",
        "NUL",
        "two",
        "NaN",
        "Infinity",
        "1e99999",
        "digits",
        "deep",
    ],
)
def test_what_is_no_plain_json_is_refused(shared_server, key, unchanged, route, encode):
    method, path = route.format(device=shared_server.device).split()
    data = encode(json.dumps(BODIES[route]))
    refused(shared_server.call(key, method, path, data=data, content_type="application/json"))


# Every member of every body with what it cannot be.
WRONG_TYPES = [None, True, 0, 1.5, "", "x", [], {}, [[]], {"a": {}}, "\0", "x" * 70_000]


@pytest.mark.parametrize("route", BODIES)
@pytest.mark.parametrize("wrong", WRONG_TYPES, ids=lambda wrong: repr(wrong)[:20])
def test_a_member_of_another_type_is_never_a_failure_of_the_server(shared_server, key, route, wrong):
    method, path = route.format(device=shared_server.device).split()
    for name in BODIES[route]:
        answer = shared_server.call(key, method, path, json=BODIES[route] | {name: wrong})
        assert answer.status_code < 500, (name, answer.get_data())
        if answer.status_code >= 400:
            assert refused(answer, answer.status_code).fields


@pytest.mark.parametrize(
    "path",
    [
        "/v3/devices/..",
        "/v3/devices/../healthz/echo",
        "/v3/devices/%2e%2e/echo",
        "/v3/devices/%2F/echo",
        "/v3/devices/%00/echo",
        "/v3/devices/a%00b",
        "/v3/devices/%FF%FE/echo",
        "/v3/devices/" + "x" * 5000,
        "/v3/devices/';DROP TABLE devices;--/echo",
        "/v2/subscriptions/{device}/../../x",
        "/v2/subscriptions/{device}/3303/0/%00",
        "/v2/subscriptions/{device}/3303/0/5700/1/2",
        "/v2/subscriptions/{device}/3303/0/99999999999999999999",
        "/v2/subscriptions/{device}/3303/0/-1",
        "/v2/subscriptions/{device}/3303/0/٣",
        "/v2/subscriptions/{device}/03303",
        "/v2/endpoints/%0d%0aSet-Cookie:x=1",
        "/%2e%2e/%2e%2e/etc/passwd",
    ],
)
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_a_trick_in_the_path_finds_nothing(shared_server, key, unchanged, method, path):
    answer = shared_server.call(key, method, path.format(device=shared_server.device))
    assert answer.status_code in {400, 404, 405}
    refused(answer, answer.status_code)
    assert "Set-Cookie" not in answer.headers


@pytest.mark.parametrize("text", ["%00", "%FF", "x" * 5000, "1 OR 1=1", "%F0%9F%92%A9", "%0a"])
@pytest.mark.parametrize(
    "name", ["after", "endpoint_name", "id__in", "created_at__gte", "limit", "filter", "%00", "a__eq"]
)
def test_a_trick_in_the_query_finds_nothing(shared_server, key, unchanged, name, text):
    answer = shared_server.call(key, "GET", f"/v3/devices?{name}={text}")
    if answer.status_code == 200:
        assert name == "after" or answer.json["data"] == []
    else:
        refused(answer)


WRITE = {"method": "PUT", "uri": PATH, "payload-b64": "MQ=="}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        *[(WRITE | {"content-type": text}, "content-type") for text in ("a\r\nb", "a\0", " text/plain", "téxt", "a\n")],
        *[(WRITE | {"accept": text}, "accept") for text in ("a\r\nb", "\0", " ")],
        *[({"method": "PUT", "uri": f"{PATH}?{query}"}, "uri") for query in ("a\0", "pmin=1 2", "pmin=1\n", "é")],
    ],
)
@pytest.mark.usefixtures("unchanged")
def test_a_text_that_no_header_or_query_could_hold_is_refused(shared_server, key, body, field):
    answer = shared_server.call(key, "POST", f"/v2/device-requests/{shared_server.device}", json=body)
    assert "like" in refused(answer, 400, field).message


@pytest.mark.parametrize(
    "body",
    [
        [{f"unknown-{number}": 1 for number in range(50_000)}],
        [{"resource-path": ["/1", *[1] * 200], "endpoint-name": number} for number in range(1000)],
    ],
    ids=["members", "values"],
)
@pytest.mark.usefixtures("unchanged")
def test_of_very_much_that_is_wrong_a_part_is_named(shared_server, key, body):
    answer = shared_server.call(key, "PUT", "/v2/subscriptions", json=body)
    told = refused(answer)
    assert len(told.fields) == 20
    assert "in all" in told.message
    assert len(answer.get_data()) < 10_000


@pytest.mark.parametrize(
    "body",
    [b'{"%s":1}' % (b"a" * 900_000), b'{"%s":1,"%s":1}' % (b"a" * 400_000, b"a" * 400_000)],
    ids=["unknown", "twice"],
)
def test_an_endless_name_is_not_sent_back_whole(shared_server, key, body):
    url = f"/v2/device-requests/{shared_server.device}"
    answer = shared_server.call(key, "POST", url, data=body, content_type="application/json")
    refused(answer)
    assert len(answer.get_data()) < 2000


@pytest.mark.parametrize("body", [b"", b" ", b"\n"])
def test_a_body_that_is_missing_is_called_that(shared_server, key, body):
    answer = shared_server.call(key, "PUT", "/v2/subscriptions", data=body, content_type="application/json")
    assert "the body is empty" in refused(answer).message


def test_a_position_beyond_the_log_is_named_as_it_was_given(shared_server, key):
    headers = {"Last-Event-ID": "999999"}
    answer = shared_server.call(key, "GET", "/v2/notification/events", headers=headers)
    assert refused(answer, 400, "Last-Event-ID").reason == "CURSOR_BEYOND_LOG"
    answer = shared_server.call(key, "GET", "/v2/notification/events?after=999999")
    assert refused(answer, 400, "after").reason == "CURSOR_BEYOND_LOG"


@pytest.mark.parametrize("path", ["/v2/notification/pull", "/v2/notification/events", "/v3/device-echo"])
def test_where_head_would_lose_something_it_is_not_allowed(shared_server, key, path):
    for method in ("HEAD", "PATCH"):
        answer = shared_server.call(key, method, path)
        assert answer.status_code == 405
        assert "GET" in answer.headers["Allow"]
        assert "HEAD" not in answer.headers["Allow"]
