"""A damaged SQLite file is reported with its tables and a fix, and not used."""

import os
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import databases
import pytest
from operator_commands import assert_fails, assert_fails_in_one_line

from mirror_server.hooks import open_database, read_settings
from mirror_server.server import Services
from mirror_server.store.backend import DatabaseError

pytestmark = pytest.mark.sqlite


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database file with some devices."""
    path = tmp_path / "mirror.db"
    open_database(f"sqlite:///{path}").close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executemany(
            "INSERT INTO devices (device_id, endpoint_name, endpoint_type, registered, queue_mode, lifetime_seconds,"
            " created_at, updated_at, last_contact_at, registration_expires_at, backend)"
            " VALUES (?, ?, '', 1, 0, 60, 0, 0, 5, 0, 'test')",
            [(f"{number:032x}", f"endpoint-{number}") for number in range(500)],
        )
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path


def overwrite(path: Path, content: bytes, place: str | int) -> None:
    """Damage the first page of a table, or the file from an offset on."""
    with closing(sqlite3.connect(path)) as connection:
        roots = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (place,)).fetchall()
    with path.open("r+b") as file:
        file.seek((roots[0][0] - 1) * 4096 if roots else place)
        file.write(content)


DAMAGES = {
    "the table devices is damaged: ": lambda path: overwrite(path, b"\xff" * 200, "devices"),
    "the table settings is damaged: ": lambda path: overwrite(path, b"\x00" * 200, "settings"),
    "the file is damaged: ": lambda path: overwrite(path, b"\xff" * 300, 100),
    "damaged: ": lambda path: os.truncate(path, path.stat().st_size // 2),
}


@pytest.mark.parametrize(("table", "damage"), DAMAGES.items())
def test_damaged_file_is_rejected_and_check_names_the_table(path, tmp_path, damage, table):
    damage(path)
    before, url = path.read_bytes(), f"sqlite:///{path}"
    checked = assert_fails(url, "check", message=table)
    assert table in checked.stdout
    assert re.search(r"found \d problems?; restore a backup", checked.stderr)
    with pytest.raises(DatabaseError, match=r"'mirror-server check' lists the damage; restore a backup"):
        Services(read_settings(database_url=url))
    for arguments in (["backup", tmp_path / "copy.db"], ["erase", "d", "--yes"], ["keys", "create", "a"]):
        assert_fails_in_one_line(url, *arguments, message="restore a backup")
    assert_fails_in_one_line(f"sqlite:///{tmp_path}/new.db", "restore", path, message="")
    assert path.read_bytes() == before
    assert not (tmp_path / "copy.db").exists()
    assert not (tmp_path / "new.db").exists()


def test_damaged_old_file_is_not_upgraded(path, next_version):
    overwrite(path, b"\x00" * 200, "settings")
    with pytest.raises(DatabaseError, match="restore a backup"):
        open_database(f"sqlite:///{path}")
    assert "names" not in databases.tables(f"sqlite:///{path}")


@pytest.mark.parametrize("command", [["check"], ["keys", "list"], ["backup", "copy.db"]])
def test_empty_file_is_not_a_database(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.db").touch()
    assert_fails("sqlite:///empty.db", *command, message="is empty; use another file")
    assert (tmp_path / "empty.db").stat().st_size == 0
