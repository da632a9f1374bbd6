"""Open polls: they do not delay others, wake together, and end with their client or the server."""

from __future__ import annotations

import json
import selectors
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

import pytest
from process_server import PATIENCE_SECONDS, Application, ServerProcess, wait_until, wait_until_quick
from resource_paths import SWITCH

pytestmark = pytest.mark.process

POLLS = 100
BEFORE_THE_END_SECONDS = 30
"""A time below the hold of a poll, so nothing within it is caused by the end of the hold."""


class OpenPoll:
    """A poll on its own connection, sent without waiting for the response."""

    def __init__(
        self, server: ServerProcess, key: str, query: str, *headers: str, version: str = "1.1", more: str = ""
    ) -> None:
        self.socket = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_SECONDS)
        lines = [
            f"GET /v2/notification/pull?{query} HTTP/{version}",
            "Host: x",
            f"Authorization: Bearer {key}",
            *headers,
        ]
        self.socket.sendall("\r\n".join([*lines, "", more]).encode())

    def response(self) -> tuple[int, bytes]:
        """Return status and body."""
        status, _, body = self.complete_response()
        return status, body

    def complete_response(self) -> tuple[int, dict[bytes, bytes], bytes]:
        """Return status, headers and body, and check that no header is duplicated."""
        received = b""
        while b"\r\n\r\n" not in received:
            received += self._more()
        head, _, body = received.partition(b"\r\n\r\n")
        lines = [line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:]]
        headers = dict(lines)
        assert len(headers) == len(lines)
        while len(body) < int(headers.get(b"content-length", 0)):
            body += self._more()
        return int(head.split()[1]), headers, body

    def _more(self) -> bytes:
        chunk = self.socket.recv(65536)
        assert chunk, "the connection ended before the response"
        return chunk

    def close(self) -> None:
        self.socket.close()


@pytest.fixture
def polls() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


def hold(polls: ExitStack, server: ServerProcess, key: str, query: str) -> OpenPoll:
    poll = OpenPoll(server, key, query)
    polls.callback(poll.close)
    return poll


def count_ready(open_polls: list[OpenPoll]) -> int:
    """Return how many have a response to read at this moment."""
    with selectors.DefaultSelector() as selector:
        for poll in open_polls:
            selector.register(poll.socket, selectors.EVENT_READ)
        return len(selector.select(0))


def is_open_or_ready(application: Application, poll: OpenPoll) -> bool:
    return count_ready([poll]) > 0 or application.poll(hold=0).status_code == 409


def hold_plain(polls: ExitStack, server: ServerProcess, application: Application) -> OpenPoll:
    """Open a plain poll, and check that it is open: other polls of its key are rejected."""
    while True:
        poll = hold(polls, server, application.key, "hold=55")
        wait_until(partial(is_open_or_ready, application, poll), "the poll to be open")
        # The test poll may have been open itself when this one arrived.
        if not count_ready([poll]):
            return poll


def test_100_open_polls_leave_the_mirror_readable_and_wake_together(shared_server, application, polls):
    device_id = application.add_device("held", {"path": SWITCH, "value": "0", "writable": True})
    last_seq = len(list(application.entries()))
    open_polls = [hold(polls, shared_server, application.key, f"after={last_seq}&hold=55") for _ in range(POLLS)]

    for _ in range(50):
        wait_until_quick(lambda: application.json("GET", f"/v3/devices/{device_id}/echo"), 1)
    assert count_ready(open_polls) == 0

    application.write(device_id, SWITCH, "1", "wake")
    # All of them, long before their time is over.
    wait_until(lambda: count_ready(open_polls) == POLLS, "all polls to wake", BEFORE_THE_END_SECONDS)
    responses = [poll.response() for poll in open_polls]
    assert {status for status, _ in responses} == {200}
    assert len({body for _, body in responses}) == 1
    assert [entry["id"] for entry in json.loads(responses[0][1])["async-responses"]] == ["wake"]


def test_polls_that_wake_together_each_have_the_head_they_would_have_alone(shared_server, application):
    """Also if the connection closes afterwards, uses HTTP/1.0, or has a request id of its client."""
    device_id = application.add_device("heads", {"path": SWITCH, "value": "0", "writable": True})
    last_seq = len(list(application.entries()))
    query = f"after={last_seq}&hold=55"
    of_client = "0123456789abcdef0123456789abcdef"
    with ExitStack() as opened:
        open_polls = [
            OpenPoll(shared_server, application.key, query),
            OpenPoll(shared_server, application.key, query, f"X-Request-ID: {of_client}"),
            OpenPoll(shared_server, application.key, query, "Connection: close"),
            OpenPoll(shared_server, application.key, query, version="1.0"),
        ]
        for poll in open_polls:
            opened.callback(poll.close)
        application.write(device_id, SWITCH, "1", "heads")
        responses = [poll.complete_response() for poll in open_polls]
        alone = OpenPoll(shared_server, application.key, query)
        opened.callback(alone.close)
        status, expected, body = alone.complete_response()

        names = {name for name, _ in expected.items()} - {b"mirror-time"}
        for woken_status, headers, woken_body in responses:
            assert (woken_status, woken_body) == (status, body)
            assert headers.keys() - {b"connection", b"mirror-time"} == names
            for name in names - {b"date", b"x-request-id"}:
                assert headers[name] == expected[name]
        assert [headers.get(b"connection") for _, headers, _ in responses] == [None, None, b"close", b"close"]
        assert responses[1][1][b"x-request-id"] == of_client.encode()
        assert len({headers[b"x-request-id"] for _, headers, _ in responses}) == len(responses)
        # The ones that close are closed; the others accept the next request.
        assert [poll.socket.recv(1) for poll in open_polls[2:]] == [b"", b""]
        for poll in open_polls[:2]:
            poll.socket.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert poll.response()[0] == 200


def test_request_pipelined_after_a_poll_is_served_after_it(shared_server, application):
    device_id = application.add_device("piped", {"path": SWITCH, "value": "0", "writable": True})
    last_seq = len(list(application.entries()))
    poll = OpenPoll(
        shared_server,
        application.key,
        f"after={last_seq}&hold=55",
        more="GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    )
    with poll.socket:
        application.write(device_id, SWITCH, "1", "piped")
        received = b""
        while chunk := poll.socket.recv(65536):
            received += chunk
    assert received.count(b"HTTP/1.1 200 OK") == 2
    assert received.index(b"async-responses") < received.rindex(b"HTTP/1.1 200 OK")


def test_second_plain_poll_is_rejected_until_the_client_of_the_first_disconnects(shared_server, application, polls):
    device_id = application.add_device("gone", {"path": SWITCH, "value": "0", "writable": True})
    while application.poll(hold=0).status_code == 200:
        pass
    first_poll = hold_plain(polls, shared_server, application)

    first_poll.close()
    wait_until(lambda: application.poll(hold=0).status_code == 204, "the plain poll to be free", BEFORE_THE_END_SECONDS)

    application.write(device_id, SWITCH, "1", "after-gone")
    application.response("after-gone")
    message = application.poll(hold=5).json()
    assert [entry["id"] for entry in message["async-responses"]] == ["after-gone"]
