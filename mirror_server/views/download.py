"""A large answer that is made while it is sent, chunk by chunk."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Mapping

from flask import Response

DOWNLOAD = "mirror.download"
"""Key of the WSGI environment under which a server that can wait without a thread takes a :class:`Download`."""


class Download(Response):
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
        super().__init__(self._each(), content_type=content_type, headers=dict(headers))
        self._chunks = chunks
        self._is_admitted = is_admitted
        self._release = release
        self._is_taken = False
        self._lock = threading.Lock()
        self.call_on_close(self._closed)

    def take(self) -> None:
        """Hand it over: from now on the one who takes it calls :meth:`release`."""
        self._is_taken = True

    def next_chunk(self) -> bytes | None:
        """The next chunk, ``None`` behind the last one."""
        with self._lock:
            return next(self._chunks, None) if self._is_admitted() else None

    def release(self) -> None:
        """Let go of all that making chunks takes, when the one under way is made."""
        with self._lock:
            self._chunks.close()
        self._release()

    def _each(self) -> Iterator[bytes]:
        # Closing the answer must not close what is taken.
        yield from iter(self.next_chunk, None)

    def _closed(self) -> None:
        if not self._is_taken:
            self.release()
