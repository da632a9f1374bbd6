"""Group commit: each piece of work stands or falls alone, and nothing is told before it is on disk."""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TypeVar

import databases
import pytest

from mirror_server.store import settings
from mirror_server.store.database import Database
from mirror_server.store.session import Session
from mirror_server.store.sqlite import checkpoints

T = TypeVar("T")


@pytest.fixture
def url(tmp_path: Path) -> str:
    return databases.new_database_url(tmp_path)


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    opened = Database(url)
    yield opened
    opened.close()


def stored(database, name):
    with database.read() as session:
        return settings.get(session, name)


def test_work_of_one_group_fails_alone(database):
    started, go_on = threading.Event(), threading.Event()

    def hold(_session):
        started.set()
        go_on.wait(60)

    def fail(session):
        settings.put(session, "lost", "x")
        session.after_commit(lambda: effects.append("lost"))
        raise ValueError("no")

    def keep(name):
        def work(session):
            settings.put(session, name, "x")
            session.after_commit(lambda: effects.append(name))
            return name

        return work

    effects = []
    first = database.submit(hold)
    assert started.wait(60)
    futures = [database.submit(keep("a")), database.submit(fail), database.submit(keep("b"))]
    go_on.set()
    first.result(60)
    assert [futures[0].result(60), futures[2].result(60)] == ["a", "b"]
    with pytest.raises(ValueError, match="no"):
        futures[1].result(60)
    assert database.settle(60)
    assert effects == ["a", "b"]
    assert (stored(database, "a"), stored(database, "b"), stored(database, "lost")) == ("x", "x", None)


def test_work_of_one_kind_is_done_at_once_and_where_it_fails_each_alone(database):
    done, (started, go_on) = [], (threading.Event(), threading.Event())

    def put(session, names):
        done.append(list(names))
        for name in names:
            settings.put(session, name, "x")
        if "bad" in names:
            raise ValueError("no")

    def hold(_session):
        started.set()
        go_on.wait(60)

    def submit(*names):
        return database.insist_together(put, names)

    database.submit(hold)
    assert started.wait(60)
    together = [submit("a", "b"), submit("c"), database.submit(hold), submit("d")]
    go_on.set()
    assert [future.result(60) for future in together] == [None] * 4
    assert done == [["a", "b", "c"], ["d"]]
    started.clear()
    go_on.clear()
    done.clear()
    database.submit(hold)
    assert started.wait(60)
    apart = [submit("e"), submit("bad"), submit("f")]
    go_on.set()
    assert [future.exception(60) and str(future.exception()) for future in apart] == [None, "no", None]
    assert done == [["e", "bad", "f"], ["e"], ["bad"], ["f"]]
    assert [stored(database, name) for name in ("a", "b", "c", "d", "e", "bad", "f")] == ["x"] * 5 + [None, "x"]


@pytest.fixture
def while_held(database: Database) -> Callable[[Callable[[], T]], T]:
    """Submits while the writer is busy, so that all of it comes into one group."""

    def run(submit: Callable[[], T]) -> T:
        started, go_on = threading.Event(), threading.Event()

        def hold(_session: Session) -> None:
            started.set()
            assert go_on.wait(60)

        held = database.submit(hold)
        assert started.wait(60)
        try:
            return submit()
        finally:
            go_on.set()
            held.result(60)

    return run


def test_work_of_one_kind_comes_before_what_touches_nothing_of_it_and_each_call_has_its_own_result(
    database, while_held
):
    done = []

    def ask(_session, items):
        done.append("ask " + "".join(items))
        return [item.upper() for item in items]

    def tell(_session, items):
        done.append("tell " + "".join(items))

    def other(touched):
        database.submit(lambda _: done.append("other"), touched=touched)

    def submit():
        def asked(item, *touched):
            futures.append(database.submit_together(ask, item, touched=touched or (item,)))

        def told(item):
            futures.append(database.insist_together(tell, [item], touched=(item, "log")))

        futures = []
        for put in (asked, told):
            put("a")
        other(())
        asked("b")
        told("c")
        # Behind what is told of the same, and so is all that is asked from here on.
        asked("c")
        told("d")
        asked("e")
        other(("log",))
        told("f")
        asked("g")
        other(None)
        asked("h")
        asked("i")
        return futures

    results = [future.result(60) for future in while_held(submit)]
    assert results == ["A", None, "B", None, "C", None, "E", None, "G", "H", "I"]
    assert done == ["ask ab", "tell acd", "other", "ask ceg", "other", "tell f", "other", "ask hi"]


def test_of_work_with_results_that_fails_each_call_is_done_alone(database, while_held):
    done = []

    def ask(session, items):
        done.append(list(items))
        for item in items:
            settings.put(session, item, "x")
            if item == "bad":
                raise ValueError(item)
        return items

    futures = while_held(lambda: [database.submit_together(ask, item, touched=(item,)) for item in ("a", "bad", "b")])
    assert [futures[0].result(60), str(futures[1].exception(60)), futures[2].result(60)] == ["a", "bad", "b"]
    assert done == [["a", "bad", "b"], ["a"], ["bad"], ["b"]]
    assert [stored(database, name) for name in ("a", "bad", "b")] == ["x", None, "x"]


def test_what_effects_leave_for_the_end_of_a_group_is_done_behind_them_and_elsewhere_at_once(database, while_held):
    done, threads = [], []

    def work(name):
        def last():
            done.append(f"last {name}")
            threads.append(threading.current_thread())

        def effect():
            done.append(name)
            database.after_group(last)

        return lambda session: session.after_commit(effect)

    while_held(lambda: [database.submit(work(name)) for name in "ab"])
    assert database.settle(60)
    assert done == ["a", "b", "last a", "last b"]
    assert threads[0] is not threading.current_thread()
    database.after_group(lambda: done.append("at once"))
    assert done[-1] == "at once"


def test_what_prepares_for_a_commit_is_called_before_it_and_that_of_undone_work_never(database):
    seen = []

    def work(session):
        settings.put(session, "name", "x")
        session.before_commit(lambda: seen.append(("before", stored(database, "name"))))
        session.after_commit(lambda: seen.append(("after", stored(database, "name"))))

    def fail(session):
        session.before_commit(lambda: seen.append("never"))
        raise ValueError("no")

    database.submit(work).result(60)
    with pytest.raises(ValueError, match="no"):
        database.submit(fail).result(60)
    assert database.settle(60)
    assert seen == [("before", None), ("after", "x")]


def test_an_effect_sees_what_was_stored_on_another_connection(database):
    seen = []

    def work(session):
        settings.put(session, "a", "1")
        session.after_commit(lambda: seen.append(stored(database, "a")))
        assert stored(database, "a") is None

    database.write(work)
    assert database.settle(60)
    assert seen == ["1"]


def test_settling_waits_for_what_effects_submit(database):
    def chain(count):
        def work(session):
            settings.put(session, "count", str(count))
            if count:
                session.after_commit(lambda: database.submit(chain(count - 1)))

        return work

    database.submit(chain(20))
    assert database.settle(60)
    assert stored(database, "count") == "0"


def test_a_failing_effect_stops_no_other(database, caplog):
    done = []

    def work(session):
        session.after_commit(lambda: done.append(1 // 0))
        session.after_commit(lambda: done.append(2))

    database.write(work)
    assert database.settle(60)
    assert done == [2]
    assert "an effect" in caplog.text


def test_a_reader_cannot_write(database):
    with database.read() as session, pytest.raises(Exception, match=r"read-?only"):
        settings.put(session, "a", "1")


def test_what_was_submitted_before_closing_is_stored(url):
    first = Database(url)
    futures = [first.submit(lambda session, n=n: settings.put(session, str(n), "x")) for n in range(50)]
    first.close()
    assert all(future.done() for future in futures)
    again = Database(url)
    try:
        assert stored(again, "49") == "x"
    finally:
        again.close()


@pytest.mark.skipif(databases.ON_POSTGRESQL, reason="tells of the SQLite file")
def test_what_was_committed_comes_into_the_file_while_more_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "_CHANGES_A_CHECKPOINT", 10)
    path = tmp_path / "mirror.db"
    database = Database(f"sqlite:///{path}")

    def in_the_file():
        # Without the log beside it.
        with closing(sqlite3.connect(f"file:{path}?immutable=1", uri=True)) as connection:
            return connection.execute("SELECT count(*) FROM settings").fetchone()[0]

    before = in_the_file()
    try:
        for number in range(1000):
            database.write(lambda session, name=str(number): settings.put(session, name, "x"))
            if in_the_file() > before:
                break
        else:
            pytest.fail("nothing came into the file")
        database.write(lambda session: settings.put(session, "last", "x"))
        assert stored(database, "last") == "x"
    finally:
        database.close()
    assert in_the_file() == before + number + 2


@pytest.mark.sqlite
def test_what_is_committed_stays_so_where_no_thread_is_to_be_had(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "_CHANGES_A_CHECKPOINT", 1)
    database = Database(f"sqlite:///{tmp_path / 'mirror.db'}")
    tried = []

    def start(thread):
        tried.append(thread.name)
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    try:
        for number in range(3):
            database.write(lambda session, name=str(number): settings.put(session, name, "x"))
    finally:
        monkeypatch.undo()
        database.close()
    assert tried == ["checkpoint"] * 3


def test_those_who_wait_are_told_before_what_comes_behind_the_group(database):
    order = []
    database.tell_first(lambda _: order.append("wait"))
    started, go_on = threading.Event(), threading.Event()

    def hold(_session):
        started.set()
        go_on.wait(60)

    def work(name):
        def tell():
            database.after_group(lambda: order.append(f"begin {name}"))
            order.append(f"tell {name}")

        return lambda session: session.after_commit(tell)

    database.submit(hold)
    assert started.wait(60)
    for name in "ab":
        database.submit(work(name)).add_done_callback(lambda _: order.append("done"))
    go_on.set()
    assert database.settle(10)
    assert order == ["done", "done", "tell a", "tell b", "wait", "begin a", "begin b"]


def test_nobody_is_waited_for_where_nothing_comes_behind(database):
    waited = []
    database.tell_first(waited.append)
    database.write(lambda session: session.after_commit(lambda: None))
    assert database.settle(10)
    assert not waited
