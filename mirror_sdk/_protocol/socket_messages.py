"""What comes over the websocket of a reader with a position, and the errors of making one. Source: wire.md 4."""

from __future__ import annotations

import json
import math
import ssl
from collections.abc import Mapping
from typing import Any

import httpx
from websockets.exceptions import ConnectionClosed, InvalidStatus

from mirror_sdk._protocol.deadline import Deadline
from mirror_sdk._protocol.environment import certificates_for, proxy_for, tls_hint
from mirror_sdk._protocol.operation import Operation, hide_key, read_error_body
from mirror_sdk._protocol.operations import Poll, nothing, read_gap, read_instant
from mirror_sdk._visible import visible_line
from mirror_sdk.errors import (
    APIError,
    CallTimeout,
    ClientClosed,
    ConnectionFailed,
    MirrorError,
    UnexpectedAnswer,
    api_error,
)
from mirror_sdk.wire import routes
from mirror_sdk.wire.log_entries import Gap

LONGEST_MESSAGE_BYTES = 64 * 1024 * 1024
PING_SECONDS = 20
CLOSE_SECONDS = 2
_NOT_PASSED_ON = "have what is on the way, such as a proxy, pass websockets on, or read by long polling"


class Way:
    """How a websocket is made: where it leads, with which key, and through which proxy.

    Args:
        base_url: Address of the service.
        key: The access key.

    Raises:
        ConfigError: The environment names no proxy that can be used.
    """

    def __init__(self, base_url: str, key: str) -> None:
        self._base = httpx.URL(base_url)
        self._key = key
        self._certificates: ssl.SSLContext | None = None
        proxy = proxy_for(self._base)
        self._proxy: str | None = None
        if proxy is not None:
            user = "" if proxy.raw_auth is None else ":".join(part.decode() for part in proxy.raw_auth) + "@"
            self._proxy = f"{proxy.url.scheme}://{user}{proxy.url.netloc.decode()}"
        self.place: str = f"{base_url}{routes.WEBSOCKET_CONNECT}"

    def prepare(self) -> None:
        """Load the certificates that are trusted, which takes a tenth of a second.

        Raises:
            ConfigError: Those that the environment names cannot be read.
        """
        if self._certificates is None:
            self._certificates = certificates_for(self._base)

    def url(self, after: int) -> str:
        """Where a reader with this position connects."""
        scheme = "wss" if self._base.scheme == "https" else "ws"
        return f"{scheme}{self.place[len(self._base.scheme) :]}?after={after}"

    def options(self, limit_seconds: float) -> dict[str, Any]:
        """What ``connect`` of the library takes besides."""
        return {
            "additional_headers": {"Authorization": f"Bearer {self._key}"},
            "ssl": self._certificates,
            "proxy": self._proxy,
            "compression": None,
            "open_timeout": limit_seconds,
            "ping_interval": PING_SECONDS,
            "ping_timeout": PING_SECONDS,
            "close_timeout": CLOSE_SECONDS,
            "max_size": LONGEST_MESSAGE_BYTES,
        }

    def failed(self, failure: Exception, within_seconds: float = math.inf) -> MirrorError:
        """The error for a websocket that could not be made in so many seconds, or ended."""
        if isinstance(failure, TimeoutError) and isinstance(within_seconds, Deadline) and within_seconds.is_over:
            error: MirrorError = CallTimeout(f"GET {self.place}: {within_seconds.overrun}")
        else:
            error = self._told(failure)
        hide_key(error, self._key)
        error.__cause__ = failure
        return error

    def _told(self, failure: Exception) -> MirrorError:
        if isinstance(failure, InvalidStatus):
            return _refused(failure)
        if isinstance(failure, ConnectionClosed):
            told = failure.rcvd or failure.sent
            why = "without a word" if told is None else f"with {told.code} {visible_line(told.reason)}".rstrip()
            return ConnectionFailed(f"the websocket {self.place} was closed {why}")
        why = f"{type(failure).__name__}: {visible_line(str(failure))}"
        return ConnectionFailed(f"GET {self.place}: no websocket ({why}){tls_hint(failure)}")


def closed_here() -> ClientClosed:
    """The error for a websocket that this program closed."""
    return ClientClosed("this client is closed, or reads by another channel now; ask it for events anew")


def _refused(failure: InvalidStatus) -> MirrorError:
    told = failure.response
    answer = httpx.Response(told.status_code, headers=list(told.headers.raw_items()), content=bytes(told.body or b""))
    try:
        Operation("GET", routes.WEBSOCKET_CONNECT, nothing).finish(answer)
    except APIError as error:
        if routes.REQUEST_ID_HEADER in answer.headers:
            return error
        body = read_error_body(answer)
        body = body.model_copy(update={"message": f"{body.message}; {_NOT_PASSED_ON}"})
        return api_error(error.status, body, error.retry_after_seconds)
    except MirrorError as error:
        return error
    return UnexpectedAnswer(
        f"GET {routes.WEBSOCKET_CONNECT} was answered with {told.status_code} instead of a websocket; {_NOT_PASSED_ON}"
    )


def read_message(after: int, text: str | bytes) -> Poll | None:
    """What a message tells a reader with this position; ``None`` where it read all of it before, by a poll.

    Raises:
        UnexpectedAnswer: It is not a message of such a websocket.
    """
    try:
        message = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise UnexpectedAnswer(f"a message of the websocket is not JSON: {exc}") from exc
    cursor = message.pop(routes.CURSOR_HEADER.lower(), None) if isinstance(message, dict) else None
    if not isinstance(cursor, int) or isinstance(cursor, bool) or not 0 <= cursor < 10**routes.MAX_SEQ_DIGITS:
        raise UnexpectedAnswer("a message of the websocket has no position; this service keeps no log to read")
    gap = read_gap(_text(message.pop(routes.GAP_HEADER.lower(), None)))
    told_at = read_instant(_text(message.pop(routes.TIME_HEADER.lower(), None)))
    if cursor < after or (cursor == after and message):
        return None
    if gap is not None and gap.last_seq is not None and gap.last_seq <= after:
        gap = None
    elif gap is not None and gap.first_seq is not None and gap.first_seq <= after:
        gap = Gap(after + 1, gap.last_seq)
    return Poll(cursor, _behind(after, message), gap, told_at)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _behind(after: int, message: Mapping[str, Any]) -> dict[str, Any]:
    """The entries with greater numbers; where none is told, all."""

    def is_new(entry: object) -> bool:
        seq = entry.get("seq") if isinstance(entry, dict) else None
        return not isinstance(seq, int) or seq > after

    new = {
        key: [entry for entry in entries if is_new(entry)] if isinstance(entries, list) else entries
        for key, entries in message.items()
    }
    return {key: entries for key, entries in new.items() if entries != []}
