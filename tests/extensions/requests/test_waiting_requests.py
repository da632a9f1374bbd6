"""The pending requests of an application [an extension]."""

import pytest
from device_resources import control

from mirror_sdk.wire.device_requests import WaitingRequestPage
from mirror_server.service.keys import Scope

PATH = "/3303/0/5700"
LIST = "/v2/device-requests"


@pytest.fixture
def device(server, key):
    made = server.add_device(key, "d", control(PATH, "1"))
    server.patch(key, made, online=False)
    return made


def listed(server, key, path=LIST, **query):
    answer = server.call(key, "GET", path, query_string=query)
    assert answer.status_code == 200, answer.get_data()
    WaitingRequestPage.model_validate(answer.json, extra="forbid")
    return answer.json


def ids(page):
    return [entry["async_response_id"] for entry in page["data"]]


def test_request_is_listed_from_its_202_to_its_response_without_its_value(server, key, device):
    server.submit(key, device, "w", "PUT", PATH, value="42", expiry_seconds=60)
    server.submit(key, device, "r", "GET", PATH)
    page = listed(server, key)
    entry = page["data"][0]
    assert (entry["device_id"], entry["method"], entry["uri"]) == (device, "PUT", PATH)
    assert (entry["state"], entry["attempts"]) == ("waiting", 0)
    assert (entry["placed_at"], entry["expires_at"]) == ("2026-01-05T08:00:00.000Z", "2026-01-05T08:01:00.000Z")
    assert ids(page) == ["w", "r"]
    server.patch(key, device, online=True)
    assert listed(server, key)["data"] == []


def test_request_has_its_state_and_failed_attempts(server, key, device):
    server.patch(key, device, online=True, answer="silent")
    body = {"method": "PUT", "uri": f"{PATH}?pmin=5&pmax=120"}
    assert server.call(key, "POST", f"{LIST}/{device}?async-id=r&retry=3", json=body).status_code == 202
    for attempts in (0, 1):
        (entry,) = listed(server, key)["data"]
        assert (entry["state"], entry["attempts"], entry["uri"]) == ("with_device", attempts, body["uri"])
        server.advance(key, 121)


def test_pending_requests_are_listed_by_device_and_by_application(server, key, device):
    other = server.add_device(key, "other")
    server.patch(key, other, online=False)
    for number, target in enumerate([device, other, device]):
        server.submit(key, target, str(number), "GET", PATH)
    assert ids(listed(server, key)) == ["0", "1", "2"]
    assert ids(listed(server, key, f"{LIST}/{device}")) == ["0", "2"]
    answer = server.call(key, "GET", f"{LIST}/nobody")
    assert (answer.status_code, answer.json["reason"]) == (404, "DEVICE_NOT_FOUND")
    other_key = server.key(Scope.READ)
    assert listed(server, other_key)["data"] == listed(server, other_key, f"{LIST}/{device}")["data"] == []
    assert server.call(other_key, "GET", LIST, query_string={"after": "0"}).status_code == 400


def test_pages_follow_each_other_without_a_loss_or_a_repetition(server, key, device):
    expected = [f"r{number}" for number in range(7)]
    for async_id in expected:
        server.submit(key, device, async_id, "GET", PATH)
    page = listed(server, key, limit=2)
    seen = ids(page)
    while page["has_more"]:
        page = listed(server, key, limit=2, after=seen[-1])
        assert page["after"] == seen[-1]
        seen += ids(page)
    assert seen == expected
    answer = server.call(key, "GET", LIST, query_string={"after": "nothing"})
    message = "'nothing' is not the async-id of a request of this key; list again without after="
    assert answer.json["fields"] == [{"name": "after", "message": message}]
