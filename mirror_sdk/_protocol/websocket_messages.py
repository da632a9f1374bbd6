"""Messages on the websocket of a log reader, and the errors of opening a websocket. Source: wire.md 4."""

from __future__ import annotations

import json
import math
import ssl
from collections.abc import Mapping
from typing import Any

import httpx
from websockets.exceptions import ConnectionClosed, InvalidStatus

from mirror_sdk._formatting import visible_line
from mirror_sdk._protocol.deadline import Deadline
from mirror_sdk._protocol.operation_base import Operation, hide_key, read_error_body
from mirror_sdk._protocol.operations import Poll, nothing, read_gap, read_instant
from mirror_sdk._protocol.proxy_and_tls_settings import certificates_for, proxy_for, tls_hint
from mirror_sdk.errors import (
    APIError,
    CallTimeout,
    ClientClosed,
    ConnectionFailed,
    MirrorError,
    UnexpectedResponse,
    api_error,
)
from mirror_sdk.wire import routes
from mirror_sdk.wire.log_entries import Gap

LONGEST_MESSAGE_BYTES = 64 * 1024 * 1024
# Without pings, a connection that a proxy has dropped could not be distinguished from one without new entries.
PING_SECONDS = 20
CLOSE_SECONDS = 2
_NOT_PASSED_ON = "configure the proxy or load balancer in between to forward websockets, or use long polling"


class WebsocketEndpoint:
    """The address, the access key and the proxy for opening websockets.

    Args:
        base_url: The address of the service.
        key: The access key.

    Raises:
        ConfigError: The proxy of the environment cannot be used.
    """

    def __init__(self, base_url: str, key: str) -> None:
        self._base = httpx.URL(base_url)
        self._key = key
        self._certificates: ssl.SSLContext | None = None
        proxy = proxy_for(self._base)
        self._proxy: str | None = None
        if proxy is not None:
            # The websockets library expects the credentials in the URL, from which httpx has removed them.
            user = "" if proxy.raw_auth is None else ":".join(part.decode() for part in proxy.raw_auth) + "@"
            self._proxy = f"{proxy.url.scheme}://{user}{proxy.url.netloc.decode()}"
        self.address: str = f"{base_url}{routes.WEBSOCKET_CONNECT}"

    def prepare(self) -> None:
        """Load the trusted certificates, which takes about 0.1 s.

        Raises:
            ConfigError: The certificates of the environment cannot be read.
        """
        if self._certificates is None:
            self._certificates = certificates_for(self._base)

    def url(self, after: int) -> str:
        """Return the URL of the websocket for a reader with this position."""
        scheme = "wss" if self._base.scheme == "https" else "ws"
        return f"{scheme}{self.address[len(self._base.scheme) :]}?after={after}"

    def options(self, limit_seconds: float) -> dict[str, Any]:
        """Return the further arguments of the library's ``connect``."""
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
        """Return the error for a websocket that could not be opened in time, or that has ended."""
        if isinstance(failure, TimeoutError) and isinstance(within_seconds, Deadline) and within_seconds.is_over:
            error: MirrorError = CallTimeout(f"GET {self.address}: {within_seconds.overrun}")
        else:
            error = self._error_of(failure)
        hide_key(error, self._key)
        error.__cause__ = failure
        return error

    def _error_of(self, failure: Exception) -> MirrorError:
        if isinstance(failure, InvalidStatus):
            return _rejection(failure)
        if isinstance(failure, ConnectionClosed):
            close = failure.rcvd or failure.sent
            reason = "without a reason" if close is None else f"with {close.code} {visible_line(close.reason)}".rstrip()
            return ConnectionFailed(f"the websocket {self.address} was closed {reason}")
        reason = f"{type(failure).__name__}: {visible_line(str(failure))}"
        return ConnectionFailed(f"cannot open a websocket at {self.address} ({reason}){tls_hint(failure)}")


def closed_error() -> ClientClosed:
    """Return the error for a websocket that this program has closed."""
    return ClientClosed(
        "this program closed the websocket of these events; call events() again, on a new client if this one is closed"
    )


def _rejection(failure: InvalidStatus) -> MirrorError:
    raw = failure.response
    response = httpx.Response(raw.status_code, headers=list(raw.headers.raw_items()), content=bytes(raw.body or b""))
    try:
        Operation("GET", routes.WEBSOCKET_CONNECT, nothing).finish(response)
    except APIError as error:
        if routes.REQUEST_ID_HEADER in response.headers:
            # With this header, the error comes from the service itself. Without it, the error comes from a proxy.
            return error
        body = read_error_body(response)
        body = body.model_copy(update={"message": f"{body.message}; {_NOT_PASSED_ON}"})
        return api_error(error.status, body, error.retry_after_seconds)
    except MirrorError as error:
        return error
    return UnexpectedResponse(
        f"GET {routes.WEBSOCKET_CONNECT} returned {raw.status_code} instead of a websocket; {_NOT_PASSED_ON}"
    )


def read_message(after: int, text: str | bytes) -> Poll | None:
    """Return a message for a reader with this position, or ``None`` if a poll has returned all of its entries.

    Raises:
        UnexpectedResponse: The text is not a valid message of the service.
    """
    try:
        message = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise UnexpectedResponse(f"a message of the websocket is not JSON: {exc}") from exc
    cursor = message.pop(routes.CURSOR_HEADER.lower(), None) if isinstance(message, dict) else None
    if not isinstance(cursor, int) or isinstance(cursor, bool) or not 0 <= cursor < 10**routes.MAX_SEQ_DIGITS:
        raise UnexpectedResponse(
            "a message of the websocket has no position, so this service has no notification log; use a webhook"
        )
    gap = read_gap(_text(message.pop(routes.GAP_HEADER.lower(), None)))
    served_at = read_instant(_text(message.pop(routes.TIME_HEADER.lower(), None)))
    if cursor < after or (cursor == after and message):
        return None
    # The part of the gap before the position was reported by a poll.
    if gap is not None and gap.last_seq is not None and gap.last_seq <= after:
        gap = None
    elif gap is not None and gap.first_seq is not None and gap.first_seq <= after:
        gap = Gap(after + 1, gap.last_seq)
    return Poll(cursor, _entries_after(after, message), gap, served_at)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _entries_after(after: int, message: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries whose numbers are greater than the position, and the ones that have no number."""

    def is_new(entry: object) -> bool:
        seq = entry.get("seq") if isinstance(entry, dict) else None
        return not isinstance(seq, int) or seq > after

    new = {
        key: [entry for entry in entries if is_new(entry)] if isinstance(entries, list) else entries
        for key, entries in message.items()
    }
    return {key: entries for key, entries in new.items() if entries != []}
