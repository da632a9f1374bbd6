"""A value that comes from a device, and what it changes of that device, are one page of the file to write."""

import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from mirror_server.store import devices, resources
from mirror_server.store.database import Database
from mirror_server.store.devices import DeviceRow
from mirror_server.store.resources import AnnouncedResource, ReportedValue
from mirror_server.store.session import Session

PATHS = [f"/3303/{number}/5700" for number in range(20)]
DEVICES, FAR_APART = 1000, 50

pytestmark = pytest.mark.sqlite


def register(session: Session, begin: int) -> None:
    for number in range(begin, begin + 100):
        device_id = f"{number:032x}"
        devices.put(session, DeviceRow(device_id, f"sensor-{number}", "Sensor", 1, 0, 60, 1, 1, 1, 9))
        resources.announce(session, device_id, [AnnouncedResource(path, "", "text/plain", True) for path in PATHS])
        resources.report(session, [value(device_id, path, 1) for path in PATHS])


def value(device_id: str, path: str, at: int) -> ReportedValue:
    return ReportedValue(b"21.5", "text/plain", "subscription", at, None, device_id, path, at)


def test_devices_far_apart_that_report_change_one_page_each(tmp_path: Path) -> None:
    path = tmp_path / "mirror.db"
    some = [f"{number:032x}" for number in range(0, DEVICES, DEVICES // FAR_APART)]
    with closing(Database(f"sqlite:///{path}")) as database, closing(sqlite3.connect(path)) as other:
        for begin in range(0, DEVICES, 100):
            database.write(partial(register, begin=begin))
        assert other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0
        database.write(
            lambda session: resources.report(session, [value(each, PATHS[0], 2) for each in some], contact_at=2)
        )
        (_, pages, _) = other.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        with database.read() as session:
            assert {devices.find(session, each).last_contact_at for each in some} == {2}
    # Not each device has its first resources on the page of its own row.
    assert FAR_APART < pages < 1.2 * FAR_APART
