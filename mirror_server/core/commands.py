"""Commands: what a device request asks for, how long it waits, and how it ends. Source: wire.md 2 and 5."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from mirror_sdk.wire.device_requests import DEFAULT_EXPIRY_SECONDS, DEFAULT_EXPIRY_SECONDS_QUEUE_MODE
from mirror_server.core.instants import Instant, after_seconds

DEFAULT_RETRIES_QUEUE_MODE = 2
ASYNC_ID_SECONDS = 24 * 3600
"""How long after its answer an async-id stands for its request. Source: wire.md 2."""


@dataclass(frozen=True, slots=True)
class CommandRequest:
    """What an application asks of a device."""

    method: str
    path: str
    query: str | None = None
    payload: bytes | None = None
    content_type: str | None = None
    accept: str | None = None

    @property
    def is_write(self) -> bool:
        """Whether the command sets a desired value; notification rules do not."""
        return self.method == "PUT" and self.query is None

    @property
    def is_idempotent(self) -> bool:
        """Whether the device may get the command twice. An execute may switch, count or restart something each time."""
        return self.method != "POST"


@dataclass(frozen=True, slots=True)
class Command:
    """A command that was accepted; of one that ``is_silent`` nobody is told how it ends.

    ``attempts`` counts the attempts that failed. For a command that is not idempotent it also counts the attempt that
    is in progress, and is stored before that is sent: after a crash it says that the device may have acted.
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
    """How a command fails without an answer of the device, as (status, error category)."""

    EXPIRED = (429, "REQUEST_EXPIRED")
    DEREGISTERED = (429, "DEVICE_REMOVED_REGISTRATION")
    NOT_CONNECTED = (503, "NOT_CONNECTED")
    TIMEOUT = (504, "TIMEOUT")


def expires_at(requested_at: Instant, expiry_seconds: int | None, *, queue_mode: bool) -> Instant:
    """The instant until which a command may wait in the queue."""
    default = DEFAULT_EXPIRY_SECONDS_QUEUE_MODE if queue_mode else DEFAULT_EXPIRY_SECONDS
    return after_seconds(requested_at, default if expiry_seconds is None else expiry_seconds)


def retries(asked: int | None, request: CommandRequest, *, queue_mode: bool) -> int:
    """How often a failed attempt is repeated. An execute is repeated only if its caller says so."""
    default = DEFAULT_RETRIES_QUEUE_MODE if queue_mode and request.is_idempotent else 0
    return default if asked is None else asked


def may_try_again(command: Command, now: Instant) -> bool:
    """Whether a command whose attempt just failed has another one left."""
    return command.attempts < command.retries and now < command.expires_at
