"""Keys and devices are queried once after each commit, and not again before the next one."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial

import pytest
from asgi_requests import scope_of
from databases import ON_POSTGRESQL

from mirror_server.core.commands import Command, CommandRequest
from mirror_server.hooks import open_database
from mirror_server.store import commands, devices
from mirror_server.store import keys as stored_keys
from mirror_server.store import resources as stored_resources
from mirror_server.store.commands import PendingWork
from mirror_server.store.devices import DeviceRow
from mirror_server.store.resources import AnnouncedResource
from mirror_server.web.asgi_bridge import QUEUED

pytestmark = pytest.mark.anyio


@pytest.fixture
def queries(server, monkeypatch) -> list[object]:
    """Record the queries of the test."""
    database, recorded, here = server.services.database, [], threading.get_ident()
    query = database.query

    def record(statement):
        # Other threads of the server query too.
        recorded.extend([statement] * (threading.get_ident() == here))
        return query(statement)

    monkeypatch.setattr(database, "query", record)
    return recorded


def read(server, key, device):
    return server.call(key, "GET", f"/v3/devices/{device}/echo")


def test_key_and_device_are_queried_once_after_a_commit(server, queries):
    key = server.key()
    device, other = server.add_device(key, "sensor-1"), server.add_device(key, "sensor-2")
    first = read(server, key, device)
    queries.clear()
    assert read(server, key, device).get_data() == first.get_data()
    assert queries == []

    server.registration(key, other, "PUT")
    queries.clear()
    for _ in range(3):
        assert read(server, key, device).status_code == 200
    assert len(queries) == 2


def test_only_changed_devices_are_read_again_after_a_commit(server, queries):
    key = server.key()
    ids = [server.add_device(key, f"sensor-{number}") for number in range(5)]
    for device in ids:
        read(server, key, device)
    server.advance(key, 1)
    server.registration(key, ids[1], "PUT")
    queries.clear()

    update_times = [read(server, key, device).json["updated_at"] for device in ids]

    # On SQLite: the key, the number of the last change, and the changed device. On PostgreSQL, where other processes
    # change devices too: the key and each device, with its resources if it changed.
    assert len(queries) == (6 if ON_POSTGRESQL else 3)
    assert [each == update_times[0] for each in update_times] == [True, False, True, True, True]


def test_next_request_sees_commits_of_another_process(server):
    key = server.key()
    device, other = server.add_device(key, "sensor-1"), server.add_device(key, "sensor-2")
    read(server, key, device)
    with closing(open_database(server.settings.database_url)) as another:
        another.write(lambda session: devices.rename(session, device, "sensor-3"))
        server.registration(key, other, "PUT")
        assert read(server, key, device).json["endpoint_name"] == "sensor-3"
        another.write(lambda session: stored_keys.revoke(session, key.split("_")[1], server.now))
    assert read(server, key, device).status_code == 401


def test_device_at_a_cached_revision_is_read_without_its_resources(server, key):
    paths = ["/3303/0/5700", "/3303/1/5700"]
    device_id = server.add_device(key, "one", *({"path": path} for path in paths))
    with server.services.database.read() as session:
        device, resources = devices.object_of(session, device_id)
        assert [resource.path for resource in resources] == paths
        assert devices.object_of(session, device_id, most=1) == (device, resources[:1])
        assert devices.object_of(session, device_id, cached_revision=device.revision) == (device, [])
        assert devices.object_of(session, device_id, cached_revision=device.revision - 1)[1] == resources
        assert devices.object_of(session, "unknown") is None


def test_pending_work_of_a_device_is_read_by_one_statement_in_order(server):
    database, now = server.services.database, server.now
    # Observations to start, in the order of the rules, observations to cancel, and the first pending command.
    observed = {"/1/0/0": ("pending", 7, 0), "/2/0/0": ("pending", 3, 0), "/3/0/0": ("active", 5, 0)}
    observed |= {"/4/0/0": ("active", 1, 1), "/5/0/0": ("rejected", 1, 1), "/6/0/0": ("ended", 2, 1)}
    subscribed = (
        "INSERT INTO subscriptions (device_id, path, app_id, single, state, position) VALUES (?, ?, 'a', 0, ?, ?)"
    )

    def work(session):
        for device_id in ("one", "other", "idle"):
            devices.put(session, DeviceRow(device_id, device_id, "", 1, 0, 60, *[now] * 4, "test"))
        for device_id in ("one", "other"):
            announced = [AnnouncedResource(path, "", "text/plain", observable=True) for path in observed]
            stored_resources.announce(session, device_id, announced)
            session.run_many(subscribed, [(device_id, path, *rest[:2]) for path, rest in observed.items()])
            observing = [(device_id, path) for path, (*_, is_observing) in observed.items() if is_observing]
            session.run_many("UPDATE resources SET observing = 1 WHERE device_id = ? AND path = ?", observing)
            request = CommandRequest("GET", "/1/0/0")
            for number, expires_at in enumerate((now, now + 1, now + 1)):
                command = Command(0, "a", f"{device_id} r{number}", device_id, request, now, expires_at, 0, 0)
                commands.insert(session, [command])

    database.write(work)
    device_ids = ("one", "other", "idle", "unknown")
    found = database.query(partial(commands.pending_work, device_ids=device_ids, now=now))
    for device_id in ("one", "other"):
        each = found[device_id]
        assert (each.to_observe, each.to_cancel) == (["/2/0/0", "/3/0/0", "/1/0/0"], ["/5/0/0", "/6/0/0"])
        assert each.command.async_id == f"{device_id} r1"
    assert found["idle"] == found["unknown"] == PendingWork([], [], None)


def test_device_read_on_another_thread_is_current(server):
    key = server.key()
    device = server.add_device(key, "sensor-1")
    read(server, key, device)
    with ThreadPoolExecutor(8) as pool:
        for _ in range(2):
            server.advance(key, 1)
            server.registration(key, device, "POST")
            updated_at = pool.map(lambda _: read(server, key, device).json["updated_at"], range(8))
            assert set(updated_at) == {read(server, key, device).json["created_at"]}


class AsgiRequest:
    """A request through the bridge, which uvicorn queues on the event loop when it arrives."""

    def __init__(self, bridge, key, path, **state):
        self.status = 0
        self.call = bridge(scope_of(key, path) | {"state": state}, self._receive, self._send)

    @classmethod
    def queued(cls, bridge, key, path):
        queued = cls(bridge, key, path, **{QUEUED: True})
        queued.call = asyncio.get_running_loop().create_task(queued.call)
        return queued

    async def _receive(self):
        return {"type": "http.request", "body": b""}

    async def _send(self, message):
        self.status = message.get("status", self.status)


@pytest.fixture
def version_checks(server, monkeypatch):
    """Record the version checks; return them, and a list of functions to call after the next check."""
    database = server.services.database
    version, checked, then = database.version, [], []

    def check():
        checked.append(version())
        for call in then:
            call()
        return checked[-1]

    monkeypatch.setattr(database, "version", check)
    # So no request is so slow that it lets others run before the next one.
    monkeypatch.setattr("mirror_server.web.fair_scheduler._MAX_SECONDS", 60)
    return checked, then


async def test_simultaneous_requests_share_one_version_check(server, bridge, version_checks):
    key = server.key()
    path = f"/v3/devices/{server.add_device(key, 'sensor-1')}/echo"
    checked, _ = version_checks
    checked.clear()
    for times in (1, 2):
        together = [AsgiRequest.queued(bridge, key, path) for _ in range(10)]
        await asyncio.gather(*(each.call for each in together))
        assert [each.status for each in together] == [200] * 10
        assert len(checked) == times


async def test_request_after_the_version_check_of_others_checks_again(server, bridge, version_checks):
    """Revoke a key right after the check for the first request, and use it again then."""
    key, bystander = server.key(), server.key()
    path = f"/v3/devices/{server.add_device(key, 'sensor-1')}/echo"
    checked, then = version_checks
    late = []

    def revoke_and_send_again():
        then.clear()
        with closing(open_database(server.settings.database_url)) as other:
            other.write(lambda session: stored_keys.revoke(session, key.split("_")[1], server.now))
        late.append(AsgiRequest.queued(bridge, key, path))

    warm = AsgiRequest.queued(bridge, key, path)
    await warm.call
    checked.clear()
    then.append(revoke_and_send_again)
    early = [AsgiRequest.queued(bridge, key, path) for key in (bystander, key, server.key())]
    await asyncio.gather(*(each.call for each in early))
    await late[0].call
    # They were sent before the revocation, so both responses are correct for the second.
    assert [early[0].status, early[2].status] == [200, 200]
    assert late[0].status == 401
    assert len(checked) == 2


async def test_call_outside_the_queue_checks_the_version_itself(server, bridge, version_checks):
    """A caller on the event loop may change something and send a request before the loop runs again."""
    key = server.key()
    path = f"/v3/devices/{server.add_device(key, 'sensor-1')}/echo"
    before, after = AsgiRequest(bridge, key, path), AsgiRequest(bridge, key, path)
    await before.call
    server.services.database.write(lambda session: stored_keys.revoke(session, key.split("_")[1], server.now))
    await after.call
    assert [before.status, after.status] == [200, 401]
