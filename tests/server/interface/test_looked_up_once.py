"""What was looked up is not looked up again while nothing is committed, and always again when something was."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial

import pytest
from bridge_requests import scope_of
from databases import ON_POSTGRESQL

from mirror_server.core.commands import Command, CommandRequest
from mirror_server.hooks import open_database
from mirror_server.store import commands, devices
from mirror_server.store import keys as stored_keys
from mirror_server.store import resources as stored_resources
from mirror_server.store.commands import PendingWork
from mirror_server.store.devices import DeviceRow
from mirror_server.store.resources import AnnouncedResource
from mirror_server.web.bridge import QUEUED

pytestmark = pytest.mark.anyio


@pytest.fixture
def looks(server, monkeypatch) -> list[object]:
    """What was looked up since the test began."""
    database, looked, here = server.services.database, [], threading.get_ident()
    look = database.query

    def look_up(statement):
        # Other threads of the server look too.
        looked.extend([statement] * (threading.get_ident() == here))
        return look(statement)

    monkeypatch.setattr(database, "query", look_up)
    return looked


def read(server, key, device):
    return server.call(key, "GET", f"/v3/devices/{device}/echo")


def test_a_key_and_a_device_are_looked_up_once_after_a_commit(server, looks):
    key = server.key()
    device, other = server.add_device(key, "sensor-1"), server.add_device(key, "sensor-2")
    first = read(server, key, device)
    looks.clear()
    assert read(server, key, device).get_data() == first.get_data()
    assert looks == []

    server.registration(key, other, "PUT")
    looks.clear()
    for _ in range(3):
        assert read(server, key, device).status_code == 200
    assert len(looks) == 2


def test_of_many_devices_only_those_that_changed_are_read_again_after_a_commit(server, looks):
    key = server.key()
    ids = [server.add_device(key, f"sensor-{number}") for number in range(5)]
    for device in ids:
        read(server, key, device)
    server.advance(key, 1)
    server.registration(key, ids[1], "PUT")
    looks.clear()

    shown = [read(server, key, device).json["updated_at"] for device in ids]

    # The key, the number of the last change, and whether the one changed. Where others change devices too: the key and
    # each, whose resources come where it changed.
    assert len(looks) == (6 if ON_POSTGRESQL else 3)
    assert [each == shown[0] for each in shown] == [True, False, True, True, True]


def test_what_another_process_commits_is_seen_by_the_next_request(server):
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


def test_what_waits_for_a_device_is_read_by_one_statement_in_its_order(server):
    database, now = server.services.database, server.now
    # What is to be observed, in the order of the rules, what is not any more, and the first command that still holds.
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


def test_a_device_on_another_thread_is_seen_as_it_is_now(server):
    key = server.key()
    device = server.add_device(key, "sensor-1")
    read(server, key, device)
    with ThreadPoolExecutor(8) as pool:
        for _ in range(2):
            server.advance(key, 1)
            server.registration(key, device, "POST")
            seen = pool.map(lambda _: read(server, key, device).json["updated_at"], range(8))
            assert set(seen) == {read(server, key, device).json["created_at"]}


class Asked:
    """A request on its way through the bridge; uvicorn's calls stand in the loop's queue since they arrived."""

    def __init__(self, bridge, key, path, **state):
        self.status = 0
        self.call = bridge(scope_of(key, path) | {"state": state}, self._receive, self._send)

    @classmethod
    def queued(cls, bridge, key, path):
        asked = cls(bridge, key, path, **{QUEUED: True})
        asked.call = asyncio.get_running_loop().create_task(asked.call)
        return asked

    async def _receive(self):
        return {"type": "http.request", "body": b""}

    async def _send(self, message):
        self.status = message.get("status", self.status)


@pytest.fixture
def asking(server, monkeypatch):
    """What is called when the version has been asked for, which this fixture counts; it gives the list of these."""
    database = server.services.database
    version, asked, then = database.version, [], []

    def ask():
        asked.append(version())
        for call in then:
            call()
        return asked[-1]

    monkeypatch.setattr(database, "version", ask)
    # No request takes so long that others get a turn of the loop after it.
    monkeypatch.setattr("mirror_server.web.shares._MAX_SECONDS", 60)
    return asked, then


async def test_requests_that_arrived_together_look_once_for_all_of_them(server, bridge, asking):
    key = server.key()
    path = f"/v3/devices/{server.add_device(key, 'sensor-1')}/echo"
    asked, _ = asking
    asked.clear()
    for times in (1, 2):
        together = [Asked.queued(bridge, key, path) for _ in range(10)]
        await asyncio.gather(*(each.call for each in together))
        assert [each.status for each in together] == [200] * 10
        assert len(asked) == times


async def test_a_request_that_arrives_after_the_look_of_others_is_not_one_of_them(server, bridge, asking):
    """A key is revoked right after the look for the first of them, and used again when that was told."""
    key, bystander = server.key(), server.key()
    path = f"/v3/devices/{server.add_device(key, 'sensor-1')}/echo"
    asked, then = asking
    late = []

    def revoke_and_ask_again():
        then.clear()
        with closing(open_database(server.settings.database_url)) as other:
            other.write(lambda session: stored_keys.revoke(session, key.split("_")[1], server.now))
        late.append(Asked.queued(bridge, key, path))

    warm = Asked.queued(bridge, key, path)
    await warm.call
    asked.clear()
    then.append(revoke_and_ask_again)
    early = [Asked.queued(bridge, key, path) for key in (bystander, key, server.key())]
    await asyncio.gather(*(each.call for each in early))
    await late[0].call
    # They were asked before it was revoked, so either answer is right to the second.
    assert [early[0].status, early[2].status] == [200, 200]
    assert late[0].status == 401
    assert len(asked) == 2


async def test_a_call_that_did_not_wait_in_the_queue_looks_for_itself(server, bridge, asking):
    """Whoever calls the app within the loop may change something and ask again before the loop has its turn."""
    key = server.key()
    path = f"/v3/devices/{server.add_device(key, 'sensor-1')}/echo"
    before, after = Asked(bridge, key, path), Asked(bridge, key, path)
    await before.call
    server.services.database.write(lambda session: stored_keys.revoke(session, key.split("_")[1], server.now))
    await after.call
    assert [before.status, after.status] == [200, 401]
