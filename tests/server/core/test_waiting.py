"""Waiters for a log: completed once, together, and never after they were canceled."""

import pytest

from mirror_server.notifications.waiters import Waiters


@pytest.fixture
def waiters():
    return Waiters()


def test_wake_completes_all_waiters_of_one_log_with_the_same_value(waiters):
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


def test_callback_added_after_completion_is_called_at_once(waiters):
    called = []
    waiter = waiters.add("a", is_poll=True)
    waiters.wake("a", "news")
    waiter.add_done_callback(called.append)
    assert called == [waiter]


def test_canceled_waiter_is_not_called_and_counted_once(waiters):
    called = []
    waiter, webhook = waiters.add("a", is_poll=True), waiters.add("a", is_poll=False)
    waiter.add_done_callback(called.append)
    assert waiters.open_polls == 1
    waiter.cancel()
    waiter.cancel()
    waiters.wake("a", "news")
    waiter.cancel()
    assert (called, waiter.done(), webhook.done(), waiters.open_polls) == ([], False, True, 0)


def test_fail_ends_a_waiter_unless_it_has_completed(waiters):
    failing, completed = waiters.add("a", is_poll=True), waiters.add("b", is_poll=True)
    failing.fail(ValueError("over"))
    waiters.wake("b", "news")
    completed.fail(ValueError("over"))
    with pytest.raises(ValueError, match="over"):
        failing.result()
    assert completed.result() == "news"
    assert waiters.open_polls == 0


def test_failing_callback_does_not_stop_other_callbacks(waiters, caplog):
    called = []
    for _ in range(3):
        waiter = waiters.add("a", is_poll=True)
        waiter.add_done_callback(lambda _: 1 / 0)
        waiter.add_done_callback(called.append)
    waiters.wake("a", "news")
    assert len(called) == 3
    assert len([record for record in caplog.records if record.exc_info]) == 3
