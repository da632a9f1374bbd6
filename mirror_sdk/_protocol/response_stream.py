"""The body of a response while it arrives in a thread. ``async_response_stream`` is the asynchronous counterpart."""

from __future__ import annotations

import io
from collections.abc import Callable, Generator, Mapping
from typing import Any, TypeVar

import httpx

from mirror_sdk._protocol.deadline import Deadline
from mirror_sdk._protocol.response_body import BUFFER_BYTES, Body, Decompressor

T = TypeVar("T")


def read_streamed(
    read: Callable[[Mapping[str, str], io.BufferedReader[Any]], T], response: httpx.Response, deadline: Deadline
) -> T:
    """Read the headers and the body of a response, while the body arrives."""
    return read(response.headers, io.BufferedReader(Body(iter_chunks(response, deadline)), BUFFER_BYTES))


def iter_chunks(response: httpx.Response, deadline: Deadline) -> Generator[bytes]:
    """Yield the decompressed body of a response while it arrives. Some transports have already read it.

    Raises:
        httpx.ReadTimeout: The timeout of the call expired.
    """
    decompressor = Decompressor(response.headers)
    if response.is_stream_consumed:
        yield response.content
        return
    arriving = response.iter_raw()
    while True:
        deadline.begin_wait()
        if (raw := next(arriving, None)) is None:
            return
        # A transport of the caller does not check the deadline.
        if not deadline.left:
            raise httpx.ReadTimeout("the response had not ended")
        deadline.arrived(len(raw))
        yield from decompressor.decompress(raw)
