"""Whole answers in one write.

uvicorn looks at each header of an answer and writes head and body apart, which for thousands of equal answers at once
takes longer than to send them.
"""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle


def is_disconnected(send: object) -> bool:
    """Whether the client is known to have gone away; false where the server does not show it.

    Args:
        send: What ASGI gives to send with.
    """
    cycle = getattr(send, "__self__", None)
    return isinstance(cycle, RequestResponseCycle) and cycle.disconnected


def send_at_once(send: object, status: int, lines: bytes, body: bytes) -> bool:
    """Send an answer, which is whole; false where the server has to do that itself, and nothing was sent.

    Who waits for what its client sends finds that there is nobody to answer any more.

    Args:
        send: What ASGI gives to send with.
        status: The status.
        lines: Its headers, each with its line end; the length of the body is among them.
        body: The body.
    """
    cycle = getattr(send, "__self__", None)
    if not isinstance(cycle, RequestResponseCycle) or cycle.scope["method"] == "HEAD":
        return False
    if cycle.disconnected:
        return True
    # Behind the last answer a connection is closed.
    if cycle.flow.write_paused or not cycle.keep_alive:
        return False
    common = [b"%b: %b\r\n" % header for header in cycle.default_headers]
    cycle.response_started = cycle.response_complete = True
    cycle.waiting_for_100_continue = False
    cycle.transport.write(b"".join([STATUS_LINE[status], *common, lines, b"\r\n", body]))
    cycle.message_event.set()
    cycle.on_response()
    return True
