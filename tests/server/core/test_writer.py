"""Group commit: each work item succeeds or fails alone, and effects run after it is on disk."""

from contextlib import closing

import pytest

from mirror_server.hooks import open_database
from mirror_server.store.sqlite import backend


@pytest.fixture
def in_one_group(database, hold_writer):
    """Submit work while the writer is blocked, so that it forms one group."""

    def run(submit):
        with hold_writer(database):
            return submit()

    return run


def stored(database, name):
    return database.query(lambda session: session.setting(name))


def test_failing_work_does_not_fail_others_of_its_group(database, in_one_group):
    def keep(name):
        def work(session):
            session.put_setting(name, "x")
            session.after_commit(lambda: effects.append(name))
            if name == "lost":
                raise ValueError("no")
            return name

        return database.submit(work)

    effects = []
    first, lost, last = in_one_group(lambda: [keep("a"), keep("lost"), keep("b")])
    assert [first.result(60), last.result(60)] == ["a", "b"]
    with pytest.raises(ValueError, match="no"):
        lost.result(60)
    assert database.settle(60)
    assert effects == ["a", "b"]
    assert [stored(database, name) for name in ("a", "b", "lost")] == ["x", "x", None]


@pytest.mark.parametrize("has_results", [False, True])
def test_work_of_one_kind_is_batched_and_split_after_a_failure(database, in_one_group, has_results):
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

    assert [future.exception(60) for future in in_one_group(lambda: submit("a", "b"))] == [None] * 2
    assert done == [["a", "b"]]
    done.clear()
    futures = in_one_group(lambda: submit("c", "bad", "d"))
    assert [future.exception(60) and str(future.exception()) for future in futures] == [None, "no", None]
    assert done == [["c", "bad", "d"], ["c"], ["bad"], ["d"]]
    assert [stored(database, name) for name in ("a", "b", "c", "d", "bad")] == ["x"] * 4 + [None]


def test_batching_reorders_only_work_without_common_conflict_keys(database, in_one_group):
    done = []

    def read(_session, items):
        done.append("read " + "".join(items))
        return [item.upper() for item in items]

    def append(_session, items):
        done.append("append " + "".join(items))

    def other(conflict_keys):
        database.submit(lambda _: done.append("other"), conflict_keys=conflict_keys)

    def submit():
        def submit_read(item):
            futures.append(database.enqueue(read, items=[item], conflict_keys=(item,)))

        def submit_append(item):
            futures.append(database.enqueue(append, items=[item], until_stored=True, conflict_keys=(item, "log")))

        futures = []
        submit_read("a")
        submit_append("a")
        other(())
        submit_read("b")
        submit_append("c")
        # After the append with the same key, and so are all later reads.
        submit_read("c")
        submit_append("d")
        submit_read("e")
        other(("log",))
        submit_append("f")
        submit_read("g")
        other(None)
        submit_read("h")
        submit_read("i")
        return futures

    results = [future.result(60) for future in in_one_group(submit)]
    assert results == ["A", None, "B", None, "C", None, "E", None, "G", "H", "I"]
    assert done == ["read ab", "append acd", "other", "read ceg", "other", "append f", "other", "read hi"]


def test_effects_run_after_the_commit_and_never_after_a_rollback(database):
    effects = []

    def work(session):
        session.put_setting("name", "x")
        session.after_commit(lambda: effects.append(stored(database, "name")))

    def fail(session):
        session.after_commit(lambda: effects.append("never"))
        raise ValueError("no")

    database.submit(work).result(60)
    with pytest.raises(ValueError, match="no"):
        database.submit(fail).result(60)
    assert database.settle(60)
    assert effects == ["x"]


def test_settle_waits_for_work_that_effects_submit(database):
    def chain(count):
        def work(session):
            session.put_setting("count", str(count))
            if count:
                session.after_commit(lambda: database.submit(chain(count - 1)))

        return work

    database.submit(chain(20))
    assert database.settle(60)
    assert stored(database, "count") == "0"


def test_failing_effect_does_not_stop_other_effects(database, caplog):
    done = []

    def work(session):
        session.after_commit(lambda: done.append(1 // 0))
        session.after_commit(lambda: done.append(2))

    database.write(work)
    assert database.settle(60)
    assert done == [2]
    assert "an action after a commit failed" in caplog.text


def test_read_session_cannot_write(database):
    with database.read() as session, pytest.raises(Exception, match=r"read-?only"):
        session.put_setting("a", "1")


def test_work_submitted_before_close_is_stored(url):
    first = open_database(url)
    futures = [first.submit(lambda session, n=n: session.put_setting(str(n), "x")) for n in range(50)]
    first.close()
    assert all(future.done() for future in futures)
    with closing(open_database(url)) as again:
        assert stored(again, "49") == "x"


@pytest.mark.sqlite
def test_sqlite_wal_is_checkpointed_during_writes(tmp_path, monkeypatch):
    monkeypatch.setattr(backend, "_CHECKPOINT_PAGES", 10)
    with closing(open_database(f"sqlite:///{tmp_path}/mirror.db")) as database:
        for number in range(100):
            database.write(lambda session, name=str(number): session.put_setting(name, "x" * 4000))
        assert (tmp_path / "mirror.db-wal").stat().st_size < 50 * 4096 < (tmp_path / "mirror.db").stat().st_size


def test_futures_complete_before_work_after_the_group_starts(database, in_one_group):
    order = []
    database.wait_for_responses = lambda _: order.append("wait")

    def work(name):
        def effect():
            database.after_group(lambda: order.append(f"after group {name}"))
            order.append(f"effect {name}")

        return lambda session: session.after_commit(effect)

    def submit():
        for name in "ab":
            database.submit(work(name)).add_done_callback(lambda _: order.append("done"))

    in_one_group(submit)
    assert database.settle(10)
    assert order == ["done", "done", "effect a", "effect b", "wait", "after group a", "after group b"]
    database.after_group(lambda: order.append("elsewhere at once"))
    assert order[-1] == "elsewhere at once"


def test_writer_does_not_wait_for_responses_without_work_after_the_group(database):
    waited = []
    database.wait_for_responses = waited.append
    database.write(lambda session: session.after_commit(lambda: None))
    assert database.settle(10)
    assert not waited
