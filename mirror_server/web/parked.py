"""A request whose answer comes later, while it waits.

Thousands wait at once: the request's own task listens to its client and is interrupted, rather than a second task for
each of them. To wake it takes longer than to make the answer of a poll, which many share. So where there is nothing
else to wait for that answer is sent at once, and the task, when it runs, only tidies up.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, cast

from flask import Response

from mirror_server.views.answers import SharedAnswer
from mirror_server.views.deferred import Deferred
from mirror_server.web.unread import Reader
from mirror_server.web.wsgi_call import Answer, Receive

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

    from mirror_server.web.app import MirrorApp


class Parked:
    """One request that waits, made by its task.

    Args:
        app: Makes the answer.
        deferred: What it waits for.
        environ: The request.
        reader: Its client.
    """

    __slots__ = ("_answer", "_app", "_deferred", "_environ", "_is_interrupted", "_is_waiting", "_reader", "_task")

    def __init__(self, app: MirrorApp, deferred: Deferred, environ: WSGIEnvironment, reader: Reader) -> None:
        self._app = app
        self._deferred = deferred
        self._environ = environ
        self._reader = reader
        self._task = cast("asyncio.Task[None]", asyncio.current_task())
        self._answer: Response | None = None
        self._is_waiting = True
        self._is_interrupted = False

    def finished_answer(self) -> Response:
        """The answer as it is now, or was when it arrived."""
        answer = self._app.answer(self._deferred, self._environ) if self._answer is None else self._answer
        return self._app.finish(answer, self._environ)

    def end(self) -> None:
        """Wait no longer."""
        if self._is_waiting:
            self._is_waiting = False
            self._is_interrupted = True
            self._task.cancel()

    def arrived(self) -> None:
        """What it waits for is there. Raises nothing."""
        if self._reader.is_gone:
            # The task is about to hear of it. An answer would count as read, and nobody could read it.
            return
        # Whatever goes wrong before it is sent goes wrong in the task once more, which knows what to do about it.
        with suppress(Exception):
            if self._is_waiting and self._send():
                return
        self.end()

    def _send(self) -> bool:
        """Send the answer, unless something has to be waited for before it is made or while it is sent."""
        if not self._deferred.is_poll or self._deferred.takes or self._reader.must_wait:
            return False
        answer = self._answer = self._app.answer(self._deferred, self._environ)
        if not (isinstance(answer, SharedAnswer) and self._reader.send_at_once(Answer.of(answer, self._environ))):
            return False
        self._is_waiting = False
        self._app.finish(answer, self._environ)
        return True

    async def is_gone(self, receive: Receive) -> bool:
        """Wait until there is something to do: false where there is an answer to be sent, true if the client is gone.

        To a client that was answered there is nothing more to say either.
        """
        gone = False
        try:
            await until_gone(receive)
            gone = True
        except asyncio.CancelledError:
            # Interrupted by others than `end`, or by them too: then the task is to end.
            if not self._is_interrupted or self._task.uncancel():
                raise
        finally:
            self._is_waiting = False
        # What arrives in the same moment is not for a client that is gone: a plain poll would lose it.
        return gone or (self._deferred.takes and await is_gone(receive))


async def until_gone(receive: Receive) -> None:
    """Wait until the client goes away; what is left of a body past the limit comes before that."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def is_gone(receive: Receive) -> bool:
    """Whether the client is known to be gone by now."""
    with suppress(TimeoutError):
        async with asyncio.timeout(0):
            await until_gone(receive)
            return True
    return False
