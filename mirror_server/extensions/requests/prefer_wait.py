"""``Prefer: wait``, which delays the 202 response to a device request until the request has ended.

Source: wire.md 2; RFC 7240.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from flask import Response, g, request
from werkzeug.http import parse_list_header

from mirror_sdk.wire.device_requests import MAX_WAIT_SECONDS, DeviceRequestAccepted
from mirror_sdk.wire.routes import PREFER_HEADER, PREFERENCE_APPLIED_HEADER
from mirror_server.core.commands import Command
from mirror_server.core.messages import ASYNC_RESPONSES, CURSOR_EXTRAS, LogEntry, entry_json
from mirror_server.core.timestamps import Instant
from mirror_server.extensions.openapi_parameters import OF_ACCEPTED
from mirror_server.hooks import Handling, extends
from mirror_server.service.commands import CommandSubmission
from mirror_server.store.commands import CommandContext
from mirror_server.store.session import Session
from mirror_server.views.deferred_responses import DEFER, DeferredResponse
from mirror_server.views.description import TEXT, ResponseSpec, header, json_of
from mirror_server.views.responses import when_stored

if TYPE_CHECKING:
    from mirror_server.server import Services

Pending: TypeAlias = Future[LogEntry | None]
"""A future for the async response in the log. Its result is ``None`` if there is no response to wait for."""

_SECONDS = re.compile(r"[0-9]{1,9}", re.ASCII)

PREFER = header(
    PREFER_HEADER,
    "With `wait=SECONDS` (RFC 7240) the 202 is delayed until the request has ended, and includes the result. It is"
    f" delayed for at most this time, and at most {MAX_WAIT_SECONDS} s. Only with an `async-id` that was not used"
    " before. A server that cannot wait sends its 202 at once.",
)
_PREFERENCE_APPLIED = header(
    PREFERENCE_APPLIED_HEADER,
    "`wait=SECONDS` if the server waited and the response is included (RFC 7240).",
    TEXT | {"pattern": "^wait=[0-9]+$"},
)
ENDED = ResponseSpec(
    202,
    "Accepted, and on disk. With `Prefer: wait` the request may also have ended.",
    json_of(DeviceRequestAccepted, "202", "202 with the response"),
    headers=(*OF_ACCEPTED, _PREFERENCE_APPLIED),
)


class PendingResponses:
    """The requests whose 202 response is delayed, by application and async-id.

    Several requests can wait for the same response.
    """

    def __init__(self, services: Services) -> None:
        self._services = services
        self._waiting: dict[tuple[str, str], set[Pending]] = {}
        self._lock = threading.Lock()

    @extends
    def device_request(self, submission: CommandSubmission) -> Handling | None:
        """Delay the 202 response to a request that prefers to wait."""
        seconds = _read_seconds() if "async-id" in request.args else 0
        # The server waits only if this takes no thread, and only in the leader, which receives the responses of
        # devices.
        if not (seconds and DEFER in request.environ and self._services.is_leader()):
            return None
        pending, is_admitted = Pending(), g.still_admits

        def is_new(_session: Session, _context: CommandContext) -> None:
            self._add(submission.name, pending)

        def respond(stored: Future[Command], accepted: Callable[..., Response]) -> Response:
            stored.add_done_callback(partial(self._stored, submission.name, pending))

            def complete(entry: LogEntry | None = None) -> Response:
                if not stored.done():
                    # The timeout has passed, or the first request with this id has ended. The 202 response still waits
                    # for the disk.
                    return when_stored(stored, lambda _: complete(entry))
                if entry is None or not is_admitted():
                    # With an invalid key, the response has no result. It is still 202, so that the client does not
                    # repeat the request.
                    return accepted(stored.result())
                response = accepted(stored.result(), **{"async-response": entry_json(entry, CURSOR_EXTRAS)})
                response.headers[PREFERENCE_APPLIED_HEADER] = f"wait={seconds}"
                return response

            return DeferredResponse(
                pending, seconds, render=complete, expired=complete, close=pending.cancel, is_optional=True
            )

        return Handling(is_new, respond)

    @extends
    def responses_added(
        self, session: Session, app_id: str, entries: Sequence[Mapping[str, Any]], first_seq: int, at: Instant
    ) -> None:
        """Complete the requests that wait for these responses, when the responses are on disk."""
        # No lock is needed, because the same thread adds a request, in an earlier transaction.
        if not self._waiting:
            return
        for seq, entry in enumerate(entries, first_seq):
            name = (app_id, entry["id"])
            if name in self._waiting:
                response = LogEntry(seq, ASYNC_RESPONSES, dict(entry), at)
                session.after_commit(partial(self.resolve, name, response))

    def resolve(self, name: tuple[str, str], response: LogEntry | None) -> None:
        """Complete the requests that wait for a response. ``None`` means that there is no response to wait for."""
        with self._lock:
            waiting = self._waiting.pop(name, set())
        for pending in waiting:
            # The wait may have just been cancelled.
            with suppress(InvalidStateError):
                pending.set_result(response)

    def _add(self, name: tuple[str, str], pending: Pending) -> None:
        with self._lock:
            self._waiting.setdefault(name, set()).add(pending)
        # Added outside the lock, because the callback acquires the lock.
        pending.add_done_callback(partial(self._forget, name))

    def _stored(self, name: tuple[str, str], pending: Pending, stored: Future[Command]) -> None:
        error = stored.exception()
        # The client may already have disconnected.
        with suppress(InvalidStateError):
            if error is not None:
                pending.set_exception(error)
            elif pending not in self._waiting.get(name, ()) and not pending.done():
                # This is a repeated request. Its response may already be in the log, and would not arrive again.
                self.resolve(name, None)
                pending.set_result(None)

    def _forget(self, name: tuple[str, str], pending: Pending) -> None:
        with self._lock:
            waiting = self._waiting.get(name, set())
            waiting.discard(pending)
            if not waiting:
                self._waiting.pop(name, None)


def _read_seconds() -> int:
    """Return the number of seconds that the client prefers to wait.

    An invalid preference is ignored, as RFC 7240 requires.
    """
    for preference in parse_list_header(request.headers.get(PREFER_HEADER, "")):
        name, _, value = preference.partition(";")[0].partition("=")
        if name.strip().lower() == "wait":
            seconds = value.strip().strip('"')
            # If the preference is repeated, the first one counts.
            return min(int(seconds), MAX_WAIT_SECONDS) if _SECONDS.fullmatch(seconds) else 0
    return 0
