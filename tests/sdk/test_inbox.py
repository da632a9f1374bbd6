"""Entries of messages, and answers on their way to whoever expects them."""

import gc
from datetime import UTC, datetime

import pytest

from mirror_sdk._protocol.inbox import Inbox
from mirror_sdk.wire.log_entries import Entries, Entry, Unreadable
from mirror_sdk.wire.notifications import AsyncResponse, Notification, RegistrationEvent
from mirror_sdk.wire.routes import MAX_SEQ_DIGITS

GOOD = {"ep": "d", "path": "/3303/0/5700", "payload": "NDA2"}
# Made here, because pydantic builds a model at its first use and keeps the local variables of the caller alive.
FIRST, SECOND = (AsyncResponse(id=async_id, status=200) for async_id in ("first", "second"))


def answer(async_id: str, status: int = 200) -> Entry:
    return Entry("async-responses", AsyncResponse(id=async_id, status=status))


def test_responses_with_their_requests_go_to_waiters_only_up_to_the_limit():
    inbox = Inbox(keep=2)
    first, second = inbox.expect("first"), inbox.expect("second")
    assert (inbox.waiting, inbox.may_accept) == (2, False)
    inbox.accept(SECOND, comes_again=True)
    assert (second.response.status, inbox.waiting, inbox.may_accept) == (200, 1, True)
    inbox.accept(FIRST, comes_again=True)
    # As many are still to come by the log as it keeps.
    assert (first.response.status, inbox.may_accept, inbox.waiting) == (200, False, 0)
    inbox.pass_over_log()
    assert inbox.may_accept
    inbox.feed([answer("first", 504)])
    assert (first.response.status, inbox.duplicates) == (200, 1)
    del first
    gc.collect()
    assert inbox.expect("first").response is None
    # A request that nobody asks about leaves nothing behind.
    del second
    gc.collect()
    assert len(inbox._expectations) == 0


def test_a_repeated_response_changes_nothing_and_is_counted():
    inbox = Inbox()
    inbox.expect("a")
    inbox.feed([answer("a", 200), answer("a", 504), answer("a", 504), answer("b"), answer("b"), answer("b")])
    assert inbox.expect("a").response.status == 200
    assert (inbox.duplicates, inbox.unclaimed) == (4, 1)
    # One that came with its request is passed over in the log once; one that the log brought first is none.
    inbox = Inbox()
    came, logged = inbox.expect("came"), inbox.expect("logged")
    inbox.accept(AsyncResponse(id="came", status=200), comes_again=True)
    inbox.feed([answer("came", 504), answer("logged", 200)])
    inbox.accept(AsyncResponse(id="logged", status=504), comes_again=True)
    assert (came.response.status, logged.response.status, inbox.duplicates) == (200, 200, 0)
    inbox.feed([answer("came", 504)])
    assert inbox.duplicates == 1


def test_each_list_is_read_as_its_kind():
    message = {
        "async-responses": [{"id": "a", "status": 200, "payload": "My4zMQ=="}],
        "notifications": [GOOD],
        "registrations": [{"ep": "d", "q": True}],
        "reg-updates": [{"ep": "d"}],
        "de-registrations": ["d", {"ep": "e"}],
        "registrations-expired": ["f"],
    }
    bodies = [entry.body for entry in Entries(message)]
    first, second, *others = bodies
    assert isinstance(first, AsyncResponse)
    assert (first.id, first.payload) == ("a", b"3.31")
    assert isinstance(second, Notification)
    assert (second.ep, second.payload) == ("d", b"406")
    assert [body.ep for body in others if isinstance(body, RegistrationEvent)] == ["d", "d", "d", "e", "f"]


@pytest.mark.parametrize("bad", [None, 7, "x", [], {}, {"ep": "d"}, GOOD | {"payload": "A"}, GOOD | {"max-age": "x"}])
def test_a_malformed_entry_does_not_affect_others(bad):
    entries = list(Entries({"notifications": [GOOD, bad, GOOD]}))
    assert [type(entry.body) for entry in entries] == [Notification, Unreadable, Notification]
    assert entries[1].body == Unreadable("notifications", bad)
    # Where there is no list, all of it cannot be read.
    inbox = Inbox()
    expectation = inbox.expect("wanted")
    inbox.feed([*Entries({"async-responses": bad, "registrations": [bad]}), answer("wanted")])
    assert expectation.response is not None


def test_unknown_lists_and_unclaimed_responses_are_counted_and_the_newest_retained():
    inbox = Inbox(keep=3)
    inbox.feed(answer(str(number)) for number in range(5))
    assert (inbox.unclaimed, inbox.dropped) == (3, 2)
    assert (inbox.expect("1").response, inbox.expect("4").response.id) == (None, "4")
    assert inbox.feed(Entries({"notifications": [GOOD, None], "async-responses": [{"id": "a", "status": 200}]})) == {
        "notifications"
    }
    assert inbox.feed(Entries({"blips": list(range(150)), "blop": {"a": 1}})) == {"blips", "blop"}
    assert inbox.unreadable == 152


def test_a_response_has_the_clock_readings_of_its_arrival():
    inbox = Inbox(now=lambda: datetime(2026, 11, 20, tzinfo=UTC), clock=lambda: 7.5)
    expectation, *others = inbox.expect("a"), inbox.expect("b"), inbox.expect("c")
    assert (expectation.async_id, expectation.received_at, expectation.received_seconds) == ("a", None, None)
    inbox.feed([answer("a")])
    assert (expectation.received_at, expectation.received_seconds) == (datetime(2026, 11, 20, tzinfo=UTC), 7.5)
    assert inbox.waiting == 2
    assert [other.received_at for other in others] == [None, None]
    # A loss is told to those who wait alone.
    inbox.note_loss(3, None)
    assert [one.lost for one in (expectation, *others)] == [None, (3, None), (3, None)]


def test_only_expected_responses_are_used_each_once():
    inbox = Inbox()
    expectation = inbox.expect("a")
    awaited = {"a", "c"}
    inbox.feed_responses([*Entries({"blips": [1]}), answer("a", 200), answer("b"), answer("a", 504)], awaited)
    assert expectation.response is not None
    assert (expectation.response.status, awaited) == (200, {"c"})
    assert (inbox.unreadable, inbox.unclaimed, inbox.duplicates) == (0, 0, 0)


@pytest.mark.parametrize("other", [GOOD, GOOD | {"seq": True}, "text"])
def test_the_numbers_of_entries_are_their_order_or_that_of_the_message_where_not_every_entry_has_one(other):
    entries = Entries({"registrations": [{"ep": "d", "seq": 9}], "blips": [{"seq": 7}], "blop": {"seq": 8}})
    assert [(entry.key, entry.seq) for entry in entries] == [("blips", 7), ("blop", 8), ("registrations", 9)]
    assert len(entries) == 3
    entries = Entries({"registrations": [{"ep": "d", "seq": 9}], "notifications": [other, GOOD | {"seq": 8}]})
    assert [(entry.key, entry.seq) for entry in entries] == [("registrations", None), *[("notifications", None)] * 2]


@pytest.mark.parametrize(
    ("numbers", "after", "fault"),
    [
        *[
            ([number], None, "which is not a number")
            for number in ("6", True, 6.0, 10**MAX_SEQ_DIGITS, -(10**MAX_SEQ_DIGITS))
        ],
        ([8, 5], 5, "an entry has the number 5, which is not above 5 and up to 9"),
        ([10], 5, "an entry has the number 10, which is not above 5 and up to 9"),
        ([0], None, "an entry has the number 0, which is not above 0 and up to 9"),
        ([7, 6, 7], 5, "two entries have the number 7"),
        ([10**MAX_SEQ_DIGITS - 1], 5, "is not above 5 and up to 9"),
        ([6, 9, 7], 5, None),
        ([1], None, None),
        ([None, 6], 5, None),
        ([], 5, None),
    ],
)
def test_numbers_that_cannot_be_are_a_fault(numbers, after, fault):
    told = Entries({"blips": [{"seq": number, "at": place} for place, number in enumerate(numbers)]}).numbering_error(
        after, 9
    )
    assert told == fault or (fault is not None and str(told).endswith(fault))
