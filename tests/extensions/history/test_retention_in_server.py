"""A server maintains its history automatically while it leads."""

from dataclasses import replace
from typing import Any

import pytest
from histories import found, found_at
from waits import wait_until

from mirror_server.clock import SystemClock
from mirror_server.extensions.history.history_queries import HistoryQueries
from mirror_server.extensions.history.settings import HistorySettings
from mirror_server.extensions.history.store import segments
from mirror_server.hooks import read_settings
from mirror_server.server import Services


def files(server: Any) -> list[str]:
    return [file.file_name for file in server.services.database.query(segments.files)]


def test_completed_day_is_archived(new_server, tmp_path):
    server = new_server(keep_history_seconds=10 * 86_400, history_archive=str(tmp_path / "archive"))
    key = server.key()
    device = server.add_device(key, "sensor-1")
    server.subscribe(key, device)
    before = found(server.services.part(HistoryQueries).history)
    assert not files(server)
    server.advance(key, 2 * 86_400)
    names = wait_until(lambda: files(server))
    assert set(before) <= set(found(server.services.part(HistoryQueries).history))
    server.restart()
    assert set(names) <= set(files(server))
    assert set(before) <= set(found(server.services.part(HistoryQueries).history))
    # The row is trimmed, and then its files are deleted.
    server.advance(key, 20 * 86_400)
    wait_until(lambda: not (set(names) & set(files(server))))
    server.advance(key, 1)
    wait_until(lambda: not any((tmp_path / "archive" / name).exists() for name in names))


def test_maintenance_runs_by_system_clock(tmp_path, monkeypatch):
    """Requests do not advance that clock."""
    monkeypatch.setattr("mirror_server.extensions.history.maintenance._ROUND_SECONDS", 0.05)
    services = Services(read_settings(database_url=f"sqlite:///{tmp_path / 'own.db'}", keep_history_seconds=86_400))
    assert isinstance(services.clock, SystemClock)
    services.start()
    wait_until(lambda: oldest_at(services) is not None)
    services.database.write(lambda session: segments.invalidate(session, [1]))
    wait_until(lambda: oldest_at(services) is not None)
    services.close()


def test_one_thread_at_a_time_runs_maintenance(new_history, monkeypatch):
    """Otherwise one thread could delete a file that the other one is about to list."""
    retention, is_locked = new_history().retention, []
    monkeypatch.setattr(
        retention._compaction, "begin", lambda *_instants: is_locked.append(retention._round_lock.locked())
    )
    retention.round()
    assert is_locked == [True]


def test_unsupported_archive_is_rejected_at_start(new_server):
    with pytest.raises(match="name a folder"):
        new_server(keep_history_seconds=86_400, history_archive="nonsense://there")


def test_values_before_history_are_in_first_checkpoint(new_server):
    server = new_server()
    key = server.key()
    switch = {"path": "/3311/0/5850", "value": "0", "writable": True}
    device = server.add_device(key, "sensor-1", {"path": "/3303/0/5700", "value": "21", "observable": True}, switch)
    server.subscribe(key, device)
    server.submit(key, device, "first", "PUT", "/3311/0/5850", value="1")
    server.patch(key, device, online=False)
    server.advance(key, 1)
    server.submit(key, device, "second", "PUT", "/3311/0/5850", value="2")
    server.services.close()
    server.settings = replace(server.settings, extensions=(HistorySettings(keep_history_seconds=86_400),))
    server.open()
    wait_until(lambda: oldest_at(server.services) is not None)
    started_at = server.now
    assert states(server, started_at) == [(True, b"21", None, None), (True, None, b"2", 0)]
    server.advance(key, 10)
    server.patch(key, device, online=True)
    server.submit(key, device, "read", "GET", "/3303/0/5700")
    server.advance(key, 10)
    assert states(server, started_at) == [(True, b"21", None, None), (True, None, b"2", 0)]
    assert states(server, server.now) == [(True, b"21", None, None), (True, None, b"2", 1)]


def oldest_at(services: Services) -> int | None:
    return services.database.query(segments.oldest_state_at)


def states(server: Any, instant: int) -> list[tuple[Any, ...]]:
    """Return registered, the last value, and the last write with its status of each resource."""
    return [
        (row[2], row[3], row[8], row[10])
        for row in found_at(server.services.part(HistoryQueries).history, instant, named=False)
    ]
