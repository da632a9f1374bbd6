"""The status of a client: its last contact with the service, and its pending requests."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

from mirror_sdk._protocol.log_cursor import LogCursor
from mirror_sdk._protocol.response_matcher import ResponseMatcher
from mirror_sdk.errors import ConnectionFailed, MirrorError
from mirror_sdk.wire.model import JsonForm

Channel: TypeAlias = Literal["long polling", "webhook", "websocket"]
"""The kind of channel that delivers notifications."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientStatus(JsonForm):
    """The status of a client, which ``client.notifications.status()`` returns without sending a request.

    Attributes:
        base_url: The address of the service.
        channel: The channel that delivers notifications.
        is_channel_replaced: Whether another program with this access key has removed or replaced the webhook of this
            client. This client then reads the notification log instead. It detects the change only when a reader misses
            an entry.
        last_response_at: The time at which the service last sent a response or an error, by the clock of this machine.
        failures: The number of consecutive requests without a response.
        last_failure: The reason why the last request or poll failed, or ``None`` if it succeeded.
        retry_in_seconds: How many seconds remain until the next poll, if the last one failed.
        position: The number of the last log entry that was read for responses, or ``None`` before the first request.
        waiting: The number of device requests of this client that are waiting for their response.
        unclaimed: The number of stored responses to other requests of this key.
        unreadable: The number of entries that this version could not read.
        duplicates: The number of responses that arrived more than once.
        dropped: The number of unclaimed responses that were deleted to make room for newer ones.
        watches: The number of running watches.
    """

    base_url: str
    channel: Channel
    is_channel_replaced: bool
    last_response_at: datetime | None
    failures: int
    last_failure: MirrorError | None
    retry_in_seconds: float
    position: int | None
    waiting: int
    unclaimed: int
    unreadable: int
    duplicates: int
    dropped: int
    watches: int

    @property
    def is_connected(self) -> bool:
        """Whether the service responded to the last request."""
        return self.last_response_at is not None and self.failures == 0

    def to_dict(self) -> dict[str, Any]:
        """Return all attributes and ``is_connected`` as a dictionary that any JSON encoder accepts.

        In it, ``last_failure`` is the text of the error.
        """
        return {**JsonForm.to_dict(self), "is_connected": self.is_connected}

    def __repr__(self) -> str:
        state = "connected" if self.is_connected else f"not connected ({self.failures} failures)"
        if self.last_response_at is None and self.failures == 0:
            state = "no request yet"
        lines = [f"<ClientStatus {self.base_url}: {state}, by {self.channel}, {self.waiting} waiting"]
        if self.is_channel_replaced:
            lines.append("another program replaced the webhook, so the client reads the notification log")
        if self.last_failure is not None:
            lines.append(f"last failure: {self.last_failure}; next poll in {self.retry_in_seconds:.1f} s")
        odd = {name: getattr(self, name) for name in ("unreadable", "duplicates", "dropped") if getattr(self, name)}
        lines += [f"{count} {name}" for name, count in odd.items()]
        return ", ".join(lines) + ">"


class Contact:
    """A record of the last contact with the service."""

    def __init__(self) -> None:
        self.last_response_at: datetime | None = None
        self.last_failure: ConnectionFailed | None = None
        self.failures: int = 0

    def succeeded(self) -> None:
        """Record that the service sent a response or an error."""
        self.last_response_at = datetime.now(UTC)
        self.last_failure = None
        self.failures = 0

    def failed(self, failure: ConnectionFailed) -> None:
        """Record that a request had no response."""
        self.last_failure = failure
        self.failures += 1


def status_of(
    base_url: str,
    contact: Contact,
    reader: LogCursor,
    matcher: ResponseMatcher,
    *,
    channel: Channel,
    is_channel_replaced: bool,
    watches: int,
) -> ClientStatus:
    """Return the status of a client."""
    return ClientStatus(
        base_url=base_url,
        channel=channel,
        is_channel_replaced=is_channel_replaced,
        last_response_at=contact.last_response_at,
        failures=contact.failures,
        last_failure=contact.last_failure or reader.last_failure,
        retry_in_seconds=reader.pause_seconds,
        position=reader.position,
        waiting=matcher.waiting,
        unclaimed=matcher.unclaimed,
        unreadable=matcher.unreadable,
        duplicates=matcher.duplicates,
        dropped=matcher.dropped,
        watches=watches,
    )
