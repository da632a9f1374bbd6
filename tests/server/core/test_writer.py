"""Group commit: each piece of work stands or falls alone, and nothing is told before it is on disk."""

from contextlib import closing

import pytest

from mirror_server.hooks import open_database
from mirror_server.store.sqlite import backend


@pytest.fixture
def while_held(database, hold_writer):
    """Submits while the writer is busy, so that all of it comes into one group."""

    def run(submit):
        with hold_writer(database):
            return submit()

    return run


def stored(database, name):
    return database.query(lambda session: session.setting(name))


def test_work_of_one_group_fails_alone(database, while_held):
    def keep(name):
        def work(session):
            session.put_setting(name, "x")
            session.after_commit(lambda: effects.append(name))
            if name == "lost":
                raise ValueError("no")
            return name

        return database.submit(work)

    effects = []
    first, lost, last = while_held(lambda: [keep("a"), keep("lost"), keep("b")])
    assert [first.result(60), last.result(60)] == ["a", "b"]
    with pytest.raises(ValueError, match="no"):
        lost.result(60)
    assert database.settle(60)
    assert effects == ["a", "b"]
    assert [stored(database, name) for name in ("a", "b", "lost")] == ["x", "x", None]


@pytest.mark.parametrize("has_results", [False, True])
def test_work_of_one_kind_is_done_at_once_and_where_it_fails_each_alone(database, while_held, has_results):
    done = []

    def put(session, names):
        done.append(list(names))
        for name in names:
            session.put_setting(name, "x")
        if "bad" in names:
            raise ValueError("no")
        return names

    def submit(*names):
        if has_results:
            return [database.enqueue(put, items=[name], conflict_keys=(name,)) for name in names]
        return [database.enqueue(put, items=[name], until_stored=True) for name in names]

    assert [future.exception(60) for future in while_held(lambda: submit("a", "b"))] == [None] * 2
    assert done == [["a", "b"]]
    done.clear()
    apart = while_held(lambda: submit("c", "bad", "d"))
    assert [future.exception(60) and str(future.exception()) for future in apart] == [None, "no", None]
    assert done == [["c", "bad", "d"], ["c"], ["bad"], ["d"]]
    assert [stored(database, name) for name in ("a", "b", "c", "d", "bad")] == ["x"] * 4 + [None]


def test_work_of_one_kind_comes_before_what_touches_nothing_of_it_and_each_call_has_its_own_result(
    database, while_held
):
    done = []

    def ask(_session, items):
        done.append("ask " + "".join(items))
        return [item.upper() for item in items]

    def tell(_session, items):
        done.append("tell " + "".join(items))

    def other(conflict_keys):
        database.submit(lambda _: done.append("other"), conflict_keys=conflict_keys)

    def submit():
        def asked(item):
            futures.append(database.enqueue(ask, items=[item], conflict_keys=(item,)))

        def told(item):
            futures.append(database.enqueue(tell, items=[item], until_stored=True, conflict_keys=(item, "log")))

        futures = []
        asked("a")
        told("a")
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


def test_effects_are_called_after_the_commit_and_those_of_undone_work_never(database):
    seen = []

    def work(session):
        session.put_setting("name", "x")
        session.after_commit(lambda: seen.append(stored(database, "name")))

    def fail(session):
        session.after_commit(lambda: seen.append("never"))
        raise ValueError("no")

    database.submit(work).result(60)
    with pytest.raises(ValueError, match="no"):
        database.submit(fail).result(60)
    assert database.settle(60)
    assert seen == ["x"]


def test_settling_waits_for_what_effects_submit(database):
    def chain(count):
        def work(session):
            session.put_setting("count", str(count))
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
        session.put_setting("a", "1")


def test_what_was_submitted_before_closing_is_stored(url):
    first = open_database(url)
    futures = [first.submit(lambda session, n=n: session.put_setting(str(n), "x")) for n in range(50)]
    first.close()
    assert all(future.done() for future in futures)
    with closing(open_database(url)) as again:
        assert stored(again, "49") == "x"


@pytest.mark.sqlite
def test_log_of_sqlite_is_brought_into_the_file_while_more_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(backend, "_CHECKPOINT_PAGES", 10)
    with closing(open_database(f"sqlite:///{tmp_path}/mirror.db")) as database:
        for number in range(100):
            database.write(lambda session, name=str(number): session.put_setting(name, "x" * 4000))
        assert (tmp_path / "mirror.db-wal").stat().st_size < 50 * 4096 < (tmp_path / "mirror.db").stat().st_size


def test_those_who_wait_are_told_before_what_comes_behind_the_group(database, while_held):
    order = []
    database.wait_for_responses = lambda _: order.append("wait")

    def work(name):
        def tell():
            database.after_group(lambda: order.append(f"begin {name}"))
            order.append(f"tell {name}")

        return lambda session: session.after_commit(tell)

    def submit():
        for name in "ab":
            database.submit(work(name)).add_done_callback(lambda _: order.append("done"))

    while_held(submit)
    assert database.settle(10)
    assert order == ["done", "done", "tell a", "tell b", "wait", "begin a", "begin b"]
    database.after_group(lambda: order.append("elsewhere at once"))
    assert order[-1] == "elsewhere at once"


def test_nobody_is_waited_for_where_nothing_comes_behind(database):
    waited = []
    database.wait_for_responses = waited.append
    database.write(lambda session: session.after_commit(lambda: None))
    assert database.settle(10)
    assert not waited
