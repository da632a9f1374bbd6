"""The body of a response as it arrives on a thread; the counterpart of ``async_arrival``."""

from __future__ import annotations

import io
from collections.abc import Callable, Generator, Mapping
from typing import Any, TypeVar

import httpx

from mirror_sdk._protocol.deadline import Deadline
from mirror_sdk._protocol.response_body import BUFFER_BYTES, Body, Unpacking

T = TypeVar("T")


def read_arriving(
    read: Callable[[Mapping[str, str], io.BufferedReader[Any]], T], answer: httpx.Response, deadline: Deadline
) -> T:
    """Have the headers and the body read, the body as it arrives."""
    return read(answer.headers, io.BufferedReader(Body(pieces_of(answer, deadline)), BUFFER_BYTES))


def pieces_of(answer: httpx.Response, deadline: Deadline) -> Generator[bytes]:
    """The body as it arrives, decompressed; some transports have read it already.

    Raises:
        httpx.ReadTimeout: The time of the call is over.
    """
    unpacking = Unpacking(answer.headers)
    if answer.is_stream_consumed:
        yield answer.content
        return
    arriving = answer.iter_raw()
    while True:
        deadline.begin_wait()
        if (raw := next(arriving, None)) is None:
            return
        # A transport that is not ours knows of no deadline.
        if not deadline.left:
            raise httpx.ReadTimeout("the response had not ended")
        deadline.arrived(len(raw))
        yield from unpacking.pieces(raw)
