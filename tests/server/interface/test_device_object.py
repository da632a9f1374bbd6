"""Device objects after writes and reads; subscriptions have their own file. Source: specification 2.2, 3.1, 3.2."""

import base64
from contextlib import closing
from unittest.mock import ANY

import pytest
from device_resources import action, control, sensor
from resource_paths import SWITCH, TEMPERATURE

from mirror_server.hooks import Extensions, open_database
from mirror_server.store.maintenance import erase_device
from mirror_server.store.resources import AnnouncedResource

LIGHT = (control(SWITCH), sensor(TEMPERATURE), action("/3/0/4"))


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.fixture
def light(server, key):
    return server.add_device(key, "light-1", *LIGHT)


def test_write_is_pending_with_its_issue_time_until_the_device_accepts_it(server, key, light):
    server.patch(key, light, online=False)
    server.advance(key, 60)
    assert server.submit(key, light, "w", "PUT", SWITCH, value="1").status_code == 202
    server.advance(key, 60)
    at = "2026-01-05T08:01:00.000Z"
    pending = {"value": encoded("1"), "content_type": "text/plain", "requested_at": at, "revision": ANY}
    assert server.resource(key, light, SWITCH)["desired"] == pending | {"status": 0, "desired_at": at}
    server.patch(key, light, online=True)
    server.advance(key, 60)
    updated_at = "2026-01-05T08:02:00.000Z"
    done = {"status": 1, "desired_at": updated_at, "status_updated_at": updated_at}
    assert server.resource(key, light, SWITCH)["desired"] == pending | done
    assert server.responses(key) == {"w": (200, None)}


def test_newer_write_supersedes_a_pending_one_and_ignores_its_outcome(server, key, light):
    server.patch(key, light, latency_seconds=10)
    server.submit(key, light, "old", "PUT", SWITCH, value="0")
    server.submit(key, light, "new", "PUT", SWITCH, value="1")
    server.patch(key, light, answer="reject")
    server.advance(key, 10)
    server.patch(key, light, answer="normal")
    assert server.responses(key) == {"old": (400, "REJECTED")}
    desired = server.resource(key, light, SWITCH)["desired"]
    assert (desired["status"], desired["value"]) == (0, encoded("1"))
    server.advance(key, 10)
    assert server.responses(key)["new"] == (200, None)
    assert server.resource(key, light, SWITCH)["desired"]["status"] == 1


def test_read_stores_the_value_with_its_time(server, key, light):
    server.advance(key, 60)
    assert server.submit(key, light, "r", "GET", TEMPERATURE).status_code == 202
    assert server.resource(key, light)["reported"] == {
        "value": encoded("21.5"),
        "content_type": "text/plain",
        "reported_at": "2026-01-05T08:01:00.000Z",
        "origin": "read",
        "revision": ANY,
    }


def test_newest_times_are_those_of_all_resources(server, key, light):
    server.submit(key, light, "r", "GET", SWITCH)
    server.advance(key, 60)
    server.submit(key, light, "r2", "GET", TEMPERATURE)
    server.advance(key, 60)
    server.submit(key, light, "w", "PUT", SWITCH, value="1")
    body = server.call(key, "GET", f"/v3/devices/{light}/echo").json
    assert body["last_reported_at"] == "2026-01-05T08:01:00.000Z"
    assert body["last_desired_at"] == "2026-01-05T08:02:00.000Z"
    assert body["updated_at"] == "2026-01-05T08:00:00.000Z"


def test_etag_changes_with_content_and_not_with_time(server, key, light):
    url = f"/v3/devices/{light}/echo"
    first = server.call(key, "GET", url)
    server.advance(key, 60)
    same = server.call(key, "GET", url, headers={"If-None-Match": first.headers["ETag"]})
    assert (same.status_code, same.get_data(), same.headers["ETag"]) == (304, b"", first.headers["ETag"])
    assert same.headers.getlist("Cache-Control") == ["no-store"]
    assert same.headers.getlist("X-Content-Type-Options") == ["nosniff"]
    assert server.call(key, "GET", url).json["created_at"] != first.json["created_at"]
    server.submit(key, light, "r", "GET", TEMPERATURE)
    assert server.call(key, "GET", url, headers={"If-None-Match": first.headers["ETag"]}).status_code == 200


def test_cached_device_is_404_after_any_process_erased_it(server, key):
    def erase(database, device):
        assert server.call(key, "GET", f"/v3/devices/{device}/echo").status_code == 200
        database.write(lambda session: erase_device(session, device, Extensions().storages))
        assert server.call(key, "GET", f"/v3/devices/{device}/echo").status_code == 404

    one, other = (server.add_device(key, name) for name in ("one", "other"))
    erase(server.services.database, one)
    with closing(open_database(server.settings.database_url)) as database:
        erase(database, other)


def test_resource_list_matches_the_registration(server, key, light):
    announced = (
        AnnouncedResource(TEMPERATURE, "temperature", "text/plain"),
        AnnouncedResource("/3/0/4", "", "", False),
    )
    server.services.devices.registration_updated(light, announced).result(60)
    listed = {entry["uri"]: entry for entry in server.call(key, "GET", f"/v2/endpoints/{light}").json}
    assert listed == {
        TEMPERATURE: {"uri": TEMPERATURE, "obs": True, "rt": "temperature", "type": "text/plain"},
        "/3/0/4": {"uri": "/3/0/4", "obs": False, "rt": "", "type": ""},
    }
