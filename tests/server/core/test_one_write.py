"""An answer in one write: what uvicorn would send, or left to uvicorn."""

import asyncio
import logging
from unittest.mock import Mock

import pytest
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from mirror_server.views.answers import SharedAnswer
from mirror_server.web.asgi import Answer

LINES = b"content-type: application/json\r\ncontent-length: 2\r\n"


class Request:
    """A request of uvicorn's that is to be answered."""

    def __init__(self, method="GET", *, keep_alive=True):
        self.transport, self.on_response, log = Mock(), Mock(), logging.getLogger(__name__)
        self.flow = FlowControl(self.transport)
        of_request = {"scope": {"method": method}, "message_event": asyncio.Event(), "expect_100_continue": False}
        of_server = {"logger": log, "access_logger": log, "access_log": False, "default_headers": [(b"server", b"x")]}
        of_connection = {"transport": self.transport, "flow": self.flow, "keep_alive": keep_alive}
        self.cycle = RequestResponseCycle(**of_request, **of_server, **of_connection, on_response=self.on_response)

    @property
    def written(self):
        return [content for (content,), _ in self.transport.write.call_args_list]

    def send(self):
        return Answer(200, LINES, b"{}").send_at_once(self.cycle.send)


def test_head_and_body_are_one_write_and_the_request_is_over():
    request = Request()
    assert request.send()
    assert request.written == [b"HTTP/1.1 200 OK\r\nserver: x\r\n" + LINES + b"\r\n{}"]
    assert (request.on_response.call_count, request.cycle.response_complete) == (1, True)


@pytest.mark.parametrize("request_of", [lambda: Request("HEAD"), lambda: Request(keep_alive=False)])
def test_what_is_not_as_usual_is_left_to_the_server(request_of):
    request = request_of()
    assert not request.send()
    assert request.written == []
    assert not Answer(200, LINES, b"{}").send_at_once(request.transport.write)


@pytest.mark.parametrize("change", ["nothing", "the server stops", "the client goes away"])
def test_while_a_client_takes_nothing_it_waits_and_looks_again_what_is_to_be_done(change):
    request = Request()
    answer = Answer.of(SharedAnswer(b"{}"), {})

    async def check():
        request.flow.pause_writing()
        assert not request.send()
        sending = asyncio.ensure_future(answer.send(request.cycle.send))
        await asyncio.sleep(0)
        assert not sending.done()
        assert not request.written
        if change == "the server stops":
            request.cycle.keep_alive = False
        if change == "the client goes away":
            request.cycle.disconnected = True
            assert request.send(), "there is nobody to send it to"
        request.flow.resume_writing()
        await sending

    asyncio.run(check())
    head, _, body = b"".join(request.written).partition(b"\r\n\r\n")
    assert body == (b"" if change == "the client goes away" else b"{}")
    # uvicorn itself says that the connection is closed, and closes it.
    assert (b"connection: close" in head) == request.transport.close.called == (change == "the server stops")
