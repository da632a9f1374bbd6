"""A large answer that is made while it is sent, chunk by chunk."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from mirror_server.store.backend import StorageFailed
from mirror_server.views.streamed import Reader, Streamed

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

    async def send(self, reader: Reader, ends: Sequence[asyncio.Future[Any]]) -> bool:
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
