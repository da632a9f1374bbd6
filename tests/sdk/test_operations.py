"""The request and the parsed response of each operation; everything here is a pure function."""

import json
from datetime import UTC, datetime, timedelta, timezone

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirror_sdk._protocol import operations as ops
from mirror_sdk._protocol.operations import Poll
from mirror_sdk.errors import APIError, BadRequest, LimitExceeded, NotFound, ServerError, UnexpectedResponse
from mirror_sdk.simulator import operations as simulator_ops
from mirror_sdk.wire.log_entries import Gap
from mirror_sdk.wire.subscriptions import PresubscriptionRule


def respond(status: int = 200, body: object = None, **headers: str) -> httpx.Response:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.Response(status, headers=names, content=b"" if body is None else json.dumps(body).encode())


READ, WRITE = {"method": "GET", "path": "/3303/0/5700"}, {"method": "PUT", "path": "/3/0/14"}
TWO = datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))
LIGHTS = {"endpoint_type": "Light", "resource_path": ["/3303/*"]}
SENT = [
    (ops.list_devices({}, limit=None), {"limit": 1000}, None),
    (ops.list_devices({"state": "registered"}, limit=1), {"state__eq": "registered", "limit": 2}, None),
    (ops.list_devices({}, limit=70, after="d9"), {"limit": 70, "after": "d9"}, None),
    (
        ops.list_devices({"created_at__gte": TWO, "endpoint_type__in": ["Light", "Fan"], "id": "x"}, limit=5),
        {"created_at__gte": "2026-01-01T00:00:00.000Z", "endpoint_type__in": "Light,Fan", "id__eq": "x", "limit": 5},
        None,
    ),
    (
        ops.submit_device_request("d", "a1", **WRITE, payload=b"1", content_type="text/plain", expiry_seconds=60),
        {"async-id": "a1"},
        {"method": "PUT", "uri": "/3/0/14", "payload-b64": "MQ==", "content-type": "text/plain", "expiry_seconds": 60},
    ),
    (
        ops.put_presubscriptions([LIGHTS, PresubscriptionRule(endpoint_name="d1")], apply_now=True),
        {"apply": "now"},
        [{"endpoint-type": "Light", "resource-path": ["/3303/*"]}, {"endpoint-name": "d1"}],
    ),
    (ops.poll_log(None, hold_seconds=0), {"after": "latest", "hold": 0}, None),
    (ops.poll_log(7, hold_seconds=24.2), {"after": 7, "hold": 25}, None),
    (ops.poll_log(7, hold_seconds=900), {"after": 7, "hold": 55}, None),
    (simulator_ops.put_simulator_resource("d1", "/3303/0/5700", "1", {"writable": None}), {}, {"value": "1"}),
]


def test_each_operation_sends_its_documented_request():
    for operation, params, body in SENT:
        assert (dict(operation.params), operation.json) == (params, body)
    # A payload may be empty.
    empty = ops.submit_device_request("d", "a1", **WRITE, payload=b"").json
    assert empty == {"method": "PUT", "uri": "/3/0/14", "payload-b64": ""}


@settings(max_examples=25)
@given(device_id=st.text(min_size=1).filter(lambda text: text not in {".", ".."}))
def test_no_device_id_leads_out_of_its_segment(device_id):
    path = ops.get_device_object(device_id).path
    prefix, suffix = "/v3/devices/", "/echo"
    assert path.startswith(prefix)
    assert path.endswith(suffix)
    assert not set("/?#") & set(path[len(prefix) : -len(suffix)])


@pytest.mark.parametrize(
    ("build", "named"),
    [
        (lambda: ops.get_device_object(""), "device id"),
        (lambda: ops.get_device_object(".."), "device id"),
        (lambda: ops.submit_device_request("d", "a b", **READ), "async_id"),
        (lambda: ops.submit_device_request("d", "ä", **READ), "async_id"),
        (lambda: ops.submit_device_request("d", "a", method="GET", path="3/0/0"), "resource path"),
        (lambda: ops.submit_device_request("d", "a", **READ, expiry_seconds=0), "expiry_seconds"),
        (lambda: ops.put_subscription("d", "3303/0/5700"), "resource path"),
        (lambda: ops.put_presubscriptions([{"resource_path": ["/*/0"]}], apply_now=False), "resource_path"),
        (lambda: ops.list_devices({"created_at__gte": datetime(2026, 1, 1)}, limit=None), "created_at__gte"),
        (lambda: simulator_ops.advance_simulator_clock(0), "advance_seconds"),
        (lambda: simulator_ops.patch_simulator_device("d", {"answer": "maybe"}), "answer"),
    ],
)
def test_invalid_argument_is_rejected_by_name_before_sending(build, named):
    with pytest.raises(ValueError, match=named):
        build()


@pytest.mark.parametrize(
    ("operation", "attempts"),
    [
        (ops.get_device_object("d1"), 5),
        (ops.put_subscription("d1", "/3303/0/5700"), 5),
        (ops.delete_subscriptions("d1"), 5),
        (ops.submit_device_request("d", "a1", **READ), 5),
        (ops.get_health(), 1),
        (ops.poll_log(7, hold_seconds=0), 1),
        (simulator_ops.advance_simulator_clock(60), 1),
    ],
)
def test_idempotent_operations_are_retried_and_device_requests_by_their_async_id(operation, attempts):
    assert operation.max_attempts(4) == attempts


def test_unknown_members_of_a_response_are_ignored():
    at = {"created_at": "2026-11-20T12:37:55.576Z", "updated_at": "2026-11-20T12:37:55.576+0000"}
    body = {"id": "d1", "endpoint_name": "sensor-1", "state": "registered", **at, "color": "red"}
    device = ops.get_directory_device("d1").finish(respond(body=body))
    assert device.updated_at == datetime(2026, 11, 20, 12, 37, 55, 576000, tzinfo=UTC)


def test_result_of_a_subscription_is_read():
    body = {"code": 404, "type": "x", "message": ""}
    for answer, state in (
        (respond(Mirror_Subscription="refused"), "refused"),
        (respond(), "asked"),
        (respond(Mirror_Subscription="dreamt of"), "asked"),
        (respond(404, body | {"reason": "SUBSCRIPTION_ENDED"}), "ended"),
        (respond(404, body), "none"),
    ):
        found = ops.get_subscription_state("d1", "/3/0/0").finish(answer)
        assert (found, found.is_active_or_pending) == (state, state == "asked")


def test_a_poll_is_read_with_its_cursor_message_and_gap():
    poll = ops.poll_log(3, hold_seconds=0)
    message = {"notifications": []}
    assert poll.finish(respond(204, Mirror_Cursor="3")) == Poll(3, {}, None)
    assert poll.finish(respond(200, message, Mirror_Cursor="9", Mirror_Gap="4-7")) == Poll(9, message, Gap(4, 7))
    for unreadable in ("", "4", "some"):
        assert poll.finish(respond(204, Mirror_Cursor="9", Mirror_Gap=unreadable)).gap == Gap(None, None)


@pytest.mark.parametrize(
    ("operation", "answer"),
    [
        (ops.poll_log(3, hold_seconds=0), respond(204)),
        (ops.poll_log(3, hold_seconds=0), respond(204, Mirror_Cursor="x")),
        (ops.poll_log(3, hold_seconds=0), httpx.Response(200, headers={"Mirror-Cursor": "4"}, content=b"<html>")),
        (ops.poll_log(3, hold_seconds=0), respond(200, [], Mirror_Cursor="4")),
        (ops.get_directory_device("d1"), httpx.Response(200, content=b"<html>")),
        (ops.get_directory_device("d1"), respond(body={"id": "d1"})),
        (ops.get_directory_device("d1"), respond(302)),
        (simulator_ops.add_simulator_device({"endpoint_name": "s"}), respond(201, {})),
    ],
)
def test_response_of_another_interface_is_rejected(operation, answer):
    with pytest.raises(UnexpectedResponse):
        operation.finish(answer)


def test_error_response_is_read_with_all_members():
    body = {"code": 400, "type": "validation_error", "message": "m", "reason": "R"}
    fields = [{"name": "f", "message": "w"}]
    with pytest.raises(BadRequest) as caught:
        ops.get_health().finish(respond(400, {**body, "fields": fields}, X_Request_ID="r1"))
    error = caught.value
    assert (error.type, error.reason, error.message, error.request_id) == ("validation_error", "R", "m", "r1")
    assert [(one.name, one.message) for one in error.fields] == [("f", "w")]


@pytest.mark.parametrize(("status", "kind"), [(404, NotFound), (502, ServerError), (418, APIError)])
def test_error_of_a_proxy_is_an_error_of_its_status(status, kind):
    with pytest.raises(kind, match="no explanation") as caught:
        ops.get_health().finish(httpx.Response(status, content=b"<html>Bad Gateway</html>"))
    assert caught.value.status == status


NOON = "Fri, 20 Nov 2026 12:00:00 GMT"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"Retry-After": "7"}, 7.0),
        ({"Retry-After": " 0 "}, 0.0),
        ({"Retry-After": "1.5"}, 1.5),
        *(({"Retry-After": text}, None) for text in ("", "-5", "1e9", "inf", "nan", "9" * 400, "٣", "soon")),
        ({"Retry-After": "Fri, 20 Nov 2026 12:00:30 GMT", "Date": NOON}, 30.0),
        ({"Retry-After": "Fri, 20 Nov 2026 11:59:30 GMT", "Date": NOON}, 0.0),
        ({"Retry-After": "Fri, 20 Nov 2026 12:00:30 -0000", "Date": NOON}, 30.0),
        ({"Retry-After": "Wed, 99 Foo 2026", "Date": NOON}, None),
        # Without the time of the service, the local clock is used.
        ({"Retry-After": "Thu, 20 Nov 2003 12:00:30 GMT"}, 0.0),
        ({"Retry-After": "Thu, 20 Nov 2003 12:00:30 GMT", "Date": "now"}, 0.0),
    ],
)
def test_the_time_to_wait_is_read_as_seconds_or_as_a_moment(headers, seconds):
    with pytest.raises(LimitExceeded) as caught:
        ops.get_health().finish(httpx.Response(429, headers=httpx.Headers(headers, encoding="utf-8")))
    assert caught.value.retry_after_seconds == seconds
