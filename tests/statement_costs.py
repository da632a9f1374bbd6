"""The steps of SQLite's virtual machine that statements take, which do not depend on the machine."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from mirror_server.hooks import open_database
from mirror_server.store.database import Database
from mirror_server.store.session import Session

DEVICES = 3000
YEAR = 365 * 86_400_000
IDS = [f"{number:032x}" for number in range(DEVICES)]
STEPS = 5000
"""Reading all devices takes at least four times as many steps."""


def large_fleet(path: Path) -> Database:
    """Return a database of devices that all have one type, and were updated in different years."""
    open_database(f"sqlite:///{path}").close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executemany(
            "INSERT INTO devices (device_id, endpoint_name, endpoint_type, registered, queue_mode, lifetime_seconds,"
            " created_at, updated_at, last_contact_at, registration_expires_at, backend, number)"
            " VALUES (?, ?, 'Sensor', 1, 0, 60, 0, ?, 5, 0, 'test', ?)",
            [(each, f"endpoint-{each}", number % 1000 * YEAR, number + 1) for number, each in enumerate(IDS)],
        )
    return open_database(f"sqlite:///{path}")


def steps_of(database: Database, work: Callable[[Session], object]) -> int:
    """Count the steps of the statements of ``work``, in hundreds."""
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
