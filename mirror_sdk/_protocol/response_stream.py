"""The body of a response as it arrives on a thread; the counterpart of ``async_response_stream``."""

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
    """Read the headers and the body, the body as it arrives."""
    return read(response.headers, io.BufferedReader(Body(iter_chunks(response, deadline)), BUFFER_BYTES))


def iter_chunks(response: httpx.Response, deadline: Deadline) -> Generator[bytes]:
    """Yield the decompressed body as it arrives; some transports have read it already.

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
        # A custom transport does not check the deadline.
        if not deadline.left:
            raise httpx.ReadTimeout("the response had not ended")
        deadline.arrived(len(raw))
        yield from decompressor.decompress(raw)
