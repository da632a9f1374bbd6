"""Failed writes that someone acknowledges, so that they do not count as failed any more: an extension."""

import pyarrow as pa
import pytest

from mirror_sdk.wire.device_object import DeviceObject
from mirror_sdk.wire.snapshot import ARROW, NDJSON
from mirror_server.service import keys
from mirror_server.service.keys import Scope

READ_ONLY = "/3303/0/5700"
LEVEL = "/3311/0/5851"
SNAPSHOT = "/v3/device-echo"


@pytest.fixture
def device(server, key):
    """A device with one write that failed, and one that succeeded."""
    paths = [{"path": READ_ONLY, "value": "21.5", "observable": True}, {"path": LEVEL, "value": "0", "writable": True}]
    device_id = server.add_device(key, "sensor-1", *paths)
    server.place(key, device_id, "failed", "PUT", READ_ONLY, value="30")
    server.place(key, device_id, "done", "PUT", LEVEL, value="40")
    return device_id


def acknowledge(server, key, device, path=READ_ONLY, **members):
    body = {"resource_path": path, **members}
    return server.call(key, "POST", f"/v3/devices/{device}/echo/acknowledgements", json=body)


def desired(server, key, device, path=READ_ONLY):
    return server.resource(key, device, path)["desired"]


def test_an_acknowledged_failure_shows_who_and_when_to_every_key(server, key, other, device):
    before = desired(server, key, device)
    tag = server.call(key, "GET", f"/v3/devices/{device}/echo").headers["ETag"]
    answer = acknowledge(server, other, device, by="night shift")
    assert (answer.status_code, answer.get_data()) == (204, b"")
    after = desired(server, key, device)
    assert after.pop("acknowledged_by") == "night shift"
    assert after.pop("acknowledged_at") >= before["status_updated_at"]
    # Nothing else of it changes, the revision included: a write with If-Match is taken as before.
    assert after == before
    assert "acknowledged_at" in desired(server, other, device)
    assert server.call(key, "GET", f"/v3/devices/{device}/echo", headers={"If-None-Match": tag}).status_code == 200


def test_without_a_name_it_is_that_of_the_access_key(server, device):
    named = keys.create(server.services.database, "workbench", [Scope.READ, Scope.WRITE], server.now)
    assert acknowledge(server, named, device).status_code == 204
    assert desired(server, named, device)["acknowledged_by"] == "workbench"


def test_a_failure_that_was_acknowledged_before_stays_as_it_is(server, key, device):
    acknowledge(server, key, device, by="first")
    server.advance(key, 60)
    before = desired(server, key, device)
    assert acknowledge(server, key, device, by="second").status_code == 204
    assert desired(server, key, device) == before


def test_next_write_clears_it_and_the_revision_names_the_failure(server, key, device):
    seen = desired(server, key, device)["revision"]
    acknowledge(server, key, device)
    server.place(key, device, "again", "PUT", READ_ONLY, value="31")
    after = desired(server, key, device)
    assert after["status"] == 2
    assert not {"acknowledged_at", "acknowledged_by"} & after.keys()
    answer = acknowledge(server, key, device, revision=seen)
    assert (answer.status_code, answer.json["reason"]) == (409, "NO_FAILED_WRITE")
    assert str(seen) in answer.json["message"]
    assert acknowledge(server, key, device, revision=after["revision"]).status_code == 204


def test_acknowledging_a_write_that_has_not_failed_is_409(server, key):
    resources_of = [{"path": LEVEL, "value": "0", "writable": True}, {"path": "/3303/0/5701", "value": "Cel"}]
    device = server.add_device(key, "sensor-2", *resources_of)
    server.place(key, device, "done", "PUT", LEVEL, value="40")
    for path in (LEVEL, "/3303/0/5701"):
        answer = acknowledge(server, key, device, path)
        assert (answer.status_code, answer.json["reason"]) == (409, "NO_FAILED_WRITE")
        assert "has not failed" in answer.json["message"]
        assert "acknowledged_at" not in desired(server, key, device, path)


def test_a_device_or_resource_that_is_not_known_is_refused(server, key, device):
    assert acknowledge(server, key, "nobody").status_code == 404
    answer = acknowledge(server, key, device, "/3303/7/5700")
    assert (answer.status_code, answer.json["reason"]) == (400, "RESOURCE_NOT_FOUND")
    assert [field["name"] for field in answer.json["fields"]] == ["resource_path"]
    assert acknowledge(server, key, device, by="").status_code == 400


def test_both_forms_of_the_snapshot_have_it(server, key, device):
    acknowledge(server, key, device, by="night shift")
    lines = server.call(key, "GET", SNAPSHOT, headers={"Accept": NDJSON}, buffered=True).get_data().splitlines()
    told = DeviceObject.model_validate_json(lines[0], extra="forbid")
    (failed, done) = [one.desired for one in sorted(told.resources, key=lambda one: one.resource_path)]
    content = server.call(key, "GET", SNAPSHOT, headers={"Accept": ARROW}, buffered=True).get_data()
    ((first, second),) = pa.ipc.open_stream(content).read_all()["desired"].to_pylist()
    assert (first["acknowledged_at"], first["acknowledged_by"]) == (failed.acknowledged_at, "night shift")
    assert [failed.acknowledged_by, done.acknowledged_by, second["acknowledged_by"]] == ["night shift", None, None]


def test_a_reader_of_changes_learns_of_it(server, key, device):
    answer = server.call(key, "GET", SNAPSHOT, headers={"Accept": NDJSON}, buffered=True)
    revision = answer.get_data().splitlines()[-1].split(b'"revision":')[1].split(b",")[0].decode()
    acknowledge(server, key, device)
    query = f"{SNAPSHOT}?changed_after={revision}"
    changed = server.call(key, "GET", query, headers={"Accept": NDJSON}, buffered=True).get_data()
    assert b"acknowledged_at" in changed
