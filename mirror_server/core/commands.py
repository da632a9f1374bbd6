"""Commands: the operation of a device request, its expiry, retries and failures. Source: wire.md 2 and 5."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from mirror_sdk.wire.device_requests import DEFAULT_EXPIRY_SECONDS, DEFAULT_EXPIRY_SECONDS_QUEUE_MODE
from mirror_server.core.timestamps import Instant, after_seconds

DEFAULT_RETRIES_QUEUE_MODE = 2
ASYNC_ID_SECONDS = 24 * 3600
"""The time in seconds for which an async-id is reserved after the response. Source: wire.md 2."""


@dataclass(frozen=True, slots=True)
class CommandRequest:
    """The operation that an application requests from a device."""

    method: str
    path: str
    query: str | None = None
    payload: bytes | None = None
    content_type: str | None = None
    accept: str | None = None

    @property
    def is_write(self) -> bool:
        """Whether the command sets a desired value. Setting notification rules does not."""
        return self.method == "PUT" and self.query is None

    @property
    def is_idempotent(self) -> bool:
        """Whether the command may be sent twice. An execute may switch, count or restart something each time."""
        return self.method != "POST"


@dataclass(frozen=True, slots=True)
class Command:
    """An accepted command. With ``is_silent``, it has no async response.

    ``attempts`` counts the failed attempts. For a command that is not idempotent, it also counts the attempt in
    progress, and is stored before that attempt is sent. So after a crash it shows that the device may have run the
    command.
    """

    command_id: int
    app_id: str
    async_id: str
    device_id: str
    request: CommandRequest
    requested_at: Instant
    expires_at: Instant
    retries: int
    attempts: int
    is_silent: bool = False


class Failure(Enum):
    """The failure of a command to which the device did not respond, as a status and an error category."""

    EXPIRED = (429, "REQUEST_EXPIRED")
    DEREGISTERED = (429, "DEVICE_REMOVED_REGISTRATION")
    NOT_CONNECTED = (503, "NOT_CONNECTED")
    TIMEOUT = (504, "TIMEOUT")


def expires_at(requested_at: Instant, expiry_seconds: int | None, *, queue_mode: bool) -> Instant:
    """Return the time at which a command expires."""
    default = DEFAULT_EXPIRY_SECONDS_QUEUE_MODE if queue_mode else DEFAULT_EXPIRY_SECONDS
    return after_seconds(requested_at, default if expiry_seconds is None else expiry_seconds)


def retries(requested: int | None, request: CommandRequest, *, queue_mode: bool) -> int:
    """Return the number of retries after a failed attempt.

    An execute is retried only if the application requested it.
    """
    default = DEFAULT_RETRIES_QUEUE_MODE if queue_mode and request.is_idempotent else 0
    return default if requested is None else requested


def may_try_again(command: Command, now: Instant) -> bool:
    """Return whether a command whose attempt just failed may be sent again."""
    return command.attempts < command.retries and now < command.expires_at
