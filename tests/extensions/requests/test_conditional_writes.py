"""``If-Match`` on E2: a write does not overwrite changes that its writer has not seen. Source: wire.md 1 and 2."""

import base64
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from device_resources import action, control, sensor
from resource_paths import LEVEL, REBOOT, SWITCH

from mirror_sdk.wire.device_requests import DesiredChanged
from mirror_server.service.keys import Scope

SENSOR = "/3303/0/5700"
UNKNOWN_DEVICE = "0" * 32


@pytest.fixture
def light(server, key):
    return server.add_device(key, "light-1", control(SWITCH), control(LEVEL, "10"), sensor(SENSOR), action(REBOOT))


def write(server: Any, key: str, device: str, value: str, if_match: str | None, path: str = LEVEL, **query: str) -> Any:
    headers = {} if if_match is None else {"If-Match": if_match}
    body = {"method": "PUT", "uri": path, "payload-b64": base64.b64encode(value.encode()).decode()}
    url = f"/v2/device-requests/{device}"
    return server.call(key, "POST", url, headers, json=body, query_string=query)


def desired(server: Any, key: str, device: str, path: str = LEVEL) -> Any:
    return server.resource(key, device, path)["desired"]


def value_of(part: dict[str, Any]) -> str:
    return base64.b64decode(part["value"]).decode()


def overtaken(answer: Any) -> Any:
    """Return the resource of a rejected write."""
    assert answer.status_code == 412, answer.get_data()
    body = DesiredChanged.model_validate(answer.json, extra="forbid")
    assert (body.code, body.type, body.reason) == (412, "precondition_failed", "DESIRED_CHANGED")
    assert [field.name for field in body.fields] == ["If-Match"]
    assert body.request_id == answer.headers["X-Request-ID"]
    return answer.json["resource"]


def test_write_with_the_current_revision_is_202(server, key, light):
    for number, form in enumerate(["{}", '"{}"', 'W/"{}"', " {} ", "0{}", "*"]):
        server.submit(key, light, f"first-{number}", "PUT", LEVEL, value="40")
        revision = desired(server, key, light)["revision"]
        # Neither a read nor a write of another resource is a change.
        server.submit(key, light, f"read-{number}", "GET", LEVEL)
        server.submit(key, light, f"other-{number}", "PUT", SWITCH, value="1")
        assert write(server, key, light, "70", form.format(revision)).status_code == 202
        assert value_of(desired(server, key, light)) == "70"
        assert desired(server, key, light)["revision"] > revision
    server.restart()
    assert write(server, key, light, "80", str(desired(server, key, light)["revision"])).status_code == 202


def test_write_that_its_writer_has_not_seen_is_not_overwritten(server, key, other, light):
    server.submit(key, light, "first", "PUT", LEVEL, value="40")
    seen = desired(server, key, light)["revision"]
    server.submit(other, light, "second", "PUT", LEVEL, value="55")
    answer = write(server, key, light, "70", f'"{seen}"', **{"async-id": "third"})
    assert overtaken(answer) == server.resource(key, light, LEVEL)
    assert value_of(answer.json["resource"]["desired"]) == "55"
    assert str(seen) in answer.json["message"]
    assert "third" not in server.responses(key)
    # With the returned revision, the write is accepted.
    again = answer.json["resource"]["desired"]["revision"]
    assert write(server, key, light, "70", f'"{again}"', **{"async-id": "third"}).status_code == 202
    assert server.responses(key)["third"] == (200, None)


def test_rejected_write_changes_nothing(server, key, light, check_error, unchanged_from):
    reader = server.key(Scope.READ)
    no_revisions = ["", " ", "17.5", "-1", "x", '"', '""', '"17', "'17'", "W/17", "1, 2", '"1", "2"', "**", "9" * 20]
    with unchanged_from():
        for seen in ("1", '"17"', "*", "9999999999999999999"):
            assert overtaken(write(server, key, light, "70", seen))["desired"] == {}
        for if_match in [*no_revisions, "\u0661".encode().decode("latin-1")]:
            assert '"0"' in check_error(write(server, key, light, "40", if_match), 400, "If-Match").message
        for method, uri in (("GET", LEVEL), ("POST", REBOOT), ("PUT", f"{LEVEL}?pmin=5")):
            body = {"method": method, "uri": uri}
            answer = server.call(key, "POST", f"/v2/device-requests/{light}", {"If-Match": "0"}, json=body)
            assert "writing a value" in check_error(answer, 400, "If-Match").message
        for device, path, code in ((UNKNOWN_DEVICE, LEVEL, 404), (light, "/3303/7/5700", 400), (light, "/3311/0", 400)):
            for if_match in ("0", None):
                assert write(server, key, device, "40", if_match, path=path).status_code == code
        check_error(write(server, reader, light, "40", "17"), 403)


def test_resource_that_was_never_written_is_written_by_the_first_alone(server, key, other, light):
    assert "revision" not in desired(server, key, light)
    overtaken(write(server, key, light, "40", "17", **{"async-id": "w"}))
    assert write(server, key, light, "40", '"0"', **{"async-id": "w"}).status_code == 202, "the id is free again"
    assert value_of(overtaken(write(server, other, light, "55", "0"))["desired"]) == "40"


def test_end_of_a_write_changes_its_revision(server, key, light):
    server.patch(key, light, online=False)
    server.submit(key, light, "first", "PUT", LEVEL, value="40")
    pending = desired(server, key, light)
    server.patch(key, light, online=True)
    assert server.responses(key) == {"first": (200, None)}
    now = overtaken(write(server, key, light, "70", str(pending["revision"])))["desired"]
    assert (pending["status"], now["status"]) == (0, 1)
    assert now["revision"] > pending["revision"]


def test_only_the_issuer_gets_the_reason_of_a_failed_write(server, key, other, light):
    server.patch(key, light, answer="reject")
    server.submit(key, light, "first", "PUT", LEVEL, value="40")
    to_issuer = overtaken(write(server, key, light, "70", "1"))["desired"]
    to_other = overtaken(write(server, other, light, "70", "1"))["desired"]
    assert to_issuer.pop("category") == "REJECTED"
    assert to_issuer == to_other


def test_repeated_request_has_the_same_response_with_any_condition(server, key, other, light):
    server.patch(key, light, online=False)
    first = write(server, key, light, "40", "0", **{"async-id": "w"})
    server.submit(other, light, "second", "PUT", LEVEL, value="55")
    for if_match in ("0", '"17"', None):
        again = write(server, key, light, "40", if_match, **{"async-id": "w"})
        assert (again.status_code, again.json) == (202, first.json)
        assert again.headers["Mirror-Requested-At"] == first.headers["Mirror-Requested-At"]
    server.patch(key, light, online=True)
    assert server.responses(key) == {"w": (200, None)}
    assert value_of(desired(server, key, light)) == "55"


def test_one_of_concurrent_writes_with_the_same_revision_succeeds(server, key, other, light):
    server.submit(key, light, "first", "PUT", LEVEL, value="40")
    seen = str(desired(server, key, light)["revision"])
    url = f"/v2/device-requests/{light}"

    def submit(application: str, value: str) -> Any:
        headers = {"If-Match": seen, "Authorization": f"Bearer {application}"}
        body = {"method": "PUT", "uri": LEVEL, "payload-b64": base64.b64encode(value.encode()).decode()}
        return server.app.test_client().post(url, headers=headers, json=body)

    # Both are sent before either is stored, so they may share a transaction.
    with ThreadPoolExecutor(8) as pool:
        responses = list(pool.map(submit, [key, other] * 4, map(str, range(1, 9))))
    assert sorted(response.status_code for response in responses) == [202] + [412] * 7
    (winner,) = (str(number) for number, response in enumerate(responses, 1) if response.status_code == 202)
    assert value_of(desired(server, key, light)) == winner
    assert {
        value_of(response.json["resource"]["desired"]) for response in responses if response.status_code == 412
    } == {winner}


def test_server_without_conditional_writes_rejects_a_precondition(new_server, check_error):
    server = new_server(without=("requests",))
    key = server.key()
    device = server.add_device(key, "light-1", control(LEVEL, "10"))
    assert (
        "preconditions are not supported" in check_error(write(server, key, device, "40", "0"), 400, "If-Match").message
    )
    assert not desired(server, key, device)
    assert write(server, key, device, "40", None).status_code == 202
