"""Messages of a websocket for a reader that may have read some of the entries by a poll."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from mirror_sdk._protocol.operations import Poll
from mirror_sdk._protocol.websocket_messages import read_message
from mirror_sdk.errors import UnexpectedResponse
from mirror_sdk.wire.log_entries import Gap

THREE = {"async-responses": [{"id": "a", "seq": 5}, {"id": "c", "seq": 7}], "notifications": [{"ep": "d", "seq": 6}]}


def reported(after: int, **message: object):
    return read_message(after, json.dumps({name.replace("_", "-"): one for name, one in message.items()}))


REST = {"async-responses": THREE["async-responses"][1:], "notifications": THREE["notifications"]}


@pytest.mark.parametrize(
    ("after", "message", "read"),
    [(4, THREE, THREE), (5, THREE, REST), (7, THREE, None), (9, THREE, None), (7, {}, {}), (9, {}, None)],
)
def test_only_new_entries_of_a_message_are_read_and_a_position_is_acknowledged_again(after, message, read):
    poll = reported(after, mirror_cursor=7, mirror_time="2026-11-20T12:37:55.576Z", **message)
    assert poll == (None if read is None else Poll(7, read, None, datetime(2026, 11, 20, 12, 37, 55, 576000, UTC)))


@pytest.mark.parametrize(("after", "gap"), [(0, Gap(1, 4)), (2, Gap(3, 4)), (4, None), (6, None)])
def test_a_gap_is_reported_up_to_the_last_read_entry(after, gap):
    assert reported(after, mirror_cursor=7, mirror_gap="1-4", **THREE).gap == gap


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "1", "null", "[" * 100_000, "{}", '{"mirror-cursor":"7"}', '{"mirror-cursor":-1}'),
        *('{"mirror-cursor":true}', '{"mirror-cursor":1e3}', '{"mirror-cursor":10000000000000000000}', b"\xff"),
    ],
)
def test_an_invalid_message_is_rejected(text):
    with pytest.raises(UnexpectedResponse, match="message of the websocket"):
        read_message(0, text)
