"""The flows of the interface over real HTTP. Source: specification 3.3 and 6; wire.md 4."""

from __future__ import annotations

import subprocess
import sys

import pytest
from process_server import PATIENCE_SECONDS, Application, ServerProcess, child_environment, decoded, wait_until

pytestmark = pytest.mark.process

TEMPERATURE = "/3303/0/5700"
SWITCH = "/3311/0/5850"

_READER = """
import sys, httpx
url, key, last = sys.argv[1], sys.argv[2], int(sys.argv[3])
after, uids = 0, []
with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=60, trust_env=False) as client:
    while after < last:
        answer = client.get("/v2/notification/pull", params={"after": after, "hold": 5})
        after = int(answer.headers["Mirror-Cursor"])
        message = answer.json() if answer.content else {}
        uids += [entry["uid"] for entries in message.values() for entry in entries]
print(*uids, sep="\\n")
"""


def light(application: Application, name: str, **behaviour: object) -> str:
    device_id = application.add_device(
        name,
        {"path": TEMPERATURE, "value": "21", "observable": True},
        {"path": SWITCH, "value": "0", "writable": True},
    )
    if behaviour:
        application.patch_device(device_id, **behaviour)
    return device_id


def observations(application: Application, device_id: str) -> list[str]:
    """The values of all observation events of a device."""
    return [
        decoded(entry["payload"])
        for kind, entry in application.entries()
        if kind == "notifications" and entry["ep"] == device_id
    ]


def test_read_flow(application: Application) -> None:
    device_id = light(application, "read-flow")
    empty = application.resource(device_id, TEMPERATURE)
    assert (empty["reported"], empty["desired"]) == ({}, {})

    accepted = application.read(device_id, TEMPERATURE, "read-1")
    response = application.response("read-1")

    assert (accepted.status_code, accepted.json()) == (202, {"async-response-id": "read-1"})
    assert (response["status"], decoded(response["payload"])) == (200, "21")
    reported = application.resource(device_id, TEMPERATURE)["reported"]
    assert decoded(reported["value"]) == "21"
    assert reported["reported_at"] == application.json("GET", "/sim/v1/clock")["now"]


def test_write_flow(application: Application) -> None:
    device_id = light(application, "write-flow", latency_seconds=2)

    assert application.write(device_id, SWITCH, "1", "write-1").status_code == 202
    issued_at = application.json("GET", "/sim/v1/clock")["now"]
    pending = application.resource(device_id, SWITCH)["desired"]
    application.json("POST", "/sim/v1/clock", json={"advance_seconds": 2})
    desired = application.resource(device_id, SWITCH)["desired"]

    assert (pending["status"], pending["desired_at"]) == (0, issued_at)
    assert "status_updated_at" not in pending
    assert (desired["status"], decoded(desired["value"]), desired["requested_at"]) == (1, "1", issued_at)
    assert desired["desired_at"] == desired["status_updated_at"] == application.json("GET", "/sim/v1/clock")["now"]
    assert application.response("write-1")["status"] == 200
    assert application.simulated_values(device_id)[SWITCH] == "1"


def test_write_to_a_resource_that_is_not_writeable_fails(application: Application) -> None:
    device_id = light(application, "failed-write-flow")

    assert application.write(device_id, TEMPERATURE, "30", "write-2").status_code == 202

    assert application.response("write-2")["error"] == "METHOD_NOT_ALLOWED"
    assert application.resource(device_id, TEMPERATURE)["desired"]["status"] == 2
    assert application.simulated_values(device_id)[TEMPERATURE] == "21"


def test_write_to_a_device_that_does_not_come_expires(application: Application) -> None:
    device_id = light(application, "expiry-flow", online=False)

    assert application.write(device_id, SWITCH, "1", "write-3", expiry_seconds=60).status_code == 202
    application.json("POST", "/sim/v1/clock", json={"advance_seconds": 59})
    assert application.resource(device_id, SWITCH)["desired"]["status"] == 0
    application.json("POST", "/sim/v1/clock", json={"advance_seconds": 1})

    assert application.response("write-3")["error"] == "REQUEST_EXPIRED"
    assert application.resource(device_id, SWITCH)["desired"]["status"] == 2


def test_subscribe_flow_by_presubscription(application: Application) -> None:
    rule = {"endpoint-name": "subscribe-flow", "resource-path": ["/3303/*"]}
    assert application.http.put("/v2/subscriptions", json=[rule]).status_code == 202

    device_id = light(application, "subscribe-flow")
    wait_until(lambda: observations(application, device_id) == ["21"], "the initial value")
    resource = application.resource(device_id, TEMPERATURE)
    application.json("PUT", f"/sim/v1/devices/{device_id}/resources{TEMPERATURE}", json={"value": "22"})

    assert (resource["subscribed"], decoded(resource["reported"]["value"])) == (True, "21")
    assert observations(application, device_id) == ["21", "22"]
    assert application.resource(device_id, SWITCH)["subscribed"] is False


def test_auto_observation_flow_reaches_the_mirror_and_no_application(application: Application) -> None:
    device_id = application.add_device("auto-flow", {"path": TEMPERATURE, "value": "20", "auto_observable": True})

    application.json("PUT", f"/sim/v1/devices/{device_id}/resources{TEMPERATURE}", json={"value": "19"})

    resource = application.resource(device_id, TEMPERATURE)
    assert (decoded(resource["reported"]["value"]), resource["subscribed"]) == ("19", False)
    assert observations(application, device_id) == []


def test_value_of_a_resource_nobody_observes_stays_unknown(application: Application) -> None:
    device_id = light(application, "quiet")

    application.json("PUT", f"/sim/v1/devices/{device_id}/resources{TEMPERATURE}", json={"value": "23"})

    assert application.resource(device_id, TEMPERATURE)["reported"] == {}


def test_async_responses_reach_only_the_key_that_asked_and_registrations_reach_every_key(
    shared_server: ServerProcess,
) -> None:
    one, other = shared_server.application(), shared_server.application()
    for application in (one, other):
        application.poll(hold=0)
    device_id = light(one, "two-keys")

    one.write(device_id, SWITCH, "1", "of-one")
    other.read(device_id, SWITCH, "of-other")
    one.response("of-one")
    other.response("of-other")

    assert set(one.responses()) == {"of-one"}
    assert set(other.responses()) == {"of-other"}
    for application in (one, other):
        registered = [entry["ep"] for kind, entry in application.entries() if kind == "registrations"]
        assert registered == [device_id]


def test_two_reader_processes_with_one_key_both_get_every_event_once(shared_server: ServerProcess) -> None:
    application = shared_server.application()
    device_id = light(application, "two-readers")
    application.json("PUT", f"/v2/subscriptions/{device_id}{TEMPERATURE}")
    wait_until(lambda: observations(application, device_id) == ["21"], "the initial value")
    begun = len(list(application.entries()))
    last = begun + 30
    readers = [
        subprocess.Popen(
            [sys.executable, "-c", _READER, shared_server.url, application.key, str(last)],
            env=child_environment(),
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]

    for number in range(30):
        body = {"value": str(30 + number)}
        application.json("PUT", f"/sim/v1/devices/{device_id}/resources{TEMPERATURE}", json=body)

    outputs = [reader.communicate(timeout=PATIENCE_SECONDS)[0].split() for reader in readers]
    uids = [entry["uid"] for _, entry in application.entries()]
    assert len(set(uids)) == len(uids) == last
    assert outputs == [uids, uids]
