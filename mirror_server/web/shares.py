"""How the keys share an event loop: whoever asks for much at once lets others have their turn."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

_MOST_SECONDS = 0.002


class Shares:
    """What the requests of each key took of one event loop's time, and which keys rest."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._resting: dict[str, asyncio.Event] = {}

    async def turn(self, environ: WSGIEnvironment) -> None:
        """Wait as long as the key of this request rests."""
        while (rest := self._resting.get(_key(environ))) is not None:
            await rest.wait()

    def count(self, environ: WSGIEnvironment, seconds: float, *, is_large: bool) -> None:
        """Count what a request took.

        Many may have arrived at once: others are served after two milliseconds of them, and for as long as a large one
        took.
        """
        key = _key(environ)
        if not self._seconds:
            asyncio.get_running_loop().call_soon(self._seconds.clear)
        self._seconds[key] = self._seconds.get(key, 0) + seconds
        if is_large:
            self.rest(environ, seconds)
        elif self._seconds[key] > _MOST_SECONDS:
            self.rest(environ)

    def rest(self, environ: WSGIEnvironment, seconds: float = 0) -> None:
        """Serve others for so long, or once, before the next request of the same key."""
        key = _key(environ)
        if key not in self._resting:
            self._resting[key] = asyncio.Event()
            asyncio.get_running_loop().call_later(seconds, lambda: self._resting.pop(key).set())


def _key(environ: WSGIEnvironment) -> str:
    key: str = environ.get("HTTP_AUTHORIZATION", "")
    return key
