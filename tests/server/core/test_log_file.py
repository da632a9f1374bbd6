"""The file of the write-ahead log is longer than what is in it; what was committed is in it all the same."""

import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from mirror_server.hooks import open_database
from mirror_server.store.sqlite import files
from mirror_server.store.sqlite.files import LogFile

SMALL = 128 * 1024
LARGEST = 8 * 1024 * 1024


def connect(path):
    connection = sqlite3.connect(path, isolation_level=None, timeout=0)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    return connection


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "log.db"
    with closing(connect(path)) as connection:
        connection.execute("CREATE TABLE kept (number INTEGER PRIMARY KEY, content BLOB)")
    return path


@pytest.fixture
def writing(path):
    with closing(connect(path)) as connection:
        yield connection


@pytest.fixture
def ahead(path, writing):
    return LogFile(path, writing, largest_bytes=LARGEST)


def keep(connection, size):
    statement = "INSERT INTO kept (content) VALUES (randomblob(?)) RETURNING number"
    return connection.execute(statement, [size]).fetchone()[0]


def size_of(path: Path) -> int:
    return path.with_name(f"{path.name}-wal").stat().st_size


def after_a_kill(path, folder):
    """The numbers in a copy of the files as they are, as another process finds them behind one that was killed."""
    folder.mkdir()
    for end in ("", "-wal"):
        shutil.copy(f"{path}{end}", folder / f"copy.db{end}")
    with closing(sqlite3.connect(folder / "copy.db")) as copy:
        assert copy.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return [number for (number,) in copy.execute("SELECT number FROM kept ORDER BY number")]


def test_the_file_is_longer_than_its_content_until_it_is_as_long_as_it_becomes(path, writing, ahead):
    keep(writing, SMALL)
    used = size_of(path)
    ahead.look()
    assert size_of(path) == 16 * used
    grown = 0
    for _ in range(100):
        before = size_of(path)
        keep(writing, 60_000)
        grown += size_of(path) > before
        ahead.look()
    # One commit made it longer itself, and behind it the file is as long as it becomes.
    assert grown == 1
    assert size_of(path) == LARGEST


def test_a_small_log_is_left_alone_and_one_that_was_emptied_becomes_longer_again(path, writing, ahead):
    keep(writing, 1000)
    size = size_of(path)
    ahead.look()
    assert size_of(path) == size
    for _ in range(2):
        keep(writing, SMALL)
        ahead.look()
        assert size_of(path) > 16 * SMALL
        writing.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        ahead.look()
        assert size_of(path) == 0


@pytest.mark.parametrize("seed", range(2))
def test_all_that_was_committed_is_there_after_a_kill(path, writing, ahead, tmp_path, seed):
    """Whoever wrote it, also others that know nothing of the longer file."""
    draw = random.Random(seed)
    numbers = []
    with closing(connect(path)) as other:
        for step in range(40):
            numbers.append(keep(draw.choice([writing, other]), draw.choice([10, 5000, 100_000])))
            if draw.random() < 0.7:
                ahead.look()
            if draw.random() < 0.1:
                other.execute(f"PRAGMA wal_checkpoint({draw.choice(['PASSIVE', 'RESTART', 'TRUNCATE'])})").fetchall()
            if step % 10 == 9:
                assert after_a_kill(path, tmp_path / f"copy-{step}") == numbers


def test_while_another_one_writes_nothing_is_touched(path, writing, ahead, tmp_path):
    keep(writing, SMALL)
    with closing(connect(path)) as other:
        other.execute("BEGIN IMMEDIATE")
        keep(other, SMALL)
        size = size_of(path)
        ahead.look()
        assert size_of(path) == size
        other.execute("COMMIT")
    assert after_a_kill(path, tmp_path / "copy") == [1, 2]


def test_room_that_others_need_is_not_taken(path, writing, ahead, monkeypatch):
    keep(writing, SMALL)
    size = size_of(path)
    usage = SimpleNamespace(total=100 * size, used=75 * size, free=100 * size)
    monkeypatch.setattr(files.shutil, "disk_usage", lambda _: usage)
    ahead.look()
    assert size_of(path) == size


def test_a_file_that_cannot_be_made_longer_stays_as_it_was(path, writing, ahead, monkeypatch, tmp_path):
    keep(writing, SMALL)
    size = size_of(path)

    monkeypatch.setattr(files.os, "fsync", Mock(side_effect=OSError("the disk is full")))
    ahead.look()
    assert size_of(path) == size
    assert not writing.in_transaction
    keep(writing, 10)
    assert after_a_kill(path, tmp_path / "copy") == [1, 2]


@pytest.mark.sqlite
def test_a_database_looks_after_each_group_of_work(tmp_path):
    path = tmp_path / "mirror.db"
    with closing(open_database(f"sqlite:///{path}")) as database:
        sizes = []
        for number in range(2):
            # The second one begins when the first one is whole.
            database.write(lambda session, number=number: session.put_setting(f"large-{number}", "x" * SMALL))
            sizes.append(size_of(path))
        assert sizes[1] > 16 * SMALL
        database.write(lambda session: session.put_setting("small", "x"))
        assert size_of(path) == sizes[1]
    assert not path.with_name("mirror.db-wal").exists()
