"""A damaged SQLite file is reported with its tables and a fix, and not used."""

import os
import re
import shutil
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import databases
import pytest
from operator_commands import assert_fails, assert_fails_in_one_line

from mirror_server.hooks import open_database, read_settings
from mirror_server.server import Services
from mirror_server.store import maintenance
from mirror_server.store.backend import DatabaseError, StorageFailed
from mirror_server.store.sqlite import files
from mirror_server.store.sqlite.files import ServingLock

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


def overwrite(path: Path, content: bytes, table_or_offset: str | int) -> None:
    """Damage the first page of a table, or the file from an offset on."""
    with closing(sqlite3.connect(path)) as connection:
        roots = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table_or_offset,)).fetchall()
    with path.open("r+b") as file:
        file.seek((roots[0][0] - 1) * 4096 if roots else table_or_offset)
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


@pytest.fixture
def noted(path, monkeypatch) -> Path:
    """A file that its last process has checked and closed, as if it were large."""
    monkeypatch.setattr(files, "LARGE_BYTES", 0)
    Services(read_settings(database_url=f"sqlite:///{path}")).close()
    return path.with_name("mirror.db.checked")


def damage_without_trace(path: Path, noted: Path, checked_at: float) -> None:
    """Damage the file as a disk does, without a change of its state."""
    overwrite(path, b"\xff" * 200, "devices")
    noted.unlink(missing_ok=True)
    files.note_checked(path, checked_at)


READS = {
    "rows": lambda session: session.rows("SELECT * FROM devices"),
    "parts": lambda session: list(session.each("SELECT * FROM devices", 10)),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_unchanged_file_is_not_checked_again(path, noted, caplog, read):
    assert noted.stat().st_mode & 0o777 == 0o600
    damage_without_trace(path, noted, time.time())
    with closing(open_database(f"sqlite:///{path}")) as database, pytest.raises(StorageFailed, match="malformed"):
        database.query(read)
    assert "'mirror-server check' lists the damage" in caplog.text
    assert not noted.exists()
    with pytest.raises(DatabaseError, match="restore a backup"):
        open_database(f"sqlite:///{path}")


def test_unchanged_file_is_checked_again_after_a_week_and_by_a_backup(path, noted, tmp_path):
    url, week = f"sqlite:///{path}", 7 * 86_400
    damage_without_trace(path, noted, time.time())
    assert_fails_in_one_line(url, "backup", tmp_path / "copy.db", message="restore a backup")
    for checked_at in (time.time() - week, time.time() + week):
        damage_without_trace(path, noted, checked_at)
        with pytest.raises(DatabaseError, match="restore a backup"):
            open_database(url)


def test_note_retains_the_time_of_the_last_check(path, noted):
    checked_at = time.time() - 86_400
    files.note_checked(path, checked_at)
    open_database(f"sqlite:///{path}").close()
    assert files.take_note(path) == checked_at


def test_check_removes_the_note_of_a_damaged_file(path, noted):
    damage_without_trace(path, noted, time.time())
    assert_fails(f"sqlite:///{path}", "check", message="restore a backup")
    assert not noted.exists()


CHANGES = {
    "written": lambda path: overwrite(path, b"\xff", 4096),
    "copied": lambda path: shutil.copy2(path, path.with_name("copy")) and path.with_name("copy").replace(path),
    "replaced by other text": lambda path: path.with_name("mirror.db.checked").write_bytes(b"\xff"),
    "in the log": lambda path: path.with_name("mirror.db-wal").write_bytes(b"1"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_changed_file_is_checked(path, noted, change):
    change(path)
    assert files.take_note(path) is None
    assert not noted.exists()


def test_killed_process_leaves_no_note(path, noted):
    with closing(open_database(f"sqlite:///{path}")):
        assert not noted.exists()
    assert files.take_note(path) is not None
    assert files.take_note(path) is None


def test_start_reads_the_newest_contact_that_the_stop_stored(path):
    settings = read_settings(database_url=f"sqlite:///{path}")
    Services(settings).close()
    with closing(sqlite3.connect(path)) as connection, connection:
        # No device had this contact, so only the stored one can be the source.
        assert connection.execute("SELECT value FROM settings WHERE name = 'newest_contact'").fetchall() == [("5",)]
        connection.execute("UPDATE settings SET value = '7' WHERE name = 'newest_contact'")
    with closing(open_database(settings.database_url)) as database, database.read() as session:
        assert maintenance.newest_instant(session, ()) == 7
    services = Services(settings)
    services.start()
    with closing(sqlite3.connect(path)) as connection:
        assert not connection.execute("SELECT value FROM settings WHERE name = 'newest_contact'").fetchall()
    services.close()


def test_next_to_a_server_only_a_backup_checks_the_file(path, tmp_path, monkeypatch):
    lock = ServingLock(path)
    # As if another process held the lock.
    monkeypatch.setattr(files, "_served_here", set())
    overwrite(path, b"\xff" * 200, "devices")
    url = f"sqlite:///{path}"
    open_database(url).close()
    assert_fails_in_one_line(url, "backup", tmp_path / "copy.db", message="restore a backup")
    lock.release()
    with pytest.raises(DatabaseError, match="restore a backup"):
        open_database(url)
