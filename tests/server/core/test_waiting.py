"""Who waits for more in a log: told once, together, and never after they stopped."""

import pytest

from mirror_server.notifications.waiting import Waiters


@pytest.fixture
def waiters():
    return Waiters()


def test_all_of_a_log_are_told_the_same_and_those_of_another_nothing(waiters):
    called = []
    waiting = [waiters.add("a", is_poll=True) for _ in range(3)]
    other = waiters.add("b", is_poll=True)
    for each in (*waiting, other):
        each.add_done_callback(called.append)
    waiters.wake("a", "news")
    assert [each.result() for each in waiting if each.done()] == ["news"] * 3
    assert set(called) == set(waiting)
    assert not other.done()
    assert (waiters.open_polls, waiters.names(), "a" in waiters, "b" in waiters) == (1, ["b"], False, True)
    waiters.wake("a", "more")
    assert len(called) == 3
    assert waiters.count_wakes("a") == 2


def test_who_asks_to_be_called_later_is_called_now(waiters):
    called = []
    waiter = waiters.add("a", is_poll=True)
    waiters.wake("a", "news")
    waiter.add_done_callback(called.append)
    assert called == [waiter]


def test_who_waits_no_more_is_told_nothing_and_counted_once(waiters):
    called = []
    waiter, webhook = waiters.add("a", is_poll=True), waiters.add("a", is_poll=False)
    waiter.add_done_callback(called.append)
    assert waiters.open_polls == 1
    waiter.cancel()
    waiter.cancel()
    waiters.wake("a", "news")
    waiter.cancel()
    assert (called, waiter.done(), webhook.done(), waiters.open_polls) == ([], False, True, 0)


def test_who_fails_is_told_so_unless_it_was_told_something(waiters):
    failing, told = waiters.add("a", is_poll=True), waiters.add("b", is_poll=True)
    failing.fail(ValueError("over"))
    waiters.wake("b", "news")
    told.fail(ValueError("over"))
    with pytest.raises(ValueError, match="over"):
        failing.result()
    assert told.result() == "news"
    assert waiters.open_polls == 0


def test_one_that_cannot_be_told_keeps_nobody_else_from_it(waiters, caplog):
    called = []
    for _ in range(3):
        waiter = waiters.add("a", is_poll=True)
        waiter.add_done_callback(lambda _: 1 / 0)
        waiter.add_done_callback(called.append)
    waiters.wake("a", "news")
    assert len(called) == 3
    assert len([record for record in caplog.records if record.exc_info]) == 3
