"""What is sent for each operation and how its answer is read; everything here is a function of values."""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_sdk._service import operations as ops
from mirror_sdk._service.operation import Operation
from mirror_sdk._service.operations import Poll
from mirror_sdk.bench import operations as bench_ops
from mirror_sdk.errors import APIError, BadRequest, LimitExceeded, NotFound, ServerError, UnexpectedAnswer
from mirror_sdk.wire.entries import Gap
from mirror_sdk.wire.subscriptions import PresubscriptionRule


@dataclass
class Answered:
    status_code: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    content: bytes = b""


def answered(status: int = 200, body: object = None, **headers: str) -> Answered:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answered(status, names, b"" if body is None else json.dumps(body).encode())


DEVICE = {
    "id": "d1",
    "endpoint_name": "sensor-1",
    "state": "registered",
    "created_at": "2026-11-20T12:37:55.576Z",
    "updated_at": "2026-11-20T12:37:55.576+0000",
}
PAGE = {"data": [DEVICE], "has_more": True, "limit": 2, "order": "ASC"}

SENT = [
    (ops.get_device_object("d1"), "GET", "/v3/devices/d1/echo", {}, None),
    (ops.list_devices({}, limit=None), "GET", "/v3/devices", {"limit": 1000}, None),
    (
        ops.list_devices({"state": "registered"}, limit=1),
        "GET",
        "/v3/devices",
        {"state__eq": "registered", "limit": 2},
        None,
    ),
    (ops.list_devices({}, limit=70, after="d9"), "GET", "/v3/devices", {"limit": 70, "after": "d9"}, None),
    (ops.get_directory_device("d1"), "GET", "/v3/devices/d1", {}, None),
    (ops.get_device_connection("d1"), "GET", "/v3/devices/d1/connection", {}, None),
    (ops.list_resources("d1"), "GET", "/v2/endpoints/d1", {}, None),
    (
        ops.place_device_request("d1", "a1", method="GET", path="/3303/0/5700"),
        "POST",
        "/v2/device-requests/d1",
        {"async-id": "a1"},
        {"method": "GET", "uri": "/3303/0/5700"},
    ),
    (
        ops.place_device_request(
            "d1", "a1", method="PUT", path="/3311/0/5850", payload=b"1", content_type="text/plain", expiry_seconds=60
        ),
        "POST",
        "/v2/device-requests/d1",
        {"async-id": "a1"},
        {
            "method": "PUT",
            "uri": "/3311/0/5850",
            "payload-b64": "MQ==",
            "content-type": "text/plain",
            "expiry_seconds": 60,
        },
    ),
    (
        ops.place_device_request("d1", "a1", method="PUT", path="/3/0/14", payload=b""),
        "POST",
        "/v2/device-requests/d1",
        {"async-id": "a1"},
        {"method": "PUT", "uri": "/3/0/14", "payload-b64": ""},
    ),
    (ops.get_presubscriptions(), "GET", "/v2/subscriptions", {}, None),
    (ops.put_presubscriptions([], apply_now=False), "PUT", "/v2/subscriptions", {}, []),
    (
        ops.put_presubscriptions(
            [{"endpoint_type": "Light", "resource_path": ["/3303/*"]}, PresubscriptionRule(endpoint_name="d1")],
            apply_now=True,
        ),
        "PUT",
        "/v2/subscriptions",
        {"apply": "now"},
        [{"endpoint-type": "Light", "resource-path": ["/3303/*"]}, {"endpoint-name": "d1"}],
    ),
    (ops.delete_presubscriptions(), "DELETE", "/v2/subscriptions", {}, None),
    (ops.put_subscription("d1", "/3303/0/5700"), "PUT", "/v2/subscriptions/d1/3303/0/5700", {}, None),
    (ops.get_subscription("d1", "/3303/0/5700"), "GET", "/v2/subscriptions/d1/3303/0/5700", {}, None),
    (ops.delete_subscription("d1", "/3303/0/5700"), "DELETE", "/v2/subscriptions/d1/3303/0/5700", {}, None),
    (ops.list_subscriptions("d1"), "GET", "/v2/subscriptions/d1", {}, None),
    (ops.delete_subscriptions("d1"), "DELETE", "/v2/subscriptions/d1", {}, None),
    (ops.poll_log(None, hold_seconds=0), "GET", "/v2/notification/pull", {"after": "latest", "hold": 0}, None),
    (ops.poll_log(7, hold_seconds=24.2), "GET", "/v2/notification/pull", {"after": 7, "hold": 25}, None),
    (ops.poll_log(7, hold_seconds=900), "GET", "/v2/notification/pull", {"after": 7, "hold": 55}, None),
    (ops.delete_poll_channel(), "DELETE", "/v2/notification/pull", {}, None),
    (ops.get_health(), "GET", "/healthz", {}, None),
    (bench_ops.list_bench_devices(), "GET", "/sim/v1/devices", {}, None),
    (bench_ops.add_bench_device({"endpoint_name": "s"}), "POST", "/sim/v1/devices", {}, {"endpoint_name": "s"}),
    (bench_ops.patch_bench_device("d1", {"online": False}), "PATCH", "/sim/v1/devices/d1", {}, {"online": False}),
    (
        bench_ops.put_bench_resource("d1", "/3303/0/5700", "1", {"writable": None}),
        "PUT",
        "/sim/v1/devices/d1/resources/3303/0/5700",
        {},
        {"value": "1"},
    ),
    (bench_ops.delete_bench_resource("d1", "/3/0/0"), "DELETE", "/sim/v1/devices/d1/resources/3/0/0", {}, None),
    (bench_ops.bench_registration("d1", "POST"), "POST", "/sim/v1/devices/d1/registration", {}, None),
    (bench_ops.get_bench_clock(), "GET", "/sim/v1/clock", {}, None),
    (bench_ops.advance_bench_clock(60), "POST", "/sim/v1/clock", {}, {"advance_seconds": 60}),
]


@pytest.mark.parametrize(("operation", "method", "path", "params", "body"), SENT)
def test_each_operation_sends_what_the_interface_says(operation, method, path, params, body):
    assert (operation.method, operation.path, dict(operation.params), operation.json) == (method, path, params, body)


@given(device_id=st.text(min_size=1).filter(lambda text: text not in {".", ".."}))
def test_no_device_id_leads_out_of_its_segment(device_id):
    path = ops.get_device_object(device_id).path
    prefix, suffix = "/v3/devices/", "/echo"
    assert path.startswith(prefix)
    assert path.endswith(suffix)
    assert not set("/?#") & set(path[len(prefix) : -len(suffix)])


@pytest.mark.parametrize("device_id", ["", ".", ".."])
def test_a_device_id_that_would_be_another_path_is_refused(device_id):
    with pytest.raises(ValueError, match="device id"):
        ops.get_device_object(device_id)


@pytest.mark.parametrize(
    ("build", "named"),
    [
        (lambda: ops.place_device_request("d", "a b", method="GET", path="/3/0/0"), "async_id"),
        (lambda: ops.place_device_request("d", "ä", method="GET", path="/3/0/0"), "async_id"),
        (lambda: ops.place_device_request("d", "a", method="GET", path="3/0/0"), "resource path"),
        (lambda: ops.place_device_request("d", "a", method="GET", path="/3/0/0", expiry_seconds=0), "expiry_seconds"),
        (lambda: ops.put_subscription("d", "3303/0/5700"), "resource path"),
        (lambda: ops.put_presubscriptions([{"resource_path": ["/*/0"]}], apply_now=False), "resource_path"),
        (lambda: ops.list_devices({"created_at__gte": datetime(2026, 1, 1)}, limit=None), "created_at__gte"),
        (lambda: bench_ops.advance_bench_clock(0), "advance_seconds"),
        (lambda: bench_ops.patch_bench_device("d", {"answer": "maybe"}), "answer"),
    ],
)
def test_what_cannot_be_sent_is_refused_by_name_before_it_is_sent(build, named):
    with pytest.raises(ValueError, match=named):
        build()


def test_filters_are_written_as_the_directory_reads_them():
    zone = timezone(timedelta(hours=2))
    filters = {
        "created_at__gte": datetime(2026, 1, 1, 2, tzinfo=zone),
        "endpoint_type__in": ["Light", "Fan"],
        "id": "x",
    }
    assert ops.list_devices(filters, limit=5).params == {
        "created_at__gte": "2026-01-01T00:00:00.000Z",
        "endpoint_type__in": "Light,Fan",
        "id__eq": "x",
        "limit": 5,
    }


def test_what_means_the_same_twice_may_be_sent_again_and_a_device_request_by_its_async_id():
    attempts = [(operation, operation.most_attempts(4)) for operation, *_ in SENT]
    repeated = {operation.path for operation, most in attempts if most == 5 and operation.method == "POST"}
    assert repeated == {"/v2/device-requests/d1"}
    assert {most for _, most in attempts} == {1, 5}
    once = {operation.path for operation, most in attempts if most == 1}
    assert {path for path in once if not path.startswith("/sim/")} <= {"/healthz", "/v2/notification/pull"}


def test_a_page_tells_where_the_next_one_begins():
    page = ops.list_devices({}, limit=2).finish(answered(body=PAGE))
    assert ops.Pages().next_after(page) == "d1"
    assert ops.Pages().next_after(page.model_copy(update={"has_more": False})) is None
    assert ops.Pages().next_after(page.model_copy(update={"has_more": False, "data": []})) is None


def test_unknown_members_of_an_answer_are_no_harm():
    device = ops.get_directory_device("d1").finish(answered(body=DEVICE | {"colour": "red"}))
    assert device.updated_at == datetime(2026, 11, 20, 12, 37, 55, 576000, tzinfo=UTC)


def test_subscriptions_are_read_with_none_of_them_as_a_404():
    listing = ops.list_subscriptions("d1")
    assert listing.finish(Answered(content=b"/3303/0/5700\n/3/0/0")) == ["/3303/0/5700", "/3/0/0"]
    none = answered(404, {"code": 404, "type": "not_found", "message": "none"})
    assert listing.finish(none) == []
    assert ops.get_subscription("d1", "/3/0/0").finish(answered()) is True
    assert ops.get_subscription("d1", "/3/0/0").finish(none) is False


@pytest.mark.parametrize(
    ("answer", "state", "is_subscribed"),
    [
        (answered(Mirror_Subscription="active"), "active", True),
        (answered(Mirror_Subscription="asked"), "asked", True),
        (answered(Mirror_Subscription="refused"), "refused", False),
        (answered(), "asked", True),
        (answered(Mirror_Subscription="dreamt of"), "asked", True),
        (answered(404, {"code": 404, "type": "x", "message": "", "reason": "SUBSCRIPTION_ENDED"}), "ended", False),
        (answered(404, {"code": 404, "type": "x", "message": "", "reason": "NOT_SUBSCRIBED"}), "none", False),
        (answered(404, {"code": 404, "type": "not_found", "message": "none"}), "none", False),
    ],
)
def test_what_became_of_a_subscription_is_read(answer, state, is_subscribed):
    assert ops.get_subscription_state("d1", "/3/0/0").finish(answer) == state
    assert ops.get_subscription("d1", "/3/0/0").finish(answer) is is_subscribed


def test_rules_and_bench_answers_are_read():
    assert ops.get_presubscriptions().finish(answered(body=[{"endpoint-type": "L"}])).rules[0].endpoint_type == "L"
    assert bench_ops.list_bench_devices().finish(answered(body={"data": []})) == []
    assert bench_ops.add_bench_device({"endpoint_name": "s"}).finish(answered(201, {"id": "d7"})) == "d7"
    clock = answered(body={"now": "2026-01-05T08:00:00.000Z", "manual": True})
    assert bench_ops.get_bench_clock().finish(clock).now == datetime(2026, 1, 5, 8, tzinfo=UTC)


def test_a_poll_is_read_with_its_cursor_message_and_gap():
    poll = ops.poll_log(3, hold_seconds=0)
    message = {"notifications": []}
    assert poll.finish(answered(204, Mirror_Cursor="3")) == Poll(3, {}, None)
    assert poll.finish(answered(200, message, Mirror_Cursor="9", Mirror_Gap="4-7")) == Poll(9, message, Gap(4, 7))


@pytest.mark.parametrize("gap", ["", "4", "some"])
def test_a_gap_that_cannot_be_read_is_still_a_gap(gap):
    assert ops.poll_log(3, hold_seconds=0).finish(answered(204, Mirror_Cursor="9", Mirror_Gap=gap)).gap == Gap(
        None, None
    )


@pytest.mark.parametrize(
    ("operation", "answer"),
    [
        (ops.poll_log(3, hold_seconds=0), answered(204)),
        (ops.poll_log(3, hold_seconds=0), answered(204, Mirror_Cursor="x")),
        (ops.poll_log(3, hold_seconds=0), Answered(200, {"Mirror-Cursor": "4"}, b"<html>")),
        (ops.poll_log(3, hold_seconds=0), answered(200, [], Mirror_Cursor="4")),
        (ops.get_directory_device("d1"), Answered(content=b"<html>")),
        (ops.get_directory_device("d1"), answered(body={"id": "d1"})),
        (ops.get_directory_device("d1"), answered(302)),
        (bench_ops.add_bench_device({"endpoint_name": "s"}), answered(201, {})),
    ],
)
def test_what_is_no_answer_of_this_interface_is_said_to_be_none(operation, answer):
    with pytest.raises(UnexpectedAnswer):
        operation.finish(answer)


def test_a_refusal_is_read_with_all_it_says():
    body = {
        "code": 400,
        "type": "validation_error",
        "message": "m",
        "reason": "R",
        "fields": [{"name": "f", "message": "w"}],
    }
    with pytest.raises(BadRequest) as refusal:
        ops.get_health().finish(answered(400, body, X_Request_ID="r1"))
    error = refusal.value
    assert (error.type, error.reason, error.message, error.request_id) == ("validation_error", "R", "m", "r1")
    assert [(one.name, one.message) for one in error.fields] == [("f", "w")]


@pytest.mark.parametrize(("status", "kind"), [(404, NotFound), (502, ServerError), (418, APIError)])
def test_a_refusal_of_something_in_between_is_an_error_of_its_status(status, kind):
    with pytest.raises(kind, match="no explanation") as refusal:
        ops.get_health().finish(Answered(status, {}, b"<html>Bad Gateway</html>"))
    assert refusal.value.status == status


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7.0),
        (" 0 ", 0.0),
        ("1.5", 1.5),
        ("2.", 2.0),
        ("", None),
        ("-5", None),
        ("1e9", None),
        ("inf", None),
        ("nan", None),
        ("9" * 400, None),
        ("٣", None),
        ("soon", None),
        ("Wed, 99 Foo 2026", None),
    ],
)
def test_how_long_to_wait_is_read_where_it_is_said_in_seconds(header, seconds):
    with pytest.raises(LimitExceeded) as refusal:
        ops.get_health().finish(answered(429, Retry_After=header))
    assert refusal.value.retry_after_seconds == seconds


def test_an_operation_cannot_be_changed():
    with pytest.raises(AttributeError):
        ops.get_health().method = "PUT"  # type: ignore[misc] - that is the point
    assert isinstance(ops.get_health(), Operation)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"Retry-After": "Fri, 20 Nov 2026 12:00:30 GMT", "Date": "Fri, 20 Nov 2026 12:00:00 GMT"}, 30.0),
        ({"Retry-After": "Fri, 20 Nov 2026 12:00:00 GMT", "Date": "Fri, 20 Nov 2026 12:00:30 GMT"}, 0.0),
        ({"Retry-After": "Fri, 20 Nov 2026 12:00:30 -0000", "Date": "Fri, 20 Nov 2026 12:00:00 GMT"}, 30.0),
        # Without the clock of who answered it is ours.
        ({"Retry-After": "Thu, 20 Nov 2003 12:00:30 GMT"}, 0.0),
        ({"Retry-After": "Thu, 20 Nov 2003 12:00:30 GMT", "Date": "now"}, 0.0),
        ({"Retry-After": "soon", "Date": "Fri, 20 Nov 2026 12:00:00 GMT"}, None),
        ({}, None),
    ],
)
def test_the_time_to_wait_is_read_as_seconds_or_as_a_moment(headers, seconds):
    answer = httpx.Response(503, headers=headers, json={"code": 503, "type": "unavailable", "message": "full"})
    with pytest.raises(ServerError) as raised:
        ops.get_health().finish(answer)
    assert raised.value.retry_after_seconds == seconds
