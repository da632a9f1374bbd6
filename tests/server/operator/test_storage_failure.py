"""A full or read-only disk: clear errors, no partial changes, and recovery when it works again."""

import base64
import itertools
from contextlib import ExitStack

import pytest

from mirror_sdk.wire.errors import ErrorBody
from mirror_server.hooks import Extensions
from mirror_server.service import keys
from mirror_server.service.keys import Scope
from mirror_server.store.backend import StorageFailed, TooMuchWaiting, path_of
from mirror_server.store.maintenance import violations
from mirror_server.store.writer import MAX_WAITING

LEVEL, EVERYTHING = "/3311/0/5851", "/v2/notification/pull?after=0&hold=0"
CHANGES = {
    "a device request": ("POST", "/v2/device-requests/{device}?async-id=new", {"method": "GET", "uri": LEVEL}),
    "rules": ("PUT", "/v2/subscriptions", [{"endpoint-type": "x"}]),
    "no rules": ("DELETE", "/v2/subscriptions", None),
    "a subscription": ("PUT", f"/v2/subscriptions/{{device}}{LEVEL}", None),
    "no subscription": ("DELETE", f"/v2/subscriptions/{{device}}{LEVEL}", None),
    "no poll channel": ("DELETE", "/v2/notification/pull", None),
    "no webhook": ("DELETE", "/v2/notification/callback", None),
}


@pytest.fixture
def device(server, key):
    return server.add_device(key, "d", {"path": LEVEL, "value": "1", "writable": True, "observable": True})


def test_failed_write_is_503_with_a_cure_and_changes_nothing(server, key, device, disk):
    server.subscribe(key, device, LEVEL)
    assert server.call(key, "PUT", "/v2/subscriptions", json=[{"endpoint-type": "mine"}]).status_code == 202

    def call(method, path, body, **options):
        return server.call(key, method, path.format(device=device), **({"json": body} if body else {}), **options)

    before = state(server, key, device)
    disk.break_down()
    for name, change in CHANGES.items():
        response = call(*change, settled=False)
        assert response.status_code == 503, name
        error_response = ErrorBody.model_validate(response.json, extra="forbid")
        assert (error_response.type, error_response.reason) == ("unavailable", "STORAGE_FAILED")
        assert int(response.headers["Retry-After"]) > 0
        assert state(server, key, device) == before, name
    disk.mend()
    assert state(server, key, device) == before
    for name, change in CHANGES.items():
        assert call(*change).status_code in {200, 202, 204, 404}, name
    with server.services.database.read() as session:
        assert list(violations(session, Extensions().storages)) == []


def state(server, key, device):
    paths = ["/v2/subscriptions", f"/v2/subscriptions/{device}", f"/v2/subscriptions/{device}{LEVEL}"]
    body = server.call(key, "GET", f"/v3/devices/{device}/echo").json
    del body["created_at"]
    return body, [server.call(key, "GET", path).get_data() for path in (*paths, EVERYTHING)]


def test_reads_continue_during_a_disk_failure_and_events_are_stored_in_order_after_it(server, key, device, disk):
    newcomer = keys.create(server.services.database, "newcomer", tuple(Scope), server.now)
    server.subscribe(key, device, LEVEL)
    server.patch(key, device, latency_seconds=30)
    server.submit(key, device, "w", "PUT", LEVEL, value="8")
    before = server.observed(key)
    logged = server.call(key, "GET", EVERYTHING).get_data()
    disk.break_down()
    assert server.call(key, "GET", f"/v3/devices/{device}/echo").json["resources"][0]["reported"]["value"] == "MQ=="
    assert server.call(newcomer, "GET", "/v3/devices").json["data"][0]["id"] == device
    assert server.call(None, "GET", "/healthz").status_code == 200
    for value in ("5", "6", "7"):
        server.devices.set_value(device, LEVEL, value)
    server.services.clock.advance(31_000)
    assert server.call(key, "GET", EVERYTHING).get_data() == logged
    disk.mend()
    assert server.responses(key) == {"w": (200, None)}
    desired = server.resource(key, device, LEVEL)["desired"]
    assert (desired["status"], base64.b64decode(desired["value"])) == (1, b"8")
    assert server.observed(key)[len(before) :] == [(device, value) for value in ("5", "6", "7", "8")]
    # The log of an application that connected meanwhile starts now.
    assert server.call(newcomer, "GET", "/v2/notification/pull?after=latest&hold=0").headers["Mirror-Cursor"] == "0"
    server.registration(key, device, "PUT")
    assert server.kinds(newcomer) == ["reg-updates"]


@pytest.mark.sqlite
def test_full_disk_rejects_only_writes_that_do_not_fit(server, key, device):
    database = server.services.database
    pages = database.write(lambda session: session.scalar("PRAGMA page_count"))
    connection = database.backend._connection
    connection.execute(f"PRAGMA max_page_count = {pages}")
    rules = [{"endpoint-name": f"{number:064}", "resource-path": ["/3303/*"]} for number in range(1000)]
    response = server.call(key, "PUT", "/v2/subscriptions", json=rules)
    assert response.status_code == 503
    assert "full" in response.json["message"]
    assert server.call(key, "GET", "/v2/subscriptions").json == []
    connection.execute("PRAGMA max_page_count = 1000000")
    assert server.call(key, "PUT", "/v2/subscriptions", json=rules).status_code == 202
    assert server.call(key, "GET", "/v2/subscriptions").json == rules


def test_writes_beyond_the_queue_limit_are_429(server, key, device, hold_writer):
    database = server.services.database
    with hold_writer(database):
        for _ in range(MAX_WAITING):
            database.submit_durable(lambda session: None)
        response = server.call(key, "PUT", "/v2/subscriptions", settled=False, json=[{"endpoint-type": "x"}])
        with pytest.raises(TooMuchWaiting):
            database.submit(lambda session: None).result(0)
    assert (response.status_code, response.json["reason"]) == (429, "TOO_MUCH_WAITING")
    assert int(response.headers["Retry-After"]) > 0
    assert database.settle(60)
    assert server.call(key, "GET", "/v2/subscriptions").json == []


def assert_rejected(server, key, device):
    """Check the response to a write that is not stored."""
    request = {"method": "PUT", "uri": LEVEL, "payload-b64": "Nw=="}
    response = server.call(key, "POST", f"/v2/device-requests/{device}?async-id=w", settled=False, json=request)
    assert (response.status_code, response.json["reason"]) == (503, "STORAGE_FAILED")
    return response.json["message"]


def is_accepted(server, key, device):
    server.submit(key, device, "w", "PUT", LEVEL, value="7")
    return server.responses(key) == {"w": (200, None)}


@pytest.mark.sqlite
@pytest.mark.parametrize("is_replaced", [False, True], ids=["removed", "replaced"])
def test_writes_to_a_renamed_file_are_rejected(server, key, device, tmp_path, caplog, is_replaced):
    """The unlinked file is deleted when the server ends, with all accepted changes."""
    path, elsewhere = path_of(server.settings.database_url), tmp_path / "elsewhere.db"
    server.services.database.backend.backup(tmp_path / "other.db")
    path.rename(elsewhere)
    if is_replaced:
        (tmp_path / "other.db").rename(path)
    ready = server.call(None, "GET", "/readyz")
    assert (ready.status_code, server.call(None, "GET", "/healthz").status_code) == (503, 200)
    message = assert_rejected(server, key, device)
    assert ("replaced" if is_replaced else "removed") in message
    assert message.startswith("the server cannot use its database, because the file was re")
    assert ("put the file back" in message, str(path) in message) == (False, False)
    # Once, although several requests failed. The cure is only for the operator.
    (record,) = [text for text in caplog.messages if f"cannot use the database {path}, because the file was" in text]
    assert "put the file back, or stop the server and restore a backup" in record
    assert ("'mark-restored'" in record) == is_replaced
    # Concurrent reads use one database and create none: one read per connection, and one more.
    with ExitStack() as readers, pytest.raises(StorageFailed, match="cannot use its database, because"):
        list(map(readers.enter_context, (server.services.database.read() for _ in itertools.count())))
    assert path.exists() == is_replaced
    elsewhere.rename(path)
    assert is_accepted(server, key, device)


@pytest.mark.sqlite
def test_events_wait_while_the_file_is_missing(server, key, device, disk, tmp_path):
    """Simulate a network file system that fails for a moment."""
    path, elsewhere = path_of(server.settings.database_url), tmp_path / "elsewhere.db"
    path.rename(elsewhere)
    path.symlink_to(path)
    happened = server.services.database.submit_durable(lambda session: session.run("DELETE FROM settings"))
    assert_rejected(server, key, device)
    path.unlink()
    elsewhere.rename(path)
    assert happened.result(60) is not None
    assert is_accepted(server, key, device)


def test_server_stops_despite_a_broken_disk_and_continues_after_a_restart(server, key, device, disk):
    server.patch(key, device, latency_seconds=30)
    server.submit(key, device, "w", "PUT", LEVEL, value="7")
    disk.break_down()
    server.services.clock.advance(31_000)
    postponed = server.services.database.submit_durable(lambda session: session.run("DELETE FROM settings"))
    server.restart()
    with pytest.raises(StorageFailed):
        postponed.result(0)
    server.advance(key, 40)
    assert server.responses(key) == {"w": (200, None)}
