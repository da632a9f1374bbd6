"""What was looked up is not looked up again while nothing is committed, and always again when something was."""

import threading
from contextlib import closing

import pytest

from mirror_server.clock import SystemClock
from mirror_server.service import keys
from mirror_server.service.keys import Scope
from mirror_server.store import devices
from mirror_server.store import keys as stored_keys
from mirror_server.store.database import Database


@pytest.fixture
def looks(server, monkeypatch) -> list[object]:
    """What was looked up since the test began."""
    database, looked = server.services.database, []
    look = database.look
    monkeypatch.setattr(database, "look", lambda statement: looked.append(statement) or look(statement))
    return looked


def read(server, key, device):
    return server.call(key, "GET", f"/v3/devices/{device}/echo")


@pytest.mark.sqlite
def test_a_key_and_a_device_that_nobody_changed_are_not_looked_up_again(server, looks):
    key = server.key()
    device = server.add_device(key, "sensor-1")
    first = read(server, key, device)
    looks.clear()

    assert read(server, key, device).get_data() == first.get_data()

    assert looks == []


@pytest.mark.sqlite
def test_after_any_commit_both_are_looked_up_once(server, looks):
    key = server.key()
    device, other = server.add_device(key, "sensor-1"), server.add_device(key, "sensor-2")
    read(server, key, device)
    server.set_value(key, other, "30")
    looks.clear()

    for _ in range(3):
        assert read(server, key, device).status_code == 200

    assert len(looks) == 2


@pytest.mark.sqlite
def test_of_many_devices_only_those_that_changed_are_read_again_after_a_commit(server, looks):
    key = server.key()
    ids = [server.add_device(key, f"sensor-{number}") for number in range(5)]
    for device in ids:
        read(server, key, device)
    server.advance(key, 1)
    server.registration(key, ids[1], "PUT")
    looks.clear()

    shown = [read(server, key, device).json["updated_at"] for device in ids]

    # The key, the number of the last change, and the one that changed.
    assert len(looks) == 3
    assert [each == shown[0] for each in shown] == [True, False, True, True, True]


def test_a_device_that_this_and_another_process_changed_is_seen_as_it_is_now(server):
    key = server.key()
    device, other = server.add_device(key, "sensor-1"), server.add_device(key, "sensor-2")
    read(server, key, device)

    with closing(Database(server.settings.database_url)) as another:
        another.write(lambda session: devices.rename(session, device, "sensor-3"))
    server.registration(key, other, "PUT")

    assert read(server, key, device).json["endpoint_name"] == "sensor-3"


def test_what_another_process_commits_is_seen_by_the_next_request(server):
    key = server.key()
    device = server.add_device(key, "sensor-1")
    assert read(server, key, device).status_code == 200

    with closing(Database(server.settings.database_url)) as other:
        other.write(lambda session: stored_keys.revoke(session, key.split("_")[1], server.now))

    assert read(server, key, device).status_code == 401


def test_a_device_on_another_thread_is_seen_as_it_is_now(server):
    key = server.key()
    device = server.add_device(key, "sensor-1")
    seen: list[str] = []

    def ask() -> None:
        seen.append(read(server, key, device).json["updated_at"])

    for seconds in (1, 1):
        server.advance(key, seconds)
        server.registration(key, device, "POST")
        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert len(set(seen)) == 1
        assert len(seen) == 8
        now = read(server, key, device).json
        assert seen[0] == now["updated_at"] == now["created_at"]
        seen.clear()


@pytest.mark.sqlite
def test_the_version_stands_still_while_nothing_is_committed(tmp_path):
    with closing(Database(f"sqlite:///{tmp_path}/mirror.db")) as database:
        before = database.version()
        assert database.version() == before
        keys.create(database, "test", tuple(Scope), SystemClock().now())
        assert database.version() != before
