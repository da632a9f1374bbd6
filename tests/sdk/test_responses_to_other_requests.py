"""Responses to other requests, as from a mixed-up connection or a broken proxy."""

import json

import httpx
import pytest
from changed_responses import LIGHT, TEMPERATURE, UNIT, without_arrow

from mirror_sdk import UnexpectedResponse
from mirror_sdk._protocol import operations as ops
from mirror_sdk.snapshot.device_selection import Selection
from mirror_sdk.snapshot.snapshot_request import get_device_ranges

OBJECT = "/v3/devices/{}/echo"


@pytest.mark.parametrize(
    ("path", "query"),
    [
        (OBJECT, lambda client, device_id: client.get_device(device_id)),
        ("/v3/devices/{}", lambda client, device_id: client.devices.get(device_id)),
        ("/v2/device-requests/{}", lambda client, device_id: client.requests.list(device_id)),
        (OBJECT, lambda client, device_id: client.state_frame([device_id]).shape),
    ],
)
def test_a_response_for_another_device(client_over, simulator, ids, path, query):
    stored = []

    def swap(request, answer):
        if request.method == "GET" and request.url.path == path.format(ids[1]):
            stored.append(answer)
        if stored and request.url.path == path.format(ids[0]):
            return httpx.Response(200, headers=stored[0].headers, content=stored[0].content)
        return answer

    client = client_over(swap)
    simulator.set_online(ids[1], False)
    client.requests.begin_read(ids[1], TEMPERATURE)
    assert query(client, ids[1])
    with pytest.raises(UnexpectedResponse, match=f"requested device '{ids[0]}'.*about '{ids[1]}'"):
        query(client, ids[0])


def test_a_request_under_another_async_id(client_over, ids):
    def change(request, answer):
        if request.method != "POST" or "device-requests" not in request.url.path:
            return answer
        return httpx.Response(202, content=bodies.pop(0))

    client = client_over(change)
    bodies = [b'{"async-response-id":"other"}', b"<html>", b"[]", b"", b"{}"]
    with pytest.raises(UnexpectedResponse, match=r"request 'mine'.*about 'other'"):
        client.requests.begin_read(ids[0], TEMPERATURE, async_id="mine")
    for _ in range(2):
        with pytest.raises(UnexpectedResponse):
            client.requests.begin_read(ids[0], TEMPERATURE, async_id="mine")
    # A service that does not name the request is trusted.
    for async_id in ("empty", "without"):
        assert client.requests.begin_read(ids[0], TEMPERATURE, async_id=async_id).result(60).python == 21.5


def test_devices_of_another_selection(client_over, ids):
    client = client_over(lambda request, answer: replayed if request.url.path == "/v3/devices" and replayed else answer)
    replayed = None
    listed = client.devices.list()
    page = {"data": [device.to_wire() for device in listed], "has_more": False, "limit": 50, "order": "ASC"}
    replayed = httpx.Response(200, json=page)
    first, _, third, _ = sorted(ids)
    exactly = {"id": ids[0], "endpoint_name": "a", "endpoint_type": "Light", "state": "registered"}
    for name, value in {**exactly, "id__in": ids[:2], "id__gt": first, "id__lte": third}.items():
        with pytest.raises(UnexpectedResponse, match=name.partition("__")[0]):
            client.devices.list(**({name: value} if name in exactly else {"filters": {name: value}}))
    assert client.devices.list(filters={"id__in": ids, "endpoint_name__neq": "nobody"}).ids == listed.ids


@pytest.mark.parametrize("is_arrow", [True, False])
def test_a_snapshot_of_another_selection_or_time(client_over, plain, ids, is_arrow):
    stored = []

    def change(request, answer):
        if request.url.path != "/v3/device-echo":
            return answer
        if not is_arrow and without_arrow(request, answer) is not answer:
            return without_arrow(request, answer)
        stored.append(answer)
        # All later responses repeat the first one.
        return httpx.Response(200, headers=answer.headers, content=stored[0].content)

    client = client_over(change)
    complete = client.fleet.snapshot()
    assert complete["device_id"].nunique() == 3
    with pytest.raises(UnexpectedResponse, match=r"id__in.*the response has one with id"):
        client.fleet.snapshot(ids[:2])
    with pytest.raises(UnexpectedResponse, match=r"endpoint_name__eq='a'.*endpoint_name"):
        client.fleet.snapshot(endpoint_name="a")
    with pytest.raises(UnexpectedResponse, match=f"requested {TEMPERATURE}, {UNIT}, but the response has"):
        client.fleet.snapshot(paths=[TEMPERATURE])
    assert client.fleet.snapshot(paths=["/*"]).shape == complete.shape
    plain.write_value(ids[0], LIGHT, False)
    with pytest.raises(UnexpectedResponse, match="changes since revision"):
        client.fleet.refresh(plain.fleet.snapshot())


def test_ranges_that_are_not_of_one_selection():
    def ranges(*bounds, count=2):
        data = [{"after": after, "last": last, "device_count": 1} for after, last in bounds]
        return httpx.Response(200, content=json.dumps({"device_count": count, "revision": 1, "data": data}))

    read = get_device_ranges(Selection(), 1).finish
    assert read(ranges((None, "b"), ("b", None))).device_count == 2
    assert read(ranges(count=0)).data == []
    wrong = [[(None, "b"), ("c", None)], [("a", "b"), ("b", None)], [(None, "b"), ("b", "c")]]
    for answer in (*(ranges(*bounds) for bounds in wrong), ranges((None, "b"), ("b", None), count=3)):
        with pytest.raises(UnexpectedResponse, match="ranges"):
            read(answer)


def test_poll_with_an_earlier_position():
    read = ops.poll_log(7, hold_seconds=0).finish
    assert read(httpx.Response(204, headers={"Mirror-Cursor": "7"})).cursor == 7
    with pytest.raises(UnexpectedResponse, match=r"entries after 7.*ends at 6"):
        read(httpx.Response(204, headers={"Mirror-Cursor": "6"}))


@pytest.mark.parametrize("content", [b"<html><body>Sign in</body></html>", b"\xff\xfe", b"3303/0/5700"])
def test_subscriptions_that_are_no_paths(content):
    with pytest.raises(UnexpectedResponse, match="not a list of resource paths"):
        ops.list_subscriptions("d1").finish(httpx.Response(200, content=content))
    paths = ["/3303/0/5700", "/3/0/0"]
    assert ops.list_subscriptions("d1").finish(httpx.Response(200, content="\n".join(paths).encode())) == paths
