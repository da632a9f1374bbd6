"""Downloads, which are made part by part: their forms, the paths they select, and the threads that make them.

For the snapshots, the history and the older calls; each of these works without the others.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

from flask import request

from mirror_sdk.wire.paths import TEXT_PATTERN, check_pattern
from mirror_sdk.wire.snapshot import ARROW, COMPRESSIONS, MAX_PATTERNS, NDJSON, Compression
from mirror_server.core.errors import ApiError
from mirror_server.store.backend import StorageFailed
from mirror_server.views.deferred import Streamed
from mirror_server.views.description import TEXT, Parameter, words
from mirror_server.views.requests import query_choice
from mirror_server.web.asgi import ResponseReader

COMPRESSION = Parameter(
    "compression",
    "How the buffers of an Arrow stream are compressed.",
    words(*COMPRESSIONS, default=COMPRESSIONS[0]),
)
PATTERNS = Parameter(
    "path",
    "Only resources of this path, or whose path begins with what stands before a `*` at its end; may be given several"
    " times.",
    {"type": "array", "items": TEXT | {"pattern": TEXT_PATTERN}, "maxItems": MAX_PATTERNS},
    is_repeated=True,
)
_CHUNK_BYTES = 256 * 1024
_EXPECTED_CHUNK_BYTES = 256 * 1024
_LONGEST_SECONDS = 900

_log = logging.getLogger(__name__)


def _give_way() -> None:
    """Have the thread run when others do not want to: a large answer has time, a small one has not."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)


_THREADS = ThreadPoolExecutor(2, "download", _give_way)
"""Few: an interpreter runs one thread at a time, and every other request waits for each of these again and again."""


class Download(Streamed):
    """Chunks are made one by one, each when the one before is on its way, so that none waits for a slow reader.

    Args:
        chunks: Makes them; it may block for a while, and knows nothing of the request.
        is_admitted: Whether the key it was asked for with is good still: it breaks off as soon as it is not.
        release: Called once, when no more are made.
        content_type: What they are.
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
        """The next chunk, ``None`` behind the last one."""
        with self._lock:
            return next(self._chunks, None) if self._is_admitted() else None

    async def send(self, reader: ResponseReader, ends: Sequence[asyncio.Future[Any]]) -> bool:
        """Send chunks as they are made, on other threads; without its end when the reader or the server stops.

        A reader that takes too long is cut off: what is made for it keeps the database from tidying up.
        """
        loop = asyncio.get_running_loop()
        end_at = loop.time() + _LONGEST_SECONDS
        try:
            while True:
                await reader.room()
                # Counted while it is made, or all that wait for threads to make theirs would find room.
                with reader.waiting(_EXPECTED_CHUNK_BYTES):
                    chunk = await loop.run_in_executor(_THREADS, self.next_chunk)
                    if chunk is None:
                        return True
                    with reader.waiting(len(chunk) - _EXPECTED_CHUNK_BYTES):
                        sending = asyncio.ensure_future(reader.send_chunk(chunk))
                        seconds = end_at - loop.time()
                        await asyncio.wait([sending, *ends], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
                        if not sending.done() or any(end.done() for end in ends):
                            sending.cancel()
                            _log.info("a download was cut off: its reader is gone or too slow, or the server stops")
                            return False
                        await sending
        except StorageFailed as failure:
            _log.warning("a download was cut off: the server %s", failure)
            return False

    def close(self) -> None:
        """Let go of all that making chunks takes, when the one under way is made."""
        super().close()
        # It refers to this: garbage that Python would have to look for.
        self.response = ()
        with self._lock:
            self._chunks.close()
        self._release()


def accepted_form(what: str) -> str:
    """The content type to answer with, by the header ``Accept``; NDJSON where it says nothing.

    Args:
        what: What it is, for a message: ``a snapshot``.

    Raises:
        ApiError: It comes in none of those that are accepted (406).
    """
    form = request.accept_mimetypes.best_match([NDJSON, ARROW]) if request.accept_mimetypes else NDJSON
    if form is None:
        raise ApiError(406, f"{what} comes as {ARROW} or as {NDJSON}; ask for one of them with the header Accept")
    return form


def query_compression() -> Compression:
    """How the buffers of an Arrow stream are to be compressed.

    Raises:
        ApiError: There is no such way (400).
    """
    return cast("Compression", query_choice(COMPRESSION.name, COMPRESSIONS) or "none")


def in_chunks(lines: Iterable[bytes]) -> Generator[bytes]:
    """Lines of NDJSON, each with its end, in chunks of some size."""
    text = bytearray()
    for line in lines:
        text += line + b"\n"
        if len(text) > _CHUNK_BYTES:
            yield bytes(text)
            text.clear()
    yield bytes(text)


def query_patterns() -> tuple[str, ...]:
    """The patterns of paths in the query of the request.

    Raises:
        ApiError: One of them is none, or there are too many (400).
    """
    patterns = request.args.getlist("path")
    if len(patterns) > MAX_PATTERNS:
        raise ApiError.of_field("path", f"given {len(patterns)} times; {MAX_PATTERNS} is the limit")
    try:
        return tuple(map(check_pattern, patterns))
    except ValueError as error:
        raise ApiError.of_field("path", str(error)) from None
