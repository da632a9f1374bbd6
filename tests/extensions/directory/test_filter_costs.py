"""A filter does not read all devices of a large fleet, whether it finds many of them or few."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import parse_qsl

import pytest

from mirror_server.extensions.directory.filters import DIRECTORY, read_filters
from mirror_server.extensions.snapshots import store
from mirror_server.hooks import open_database
from mirror_server.store import devices
from mirror_server.store.database import Database

pytestmark = pytest.mark.sqlite

DEVICES = 3000
YEAR = 365 * 86_400_000
STEPS = 5000
"""Reading all devices takes at least four times as many steps of SQLite's virtual machine."""


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Devices that all have one type and one name, of which three have another attribute."""
    path: Path = tmp_path_factory.mktemp("costs") / "mirror.db"
    open_database(f"sqlite:///{path}").close()
    ids = [f"{number:032x}" for number in range(DEVICES)]
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executemany(
            "INSERT INTO devices (device_id, endpoint_name, endpoint_type, registered, queue_mode, lifetime_seconds,"
            " created_at, updated_at, last_contact_at, registration_expires_at, backend)"
            " VALUES (?, ?, 'Sensor', 1, 0, 60, 0, ?, 5, 0, 'test')",
            [(each, f"endpoint-{each}", number % 1000 * YEAR) for number, each in enumerate(ids)],
        )
        connection.executemany("INSERT INTO device_descriptions VALUES (?, 'all', '', 0)", [(each,) for each in ids])
        attributes = [(each, "site", "Rome" if number % 1000 == 9 else "Berlin") for number, each in enumerate(ids)]
        connection.executemany("INSERT INTO device_attributes VALUES (?, ?, ?)", attributes)
    with closing(open_database(f"sqlite:///{path}")) as database:
        yield database


FILTERS = {
    "state__eq=registered": 5,
    "state__eq=deregistered": 0,
    "endpoint_type__eq=Sensor": 5,
    "endpoint_type__eq=none": 0,
    "created_at__gte=2100-01-01T00:00:00Z": 0,
    "updated_at__lte=2100-01-01T00:00:00Z": 5,
    "updated_at__lte=2470-01-01T00:00:00Z&updated_at__gte=2469-01-01T00:00:00Z": 3,
    "endpoint_name__eq=none": 0,
    "name__eq=all": 5,
    "name__eq=none": 0,
    "custom_attributes__site=Berlin": 5,
    "custom_attributes__site=Rome": 3,
    "custom_attributes__site__in=none,other": 0,
    "custom_attributes__floor__eq=3": 0,
}


@pytest.fixture
def steps_of(monkeypatch: pytest.MonkeyPatch, database: Database) -> Callable[[Callable[..., object]], int]:
    """Return a function that counts steps in hundreds, for which a hundred devices are many."""
    monkeypatch.setattr(devices, "_MANY", 100)

    def steps_of(work: Callable[..., object]) -> int:
        count = 0

        def step() -> int:
            nonlocal count
            count += 100
            return 0

        with database.read() as session:
            connection = session._connection
            assert isinstance(connection, sqlite3.Connection)
            connection.set_progress_handler(step, 100)
            try:
                work(session)
            finally:
                connection.set_progress_handler(None, 100)
        return count

    return steps_of


@pytest.mark.parametrize(("text", "found"), FILTERS.items())
def test_a_page_reads_few_devices(steps_of, text, found):
    conditions = read_filters(parse_qsl(text), DIRECTORY)
    rows = []
    steps = steps_of(
        lambda session: rows.extend(devices.page(session, conditions, after=None, descending=False, limit=5))
    )
    assert len(rows) == found
    assert steps < STEPS


@pytest.mark.parametrize("text", FILTERS)
def test_the_first_page_of_a_snapshot_reads_few_devices(steps_of, text):
    conditions = read_filters(parse_qsl(text), DIRECTORY)
    steps = steps_of(lambda session: next(store.pages(session, conditions, 5), None))
    assert steps < STEPS
