"""Checkpoints of an SQLite file run on another thread, and the log is reused."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest
from waits import wait_until

from mirror_server.hooks import open_database
from mirror_server.store.sqlite import checkpoints
from mirror_server.store.sqlite.checkpoints import Checkpoints

pytestmark = pytest.mark.sqlite


class Log:
    """A database with checkpoints, and the operations of its writer."""

    is_failing = False

    def __init__(self, path):
        self.path = path
        self.writer = self.connect()
        self.writer.execute("PRAGMA wal_autocheckpoint = 0")
        self.writer.execute("CREATE TABLE numbers (number INTEGER PRIMARY KEY, text TEXT)")
        self.checkpoints = Checkpoints(path, self.writer, self.connect)
        self.commits = 0

    def connect(self):
        if self.is_failing:
            raise sqlite3.OperationalError
        connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA journal_mode = WAL")
        return connection

    def commit(self):
        self.writer.execute("INSERT INTO numbers (text) VALUES (?)", ["x" * 2000])
        self.commits += 1
        self.checkpoints.committed()

    def checkpoint(self):
        """Commit until a checkpoint is complete."""
        while not self.checkpoints._is_running:
            self.commit()
        wait_until(lambda: self.checkpoints._is_last_due)
        self.commit()
        assert not self.checkpoints._is_running

    def size(self):
        """Return the size of the log after the next commit, which starts it again if it is copied completely."""
        self.commit()
        return self.path.with_name(self.path.name + "-wal").stat().st_size

    def is_copied(self):
        with closing(self.connect()) as connection:
            _, pages, copied = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        return pages == copied


@pytest.fixture
def log(tmp_path, monkeypatch) -> Iterator[Log]:
    monkeypatch.setattr(checkpoints, "_PAGES", 100)
    log = Log(tmp_path / "log.db")
    yield log
    log.is_failing = False
    log.checkpoints.close()
    log.writer.close()


def test_log_is_reused_after_each_checkpoint(log):
    sizes = []
    for _ in range(4):
        log.checkpoint()
        sizes.append(log.size())
    assert max(sizes) < 1.5 * sizes[0]
    assert log.writer.execute("SELECT count(*) FROM numbers").fetchone() == (log.commits,)


def test_log_grows_while_a_reader_needs_it_and_is_reused_afterwards(log):
    log.checkpoint()
    size = log.size()
    with closing(log.connect()) as reader:
        reader.execute("BEGIN")
        (count,) = reader.execute("SELECT count(*) FROM numbers").fetchone()
        for _ in range(3):
            log.checkpoint()
        assert log.size() > 1.5 * size
        assert not log.is_copied()
        assert reader.execute("SELECT count(*) FROM numbers").fetchone() == (count,)
    log.checkpoint()
    grown = log.size()
    log.checkpoint()
    assert log.size() == grown
    assert log.is_copied()


def test_failed_checkpoint_is_made_by_the_writer(log):
    log.is_failing = True
    log.checkpoint()
    log.is_failing = False
    assert log.is_copied()


def test_writer_uses_checkpoints_and_the_thread_ends_with_the_database(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "_PAGES", 10)
    threads = checkpoints.threading.enumerate()
    with closing(open_database(f"sqlite:///{tmp_path}/mirror.db")) as database:
        names = iter(range(1000))

        def has_thread():
            database.write(lambda session: session.put_setting(f"name-{next(names)}", "x" * 5000))
            return any(thread.name == "checkpoints" for thread in checkpoints.threading.enumerate())

        wait_until(has_thread)
    assert checkpoints.threading.enumerate() == threads
    with closing(open_database(f"sqlite:///{tmp_path}/mirror.db")) as database:
        assert database.query(lambda session: session.setting("name-0")) == "x" * 5000
