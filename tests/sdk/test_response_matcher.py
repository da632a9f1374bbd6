"""Matching entries of messages with the pending requests that wait for them."""

import gc
from datetime import UTC, datetime

import pytest

from mirror_sdk._protocol.response_matcher import ResponseMatcher
from mirror_sdk.wire.log_entries import Entries, Entry, Unreadable
from mirror_sdk.wire.notifications import AsyncResponse, Notification, RegistrationEvent
from mirror_sdk.wire.routes import MAX_SEQ_DIGITS

GOOD = {"ep": "d", "path": "/3303/0/5700", "payload": "NDA2"}
# Imported here, because pydantic builds a model at its first use and then holds the local variables of the caller.
FIRST, SECOND = (AsyncResponse(id=async_id, status=200) for async_id in ("first", "second"))


def reply(async_id: str, status: int = 200) -> Entry:
    return Entry("async-responses", AsyncResponse(id=async_id, status=status))


def test_responses_resolve_their_requests_up_to_the_limit():
    matcher = ResponseMatcher(keep=2)
    first, second = matcher.expect("first"), matcher.expect("second")
    assert (matcher.waiting, matcher.may_accept) == (2, False)
    matcher.accept(SECOND, comes_again=True)
    assert (second.response.status, matcher.waiting, matcher.may_accept) == (200, 1, True)
    matcher.accept(FIRST, comes_again=True)
    # The reader expects as many responses as the log can still deliver.
    assert (first.response.status, matcher.may_accept, matcher.waiting) == (200, False, 0)
    matcher.pass_over_log()
    assert matcher.may_accept
    matcher.feed([reply("first", 504)])
    assert (first.response.status, matcher.duplicates) == (200, 1)
    del first
    gc.collect()
    assert matcher.expect("first").response is None
    # A request without a reader uses no memory.
    del second
    gc.collect()
    assert len(matcher._awaited_responses) == 0


def test_repeated_response_changes_nothing_and_is_counted():
    matcher = ResponseMatcher()
    matcher.expect("a")
    matcher.feed(
        [
            reply("a", 200),
            reply("a", 504),
            reply("a", 504),
            reply("b"),
            reply("b"),
            reply("b"),
        ]
    )
    assert matcher.expect("a").response.status == 200
    assert (matcher.duplicates, matcher.unclaimed) == (4, 1)
    # A response that arrived with its request is skipped once in the log. One that the log delivered first is not.
    matcher = ResponseMatcher()
    came, logged = matcher.expect("came"), matcher.expect("logged")
    matcher.accept(AsyncResponse(id="came", status=200), comes_again=True)
    matcher.feed([reply("came", 504), reply("logged", 200)])
    matcher.accept(AsyncResponse(id="logged", status=504), comes_again=True)
    assert (came.response.status, logged.response.status, matcher.duplicates) == (200, 200, 0)
    matcher.feed([reply("came", 504)])
    assert matcher.duplicates == 1


def test_each_list_of_a_message_is_read_as_its_type():
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
def test_malformed_entry_does_not_affect_others(bad):
    entries = list(Entries({"notifications": [GOOD, bad, GOOD]}))
    assert [type(entry.body) for entry in entries] == [Notification, Unreadable, Notification]
    assert entries[1].body == Unreadable("notifications", bad)
    # An entry without a list cannot be read at all.
    matcher = ResponseMatcher()
    awaited_response = matcher.expect("wanted")
    matcher.feed([*Entries({"async-responses": bad, "registrations": [bad]}), reply("wanted")])
    assert awaited_response.response is not None


def test_unknown_lists_and_unclaimed_responses_are_counted_and_the_newest_stored():
    matcher = ResponseMatcher(keep=3)
    matcher.feed(reply(str(number)) for number in range(5))
    assert (matcher.unclaimed, matcher.dropped) == (3, 2)
    assert (matcher.expect("1").response, matcher.expect("4").response.id) == (None, "4")
    assert matcher.feed(Entries({"notifications": [GOOD, None], "async-responses": [{"id": "a", "status": 200}]})) == {
        "notifications"
    }
    assert matcher.feed(Entries({"blips": list(range(150)), "blop": {"a": 1}})) == {"blips", "blop"}
    assert matcher.unreadable == 152


def test_response_has_the_clocks_of_its_receipt():
    matcher = ResponseMatcher(now=lambda: datetime(2026, 11, 20, tzinfo=UTC), clock=lambda: 7.5)
    awaited_response, *others = matcher.expect("a"), matcher.expect("b"), matcher.expect("c")
    assert (awaited_response.async_id, awaited_response.received_at, awaited_response.received_seconds) == (
        "a",
        None,
        None,
    )
    matcher.feed([reply("a")])
    assert (awaited_response.received_at, awaited_response.received_seconds) == (
        datetime(2026, 11, 20, tzinfo=UTC),
        7.5,
    )
    assert matcher.waiting == 2
    assert [other.received_at for other in others] == [None, None]
    # A loss is reported only to waiting readers.
    matcher.note_loss(3, None)
    assert [one.lost for one in (awaited_response, *others)] == [None, (3, None), (3, None)]


def test_only_pending_responses_of_other_messages_are_consumed_once():
    matcher = ResponseMatcher()
    awaited_response = matcher.expect("a")
    awaited = {"a", "c"}
    matcher.feed_responses([*Entries({"blips": [1]}), reply("a", 200), reply("b"), reply("a", 504)], awaited)
    assert awaited_response.response is not None
    assert (awaited_response.response.status, awaited) == (200, {"c"})
    assert (matcher.unreadable, matcher.unclaimed, matcher.duplicates) == (0, 0, 0)


@pytest.mark.parametrize("other", [GOOD, GOOD | {"seq": True}, "text"])
def test_entries_are_in_order_of_their_numbers_or_of_the_message(other):
    entries = Entries({"registrations": [{"ep": "d", "seq": 9}], "blips": [{"seq": 7}], "blop": {"seq": 8}})
    assert [(entry.key, entry.seq) for entry in entries] == [("blips", 7), ("blop", 8), ("registrations", 9)]
    assert len(entries) == 3
    entries = Entries({"registrations": [{"ep": "d", "seq": 9}], "notifications": [other, GOOD | {"seq": 8}]})
    assert [(entry.key, entry.seq) for entry in entries] == [("registrations", None), *[("notifications", None)] * 2]


@pytest.mark.parametrize(
    ("numbers", "after", "fault"),
    [
        *[
            ([number], None, "which is not a whole number")
            for number in ("6", True, 6.0, 10**MAX_SEQ_DIGITS, -(10**MAX_SEQ_DIGITS))
        ],
        ([8, 5], 5, "the number of an entry is 5; it must be above 5 and at most 9"),
        ([10], 5, "the number of an entry is 10; it must be above 5 and at most 9"),
        ([0], None, "the number of an entry is 0; it must be above 0 and at most 9"),
        ([7, 6, 7], 5, "two entries have the number 7"),
        ([10**MAX_SEQ_DIGITS - 1], 5, "it must be above 5 and at most 9"),
        ([6, 9, 7], 5, None),
        ([1], None, None),
        ([None, 6], 5, None),
        ([], 5, None),
    ],
)
def test_numbers_that_cannot_be_are_a_fault(numbers, after, fault):
    error = Entries({"blips": [{"seq": number, "at": index} for index, number in enumerate(numbers)]}).numbering_error(
        after, 9
    )
    assert error == fault or (fault is not None and str(error).endswith(fault))
