"""The position of a reader after responses and failures."""

import math
from datetime import UTC, datetime

import pytest

from mirror_sdk._protocol.backoff import Backoff
from mirror_sdk._protocol.log_cursor import LogCursor, poll_limit
from mirror_sdk._protocol.operations import Poll
from mirror_sdk.errors import ConnectionFailed, MirrorError, UnexpectedResponse, api_error
from mirror_sdk.wire.errors import ErrorBody
from mirror_sdk.wire.log_entries import NOTHING, Batch, Gap

AT = datetime(2026, 11, 20, tzinfo=UTC)


def cursor(position: int | None = 5) -> LogCursor:
    """A reader's position, at a time that stands still."""
    return LogCursor(position, lambda: 0.0, Backoff(rng=lambda: 1.0))


def fail(reader: LogCursor, error: MirrorError) -> tuple[Batch, float]:
    return reader.failed(error), reader.pause_seconds


def failure(status: int, reason: str | None = None, retry_after_seconds: float | None = None) -> MirrorError:
    return api_error(status, ErrorBody(code=status, type="t", message="m", reason=reason), retry_after_seconds)


PASSING = [ConnectionFailed("lost"), failure(500), failure(503), failure(429), failure(410)]
LASTING = [
    failure(401),
    failure(403),
    failure(400),
    failure(404),
    failure(409),
    UnexpectedResponse("html"),
]


def test_response_moves_the_position_and_returns_its_entries():
    reader = cursor(None)
    # Without a position, it requests the end of the log and does not wait.
    poll = reader.next_poll(25)
    assert (poll.params, poll.hold_seconds) == ({"after": "latest", "hold": 0}, 0)
    # The first page may start anywhere, and a page without entries does not move the position.
    assert reader.accept(Poll(5, {"blips": [1]}, None)).seq == 5
    batch = reader.accept(Poll(5, {}, None, AT))
    assert (reader.position, reader.served_at, batch.served_at) == (5, AT, AT)
    batch = reader.accept(Poll(9, {"notifications": [{}], "blips": [1]}, Gap(6, 7)))
    assert (batch.seq, batch.gap, [entry.key for entry in batch.entries]) == (9, Gap(6, 7), ["notifications", "blips"])
    assert reader.next_poll(25).params == {"after": 9, "hold": 25}


@pytest.mark.parametrize("error", PASSING, ids=repr)
def test_a_failure_that_may_pass_leaves_the_position_and_waits_longer_each_time(error):
    reader = cursor(5)
    assert fail(reader, error) == (NOTHING, 0.5)
    assert fail(reader, error) == (NOTHING, 1.0)
    assert reader.last_failure is error
    assert reader.next_poll(25).params["after"] == 5
    # The service may require a longer pause. After a response the pause is reset.
    assert fail(reader, failure(429, retry_after_seconds=40.0))[1] == 40.0
    reader.accept(Poll(5, {}, None))
    assert reader.last_failure is None
    assert fail(reader, error)[1] == 0.5


@pytest.mark.parametrize("error", LASTING, ids=repr)
def test_a_failure_that_would_not_pass_is_raised(error):
    with pytest.raises(type(error)):
        cursor().failed(error)


def test_a_log_shorter_than_the_position_is_a_loss_and_its_end_the_new_position():
    reader = cursor(5000)
    reader.failed(ConnectionFailed("lost"))
    batch, pause_seconds = fail(reader, failure(400, "CURSOR_BEYOND_LOG"))
    # A program that does not wait finds the new end immediately.
    assert (batch.gap, batch.entries, pause_seconds) == (Gap(None, None), (), 0.0)
    assert (reader.has_position, reader.position, reader.last_failure) == (False, None, None)
    assert reader.next_poll(25).params["after"] == "latest"
    reader.accept(Poll(2, {}, None))
    assert reader.next_poll(25).params["after"] == 2


@pytest.mark.parametrize(
    ("timeout_seconds", "remaining_seconds", "limit"),
    [(30, 12.5, 14), (0.05, 0.05, 2), (0.1, -2, 1), (1, 0, 1), (0, 5, math.inf), (math.inf, math.inf, math.inf)],
)
def test_poll_timeout_is_the_hold_time_rounded_up_plus_one_second(timeout_seconds, remaining_seconds, limit):
    assert poll_limit(timeout_seconds, remaining_seconds) == limit


def test_the_limit_of_a_wait_is_that_of_its_poll():
    assert cursor(5).next_poll(25).within_seconds == math.inf
    assert cursor(5).next_poll(25, 13.5).within_seconds == 13.5
    opening = cursor(None).opening_poll(13.5)
    assert (opening.within_seconds, opening.params) == (13.5, {"after": "latest", "hold": 0})
    # The reader of a poll continues automatically; a request for the end must be repeated by its caller.
    assert (opening.max_retries, cursor(5).next_poll(25).max_retries) == (None, 0)


@pytest.mark.parametrize(
    ("poll", "message"),
    [
        (Poll(5, {"blips": [1]}, None, AT), "requested entries after 5, but the service returned entry 5 again"),
        (Poll(4, {"blips": [1]}, None, AT), "requested entries after 5, but the service returned entry 4 again"),
        (
            Poll(9, {"blips": [{"seq": 5}]}, None, AT),
            "the service returned invalid entries: the number of an entry is 5",
        ),
        (Poll(9, {"blips": [{"seq": "9" * 5000}]}, None, AT), r"the number of an entry is '9{50,4000}…; check"),
    ],
)
def test_impossible_response_does_not_move_the_position(poll, message):
    reader = cursor(5)
    with pytest.raises(UnexpectedResponse, match=message):
        reader.accept(poll)
    assert (reader.position, reader.served_at) == (5, None)
