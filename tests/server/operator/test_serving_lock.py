"""A file has one server, under all its names, and only its owner can block the start."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import databases
import pytest
from operator_commands import assert_fails, done, run

from mirror_server.hooks import read_settings
from mirror_server.server import Services
from mirror_server.store.backend import DatabaseError
from mirror_server.store.sqlite.files import ServingLock

pytestmark = pytest.mark.sqlite


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "mirror.db"
    Services(read_settings(database_url=f"sqlite:///{path}")).close()
    return path


@pytest.fixture(params=[Path.symlink_to, Path.hardlink_to])
def other_name(request: pytest.FixtureRequest, path: Path) -> Path:
    """Another name of the same file, in another folder."""
    other = path.parent / "elsewhere" / "other.db"
    other.parent.mkdir()
    request.param(other, path)
    return other


def test_served_file_is_locked_under_every_name(path, other_name):
    for first, second in ((path, other_name), (other_name, path)):
        lock = ServingLock(first)
        for name in (first, second):
            with pytest.raises(DatabaseError, match="another process serves the database"):
                ServingLock(name)
        lock.release()
        ServingLock(second).release()


def test_lock_applies_to_links_to_a_missing_file(tmp_path):
    (tmp_path / "link.db").symlink_to("mirror.db")
    lock = ServingLock(tmp_path / "link.db")
    with pytest.raises(DatabaseError, match="another process serves"):
        ServingLock(tmp_path / "mirror.db")
    lock.release()
    assert (tmp_path / "mirror.db").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("arguments", [["keys", "list"], ["backup", "copy.db"]])
def test_commands_use_the_name_that_is_served(path, tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    other = f"sqlite:///{tmp_path}/other.db"
    (tmp_path / "other.db").hardlink_to(path)
    with closing(Services(read_settings(database_url=f"sqlite:///{path}"))):
        assert_fails(other, *arguments, message="under another name of the same file")
        assert "another name" not in run(f"sqlite:///{path}", *arguments).output
    assert "another name" not in run(other, *arguments).output


def test_wal_of_another_file_name_is_not_lost_after_a_crash(path, tmp_path):
    """Opened under the second name, the file would miss accepted changes, and the first WAL would damage it."""
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("INSERT INTO settings VALUES ('accepted', 'x')")
        left = {file: file.read_bytes() for file in (path, path.with_name("mirror.db-wal"))}
    # A killed process does not checkpoint its WAL.
    for file, content in left.items():
        file.write_bytes(content)
    other.hardlink_to(path)
    cure = f"open it by that name first: mirror-server check --database sqlite:///{path}\n"
    assert_fails(f"sqlite:///{other}", "check", message=cure)
    with pytest.raises(DatabaseError, match=r"are in the log of mirror\.db"):
        Services(read_settings(database_url=f"sqlite:///{other}"))
    for name in (path, other):
        assert done(f"sqlite:///{name}", "check") == "no problems found\n"
    assert databases.query(f"sqlite:///{other}", "SELECT value FROM settings WHERE name = 'accepted'") == [("x",)]


@pytest.mark.parametrize("is_there", [False, True])
def test_lock_file_is_private_to_its_owner(tmp_path, is_there):
    lock_file = tmp_path / "mirror.db.lock"
    before = os.umask(0)
    try:
        if is_there:
            lock_file.touch()
        ServingLock(tmp_path / "mirror.db").release()
    finally:
        os.umask(before)
    assert lock_file.stat().st_mode & 0o777 == 0o600
