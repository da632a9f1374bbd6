"""A damaged SQLite file is told of with its tables and a cure, and nothing goes on with it."""

import os
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import databases
import pytest
from click.testing import CliRunner, Result

from mirror_server.cli import main
from mirror_server.config import Settings
from mirror_server.services import Services
from mirror_server.store.database import Database
from mirror_server.store.failures import DatabaseError

pytestmark = pytest.mark.sqlite


def mirror_server(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with some devices."""
    path = tmp_path / "mirror.db"
    Database(f"sqlite:///{path}").close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executemany(
            "INSERT INTO devices (device_id, endpoint_name, endpoint_type, registered, queue_mode, lifetime_seconds,"
            " created_at, updated_at, last_contact_at, registration_expires_at)"
            " VALUES (?, ?, '', 1, 0, 60, 0, 0, 5, 0)",
            [(f"{number:032x}", f"endpoint-{number}") for number in range(500)],
        )
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path


def overwrite(path: Path, content: bytes, *, table: str | None = None, offset: int = 0) -> None:
    """Damage the first page of a table, or of the file."""
    with closing(sqlite3.connect(path)) as connection:
        roots = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchall()
    with path.open("r+b") as file:
        file.seek((roots[0][0] - 1) * 4096 if roots else offset)
        file.write(content)


def damage_devices(path: Path) -> None:
    overwrite(path, b"\xff" * 200, table="devices")


def damage_settings(path: Path) -> None:
    overwrite(path, b"\x00" * 200, table="settings")


def damage_list_of_tables(path: Path) -> None:
    overwrite(path, b"\xff" * 300, offset=100)


def cut_in_half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


DAMAGES = {
    damage_devices: "the table devices is damaged: ",
    damage_settings: "the table settings is damaged: ",
    damage_list_of_tables: "the file is damaged: ",
    cut_in_half: "damaged: ",
}


@pytest.mark.parametrize(("damage", "told"), DAMAGES.items(), ids=lambda value: getattr(value, "__name__", ""))
def test_nothing_goes_on_with_a_damaged_file_and_check_tells_which_table_it_is(path, tmp_path, damage, told):
    damage(path)
    before, url = path.read_bytes(), f"sqlite:///{path}"
    checked = mirror_server("check", "--database", url)
    assert (checked.exit_code, type(checked.exception)) == (1, SystemExit)
    assert told in checked.stdout
    assert re.search(r"\d things? (is|are) wrong; restore a backup", checked.stderr)
    with pytest.raises(DatabaseError, match=r"'mirror-server check' tells what is damaged; restore a backup"):
        Services(Settings(database_url=url))
    for arguments in (["backup", tmp_path / "copy.db"], ["erase", "d", "--yes"], ["keys", "create", "a"]):
        refused = mirror_server(*arguments, "--database", url)
        assert refused.exit_code == 1
        assert "restore a backup" in refused.output
        assert refused.output.count("\n") == 1
    refused = mirror_server("restore", path, "--database", f"sqlite:///{tmp_path}/new.db")
    assert (refused.exit_code, refused.output.count("\n")) == (1, 1)
    assert path.read_bytes() == before
    assert not (tmp_path / "copy.db").exists()
    assert not (tmp_path / "new.db").exists()


def test_a_damaged_old_file_is_not_upgraded(path, next_version):
    damage_settings(path)
    with pytest.raises(DatabaseError, match="restore a backup"):
        Database(f"sqlite:///{path}")
    assert "names" not in databases.tables(f"sqlite:///{path}")


@pytest.mark.parametrize("command", [["check"], ["keys", "list"], ["backup", "copy.db"]])
def test_an_empty_file_is_no_database(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.db").touch()
    ended = mirror_server(*command, "--database", "sqlite:///empty.db")
    assert ended.exit_code == 1
    assert "it is empty" in ended.output
    assert (tmp_path / "empty.db").stat().st_size == 0
