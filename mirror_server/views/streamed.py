"""An answer that is sent while it is made."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from flask import Response

from mirror_server.views.deferred import PARK

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment


class Reader(Protocol):
    """The client of a request, under a server that can wait without a thread."""

    @property
    def is_gone(self) -> bool:
        """Whether it is known to have gone away."""
        ...

    async def room(self) -> None:
        """Wait until a part of the answer may be made for it."""
        ...

    def waiting(self, size: int) -> AbstractContextManager[None]:
        """Meanwhile so many more bytes wait to be taken."""
        ...

    async def send_chunk(self, chunk: bytes) -> None:
        """Send a part of the answer."""
        ...


class Streamed(Response):
    """An answer that is sent part by part, each made when there is room for it.

    A server that can wait without a thread takes it as it takes a :class:`~mirror_server.views.deferred.Deferred`, has
    :meth:`send` send it, and closes it at the end. Any other reads ``chunks``, in a thread that is held meanwhile.

    Args:
        chunks: The parts.
        content_type: What they are.
        headers: Further headers.

    Attributes:
        is_poll: Whether it may stay open for long, and so counts against the bound on polls.
        is_interrupted: Whether it is to end before its time, where it holds a thread.
    """

    is_poll = False

    def __init__(self, chunks: Iterable[bytes], *, content_type: str, headers: Mapping[str, str]) -> None:
        super().__init__(chunks, content_type=content_type, headers=dict(headers))
        self.is_interrupted: Callable[[], bool] = lambda: False

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """The head alone, for the server that took it."""
        if PARK not in environ:
            return super().__call__(environ, start_response)
        start_response(self.status, self.get_wsgi_headers(environ).to_wsgi_list())
        return ()

    async def send(self, reader: Reader, ends: Sequence[asyncio.Future[Any]]) -> bool:
        """Send the body; false where it broke off, which its client is to see.

        Args:
            reader: The client.
            ends: Of these one is done when the client goes away or the server stops.
        """
        raise NotImplementedError
