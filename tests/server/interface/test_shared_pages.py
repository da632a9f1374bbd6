"""Waiters woken together share one page, which is read and encoded once."""

import pytest

from mirror_server.core.errors import ApiError
from mirror_server.core.messages import ASYNC_RESPONSES, REG_UPDATES
from mirror_server.notifications.log import NotificationLog
from mirror_server.store import logs

APP = "app"
MOMENT = 0.1


class Counted:
    """The database of one reader, which counts its reads, because other threads of a server read too."""

    def __init__(self, database):
        self.database, self.reads = database, 0

    def __getattr__(self, name):
        self.reads += name in {"read", "query"}
        return getattr(self.database, name)


class Readers:
    """A log on the database of a server, with waiting readers."""

    def __init__(self, server, *, is_shared):
        self.database, self.seconds = server.services.database, 0.0
        self.counted = Counted(self.database)
        self.log = NotificationLog(
            self.counted,
            server.services.clock,
            max_bytes=1_000_000,
            is_shared=is_shared,
            is_leader=lambda: True,
            monotonic=lambda: self.seconds,
        )
        self.database.write(lambda session: logs.create(session, APP))

    def add(self, *names):
        """Append entries one by one in one transaction."""

        def work(session):
            for name in names:
                self.log.append(session, REG_UPDATES, [(APP, name, {"ep": name})])

        self.database.write(work)
        assert self.database.settle(60)

    def add_at_once(self, kind, *bodies):
        """Append entries of one kind in one call."""
        entries = [(APP, "d", body) for body in bodies]
        self.database.write(lambda session: self.log.append(session, kind, entries))
        assert self.database.settle(60)

    def add_from_elsewhere(self, name):
        """Append an entry like another process whose message has not arrived yet."""

        def work(session):
            entry = [(name, b'{"ep":"%b"}' % name.encode())]
            logs.append(session, APP, entry, kind=REG_UPDATES, at=0, read_seq=0)

        self.database.write(work)

    def waiting(self, count):
        return [self.log.entry_waiter(APP) for _ in range(count)]

    def names(self, page):
        return [entry.body["ep"] for entry in page.entries]

    def read(self, more):
        return self.names(self.log.read_new(APP, 0, more))


@pytest.fixture
def readers(new_server):
    return Readers(new_server(), is_shared=False)


@pytest.fixture
def among_others(new_server):
    """Return a log as in one of several processes."""
    return Readers(new_server(), is_shared=True)


def test_single_entry_reaches_all_waiters_without_a_read(readers):
    waiting = readers.waiting(20)
    readers.add("a")
    pages = [readers.log.read_new(APP, 0, more) for more in waiting]
    assert readers.counted.reads == 0
    assert len({id(page) for page in pages}) == 1
    assert pages[0].is_last
    assert readers.names(pages[0]) == ["a"]


def test_several_entries_are_read_once_for_all_waiters_at_a_position(readers):
    readers.add("a")
    waiting = readers.waiting(20)
    readers.add("b", "c")
    pages = [readers.log.read_new(APP, 1, more) for more in waiting]
    assert readers.counted.reads == 1
    assert {tuple(readers.names(page)) for page in pages} == {("b", "c")}
    # A reader at an earlier position gets more, and the others still get theirs.
    assert readers.read(waiting[0]) == ["a", "b", "c"]
    assert readers.names(readers.log.read_new(APP, 1, waiting[1])) == ["b", "c"]


def test_entry_added_after_the_shared_read_reaches_the_other_waiters(readers):
    waiting = readers.waiting(3)
    readers.add("a", "b")
    assert readers.read(waiting[0]) == ["a", "b"]
    readers.add("c")
    assert readers.read(waiting[1]) == readers.read(waiting[2]) == ["a", "b", "c"]


def test_shared_page_expires_after_a_moment(readers):
    waiting = readers.waiting(3)
    readers.add("a", "b")
    readers.read(waiting[0])
    readers.database.write(lambda session: session.run("DELETE FROM notifications WHERE device_id = 'a'"))
    readers.seconds = MOMENT - 0.001
    assert readers.read(waiting[1]) == ["a", "b"]
    readers.seconds = MOMENT
    assert readers.read(waiting[2]) == ["b"]


def test_reader_with_a_limit_gets_at_most_that_many_entries(readers):
    waiting = readers.waiting(2)
    readers.add_at_once(REG_UPDATES, *({"ep": name} for name in "abc"))
    few = readers.log.read_new(APP, 0, waiting[0], 2)
    assert (readers.names(few), few.is_last) == (["a", "b"], False)
    rest = readers.log.read_new(APP, few.cursor, waiting[0], 2)
    assert (readers.names(rest), rest.is_last) == (["c"], True)
    assert readers.read(waiting[1]) == ["a", "b", "c"]


@pytest.mark.parametrize("most", [1, 2])
def test_entries_that_need_several_messages_are_read_from_the_log(readers, most):
    waiting = readers.waiting(2)
    errors = [{"ep": async_id, "id": async_id, "status": 504} for async_id in "ab"]
    readers.add_at_once(ASYNC_RESPONSES, *errors[:most])
    assert readers.read(waiting[0]) == ["a"]
    assert readers.counted.reads == most - 1


def test_woken_waiters_get_401_when_their_log_was_deleted(readers):
    readers.add("a")
    waiting = readers.waiting(2)
    readers.database.write(lambda session: session.run("DELETE FROM logs WHERE app_id = 'app'"))
    readers.log.wake(APP)
    for more in waiting:
        with pytest.raises(ApiError) as caught:
            readers.log.read_new(APP, 1, more)
        assert caught.value.code == 401


def test_page_is_not_last_if_another_process_may_have_appended(among_others):
    readers = among_others
    waiting = readers.waiting(2)
    readers.add("mine")
    readers.add_from_elsewhere("theirs")
    page = readers.log.read_new(APP, 0, waiting[0])
    assert readers.names(page) == ["mine"]
    # So it does not count as the last page, and the next read finds the other entry.
    assert not page.is_last
    after = readers.log.read_new(APP, page.cursor, waiting[0])
    assert (readers.names(after), after.is_last) == (["theirs"], True)


def test_entry_of_another_process_wakes_waiters_that_share_a_page(among_others):
    readers = among_others
    readers.add_from_elsewhere("first")
    early, *late = readers.waiting(3)
    readers.log.wake(APP)
    assert readers.read(early) == ["first"]
    readers.add_from_elsewhere("second")
    # Its message arrives before this reader waits again, and the shared page lacks that entry.
    readers.log.wake(APP)
    again = readers.log.entry_waiter(APP)
    assert readers.read(late[0]) == ["first", "second"]
    # If it arrives afterwards, it wakes the reader.
    assert not again.done()
    readers.add_from_elsewhere("third")
    readers.log.wake(APP)
    assert again.done()
