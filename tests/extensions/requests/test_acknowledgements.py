"""Acknowledged failed writes, which then no longer count as failed: an extension."""

import pytest
from device_resources import sensor, setting
from resource_paths import LEVEL

from mirror_server.service import keys
from mirror_server.service.keys import Scope

READ_ONLY = "/3303/0/5700"
OTHER = "/3303/0/5701"
SNAPSHOT = "/v3/device-echo"


@pytest.fixture
def device(server, key):
    """A device with one failed write and one successful one."""
    paths = [sensor(READ_ONLY), setting(LEVEL)]
    device_id = server.add_device(key, "sensor-1", *paths, {"path": OTHER, "value": "Cel"})
    server.submit(key, device_id, "failed", "PUT", READ_ONLY, value="30")
    server.submit(key, device_id, "done", "PUT", LEVEL, value="40")
    return device_id


def acknowledge(server, key, device, path=READ_ONLY, **members):
    body = {"resource_path": path, **members}
    return server.call(key, "POST", f"/v3/devices/{device}/echo/acknowledgements", json=body)


def desired(server, key, device, path=READ_ONLY):
    return server.resource(key, device, path)["desired"]


def test_acknowledged_failure_has_name_and_time_until_the_next_write(server, key, device):
    before = desired(server, key, device)
    tag = server.call(key, "GET", f"/v3/devices/{device}/echo").headers["ETag"]
    named = keys.create(server.services.database, "workbench", [Scope.READ, Scope.WRITE], server.now)
    answer = acknowledge(server, named, device)
    assert (answer.status_code, answer.get_data()) == (204, b"")
    assert server.call(key, "GET", f"/v3/devices/{device}/echo", headers={"If-None-Match": tag}).status_code == 200
    after = desired(server, key, device)
    assert after["acknowledged_by"] == "workbench"
    # Nothing else changes, not even the revision, so a write with If-Match is accepted as before.
    assert after == before | {name: after[name] for name in ("acknowledged_by", "acknowledged_at")}
    # The first acknowledgement remains.
    server.advance(key, 60)
    assert acknowledge(server, key, device, by="second").status_code == 204
    assert desired(server, key, device) == after
    server.submit(key, device, "again", "PUT", READ_ONLY, value="31")
    again = desired(server, key, device)
    assert again["status"] == 2
    assert not {"acknowledged_at", "acknowledged_by"} & again.keys()
    assert acknowledge(server, key, device, by="second", revision=again["revision"]).status_code == 204
    assert desired(server, key, device)["acknowledged_by"] == "second"


def test_only_the_failure_that_was_seen_is_acknowledged(server, key, device):
    seen = desired(server, key, device)["revision"]
    server.submit(key, device, "again", "PUT", READ_ONLY, value="31")
    cases = [({"revision": seen}, str(seen)), ({"path": LEVEL}, "is success"), ({"path": OTHER}, "never written")]
    for members, expected_message in cases:
        answer = acknowledge(server, key, device, **members)
        assert (answer.status_code, answer.json["reason"]) == (409, "NO_FAILED_WRITE")
        assert expected_message in answer.json["message"]
        assert "acknowledged_at" not in desired(server, key, device, members.get("path", READ_ONLY))
    answer = acknowledge(server, key, device, "/3303/7/5700")
    assert (answer.status_code, answer.json["reason"]) == (400, "RESOURCE_NOT_FOUND")
    assert [field["name"] for field in answer.json["fields"]] == ["resource_path"]
    assert acknowledge(server, key, device, by="").status_code == 400
