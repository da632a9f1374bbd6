"""Chunked downloads: their formats, the paths they select, and the threads that produce them.

Used by snapshots, the history and the older calls. Each of these works without the others.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

from flask import request

from mirror_sdk.wire.paths import TEXT_PATTERN, check_pattern
from mirror_sdk.wire.snapshot import ARROW, COMPRESSIONS, MAX_PATTERNS, NDJSON, Compression
from mirror_server.core.errors import ApiError
from mirror_server.store.backend import StorageFailed
from mirror_server.views.deferred_responses import StreamedResponse
from mirror_server.views.description import TEXT, Parameter, words
from mirror_server.views.requests import query_choice
from mirror_server.web.wsgi_adapter import ResponseReader

COMPRESSION = Parameter(
    "compression",
    "Compression of the buffers of an Arrow stream.",
    words(*COMPRESSIONS, default=COMPRESSIONS[0]),
)
PATTERNS = Parameter(
    "path",
    "Only resources with this path. A `*` at the end matches all paths that start with the text before it. Can be"
    " repeated.",
    {"type": "array", "items": TEXT | {"pattern": TEXT_PATTERN}, "maxItems": MAX_PATTERNS},
    is_repeated=True,
)
_CHUNK_BYTES = 256 * 1024
_EXPECTED_CHUNK_BYTES = 256 * 1024
_LONGEST_SECONDS = 900

_log = logging.getLogger(__name__)


def _lower_priority() -> None:
    """Lower the priority of this thread: large responses can wait, small ones cannot."""
    # Only in Linux each thread has its own priority.
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)


_THREADS = ThreadPoolExecutor(2, "download", _lower_priority)
"""Few threads, because the interpreter runs one at a time, and each of these repeatedly delays every other request."""


class Download(StreamedResponse):
    """A response whose chunks are produced one by one. Each chunk is produced after the previous chunk was sent.

    So no chunk waits in memory for a slow reader.

    Args:
        chunks: Produces the chunks. It may block for a while, and must not use the request.
        is_admitted: Whether the key of the request is still valid. If not, the download is aborted.
        release: Called once, when no more chunks are produced.
        content_type: The content type.
        headers: Further headers.
    """

    def __init__(
        self,
        chunks: Generator[bytes],
        *,
        is_admitted: Callable[[], bool],
        release: Callable[[], object],
        content_type: str,
        headers: Mapping[str, str],
    ) -> None:
        super().__init__(iter(self.next_chunk, None), content_type=content_type, headers=headers)
        self._chunks = chunks
        self._is_admitted = is_admitted
        self._release = release
        self._lock = threading.Lock()

    def next_chunk(self) -> bytes | None:
        """Return the next chunk, ``None`` after the last one."""
        with self._lock:
            return next(self._chunks, None) if self._is_admitted() else None

    async def send(self, reader: ResponseReader, ends: Mapping[asyncio.Future[Any], str]) -> bool:
        """Send the chunks, which other threads produce; stop early if the reader or the server stops.

        A reader that takes too long is disconnected: its open read transaction keeps the database from tidying up.
        """
        loop = asyncio.get_running_loop()
        end_at = loop.time() + _LONGEST_SECONDS
        try:
            while True:
                await reader.wait_for_room()
                # Counted before it exists. Otherwise all downloads that wait for a thread would pass this limit.
                with reader.counting(_EXPECTED_CHUNK_BYTES):
                    chunk = await loop.run_in_executor(_THREADS, self.next_chunk)
                    if chunk is None:
                        return True
                    with reader.counting(len(chunk) - _EXPECTED_CHUNK_BYTES):
                        sending = asyncio.ensure_future(reader.send_chunk(chunk))
                        seconds = end_at - loop.time()
                        await asyncio.wait([sending, *ends], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
                        if not sending.done() or any(end.done() for end in ends):
                            sending.cancel()
                            too_slow = f"its client did not read it within {_LONGEST_SECONDS} seconds"
                            reason = next((text for end, text in ends.items() if end.done()), too_slow)
                            _log.info("a download was aborted: %s", reason)
                            return False
                        await sending
        except StorageFailed as failure:
            _log.warning("a download was aborted: the server %s", failure)
            return False

    def close(self) -> None:
        """Release all resources, after the chunk that is being produced."""
        super().close()
        # Breaks a reference cycle, which only the garbage collector would find.
        self.response = ()
        with self._lock:
            self._chunks.close()
        self._release()


def accepted_format(subject: str) -> str:
    """Return the content type of the response by the header ``Accept``; NDJSON by default.

    Args:
        subject: What is downloaded, for a message: ``a snapshot``.

    Raises:
        ApiError: The header accepts none of the available formats (406).
    """
    content_type = request.accept_mimetypes.best_match([NDJSON, ARROW]) if request.accept_mimetypes else NDJSON
    if content_type is None:
        raise ApiError(
            406, f"{subject} is available as {ARROW} or {NDJSON}; request one of them with the header Accept"
        )
    return content_type


def query_compression() -> Compression:
    """Return the requested compression of an Arrow stream.

    Raises:
        ApiError: The compression is unknown (400).
    """
    return cast("Compression", query_choice(COMPRESSION.name, COMPRESSIONS) or "none")


def in_chunks(lines: Iterable[bytes]) -> Generator[bytes]:
    """Join NDJSON lines into chunks, with a newline after each line."""
    text = bytearray()
    for line in lines:
        text += line + b"\n"
        if len(text) > _CHUNK_BYTES:
            yield bytes(text)
            text.clear()
    yield bytes(text)


def query_patterns() -> tuple[str, ...]:
    """Return the path patterns in the query.

    Raises:
        ApiError: A pattern is invalid, or there are too many (400).
    """
    patterns = request.args.getlist("path")
    if len(patterns) > MAX_PATTERNS:
        raise ApiError.of_field("path", f"repeated {len(patterns)} times; the limit is {MAX_PATTERNS}")
    try:
        return tuple(map(check_pattern, patterns))
    except ValueError as error:
        raise ApiError.of_field("path", str(error)) from None
