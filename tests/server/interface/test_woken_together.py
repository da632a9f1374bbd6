"""Readers that one entry wakes together: what they are told is read and written once, and is what each would read."""

import pytest

from mirror_server.core.errors import ApiError
from mirror_server.core.messages import ASYNC_RESPONSES, REG_UPDATES
from mirror_server.notifications.log import NotificationLog
from mirror_server.store import logs

APP = "app"
MOMENT = 0.1


class Counted:
    """The database as one reader has it, whose reads are counted: other threads of a server read too."""

    def __init__(self, database):
        self.database, self.reads = database, 0

    def __getattr__(self, name):
        self.reads += name in {"read", "query"}
        return getattr(self.database, name)


class Readers:
    """A log of its own on the database of a server, with readers that wait."""

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
        """All of them in one transaction, each an entry of its own."""

        def work(session):
            for name in names:
                self.log.append(session, REG_UPDATES, [(APP, name, {"ep": name})])

        self.database.write(work)
        assert self.database.settle(60)

    def add_at_once(self, kind, *bodies):
        """All of them together, as what one transaction brings of one kind."""
        entries = [(APP, "d", body) for body in bodies]
        self.database.write(lambda session: self.log.append(session, kind, entries))
        assert self.database.settle(60)

    def add_from_elsewhere(self, name):
        """As another process does, whose message has not come yet."""

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
    """In one of several processes."""
    return Readers(new_server(), is_shared=True)


def test_one_entry_is_given_to_all_without_reading(readers):
    waiting = readers.waiting(20)
    readers.add("a")
    pages = [readers.log.read_new(APP, 0, more) for more in waiting]
    assert readers.counted.reads == 0
    assert len({id(page) for page in pages}) == 1
    assert pages[0].is_last
    assert readers.names(pages[0]) == ["a"]


def test_several_entries_at_once_are_read_once_for_all_that_have_read_as_far(readers):
    readers.add("a")
    waiting = readers.waiting(20)
    readers.add("b", "c")
    pages = [readers.log.read_new(APP, 1, more) for more in waiting]
    assert readers.counted.reads == 1
    assert {tuple(readers.names(page)) for page in pages} == {("b", "c")}
    # Who has read less is told more, and does not take it from the others.
    assert readers.read(waiting[0]) == ["a", "b", "c"]
    assert readers.names(readers.log.read_new(APP, 1, waiting[1])) == ["b", "c"]


def test_what_is_added_after_the_first_has_read_is_told_to_the_others(readers):
    waiting = readers.waiting(3)
    readers.add("a", "b")
    assert readers.read(waiting[0]) == ["a", "b"]
    readers.add("c")
    assert readers.read(waiting[1]) == readers.read(waiting[2]) == ["a", "b", "c"]


def test_what_one_read_is_for_the_others_for_a_moment_only(readers):
    waiting = readers.waiting(3)
    readers.add("a", "b")
    readers.read(waiting[0])
    readers.database.write(lambda session: session.run("DELETE FROM notifications WHERE device_id = 'a'"))
    readers.seconds = MOMENT - 0.001
    assert readers.read(waiting[1]) == ["a", "b"]
    readers.seconds = MOMENT
    assert readers.read(waiting[2]) == ["b"]


def test_a_reader_that_asks_for_few_entries_gets_few(readers):
    waiting = readers.waiting(2)
    readers.add_at_once(REG_UPDATES, *({"ep": name} for name in "abc"))
    few = readers.log.read_new(APP, 0, waiting[0], 2)
    assert (readers.names(few), few.is_last) == (["a", "b"], False)
    rest = readers.log.read_new(APP, few.cursor, waiting[0], 2)
    assert (readers.names(rest), rest.is_last) == (["c"], True)
    assert readers.read(waiting[1]) == ["a", "b", "c"]


@pytest.mark.parametrize("most", [1, 2])
def test_entries_of_one_work_are_given_without_reading_only_where_they_make_one_message(readers, most):
    waiting = readers.waiting(2)
    errors = [{"ep": async_id, "id": async_id, "status": 504} for async_id in "ab"]
    readers.add_at_once(ASYNC_RESPONSES, *errors[:most])
    assert readers.read(waiting[0]) == ["a"]
    assert readers.counted.reads == most - 1


def test_all_that_were_woken_are_refused_when_their_log_is_gone(readers):
    readers.add("a")
    waiting = readers.waiting(2)
    readers.database.write(lambda session: session.run("DELETE FROM logs WHERE app_id = 'app'"))
    readers.log.wake(APP)
    for more in waiting:
        with pytest.raises(ApiError) as refused:
            readers.log.read_new(APP, 1, more)
        assert refused.value.code == 401


def test_another_process_may_have_added_behind_what_this_one_did(among_others):
    readers = among_others
    waiting = readers.waiting(2)
    readers.add("mine")
    readers.add_from_elsewhere("theirs")
    page = readers.log.read_new(APP, 0, waiting[0])
    assert readers.names(page) == ["mine"]
    # So it is not taken for the last, and whoever goes on finds the other.
    assert not page.is_last
    after = readers.log.read_new(APP, page.cursor, waiting[0])
    assert (readers.names(after), after.is_last) == (["theirs"], True)


def test_what_another_process_adds_wakes_those_that_share_what_was_read_before(among_others):
    readers = among_others
    readers.add_from_elsewhere("first")
    early, *late = readers.waiting(3)
    readers.log.wake(APP)
    assert readers.read(early) == ["first"]
    readers.add_from_elsewhere("second")
    # Its message comes before this one waits again, and the page of the other lacks what it tells of.
    readers.log.wake(APP)
    again = readers.log.entry_waiter(APP)
    assert readers.read(late[0]) == ["first", "second"]
    # Or it comes afterwards: then it wakes.
    assert not again.done()
    readers.add_from_elsewhere("third")
    readers.log.wake(APP)
    assert again.done()
