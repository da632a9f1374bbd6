"""What both kinds of clients have in common when they wait: the time, and saying aloud what went wrong."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from typing import Protocol

from mirror_sdk._caller import Line, warn
from mirror_sdk._inbox import Inbox
from mirror_sdk._operations import Gap
from mirror_sdk.errors import CompatibilityWarning, ConnectionFailed, GapWarning, MirrorError
from mirror_sdk.status import ClientStatus

DEFAULT_TIMEOUT_SECONDS = 30.0
DEFAULT_MAX_RETRIES = 2
DEFAULT_IDLE_SECONDS = 60.0
DEFAULT_ROTATE_BYTES = 64 * 1024 * 1024
DEFAULT_ROTATE_SECONDS = 300.0
DEFAULT_MAX_SNAPSHOT_BYTES = 2 * 1024**3
"""Of a million devices, a few more or less."""
STALE_AFTER_SECONDS = 60.0
ERRORS_KEPT = 100
LONGEST_LOOK_SECONDS = 25.0
"""For which a look at what there is goes on, where more comes as fast as it is read."""
LONGEST_PAUSE_OF_LOOK_SECONDS = 2.0
"""So that it asks past a failure or three, and past no service that is away or wants to be left alone."""


class Contact:
    """What was last heard of the service."""

    def __init__(self) -> None:
        self.last_answer_at: datetime | None = None
        self.last_failure: ConnectionFailed | None = None
        self.failures = 0

    def answered(self) -> None:
        """It answered, whatever it said."""
        self.last_answer_at = utc_now()
        self.last_failure = None
        self.failures = 0

    def failed(self, failure: ConnectionFailed) -> None:
        """There was no answer."""
        self.last_failure = failure
        self.failures += 1


def utc_now() -> datetime:
    """The present, aware."""
    return datetime.now(UTC)


def warn_of(gap: Gap | None, unreadable: Collection[str] = (), called_from: Line | None = None) -> None:
    """Say aloud what was lost, and in which lists something was not understood.

    Args:
        gap: What was lost.
        unreadable: The lists.
        called_from: The line of the program that began what reads here, for where no line of it calls now.
    """
    if gap is not None:
        missing = "all before this moment" if gap.first_seq is None else f"{gap.first_seq}-{gap.last_seq}"
        warn(
            f"entries of the notification log are gone ({missing}); read the device objects again to catch up",
            GapWarning,
            called_from,
        )
    for key in sorted(unreadable):
        warn(f"entries of {key!r} could not be read and were kept as they are", CompatibilityWarning, called_from)


class Position(Protocol):
    """How far a reader is."""

    @property
    def position(self) -> int | None: ...
    @property
    def pause_seconds(self) -> float: ...
    @property
    def last_failure(self) -> MirrorError | None: ...


def status_of(
    base_url: str, contact: Contact, reader: Position, inbox: Inbox, *, is_pushed: bool, watches: int
) -> ClientStatus:
    """How a client with these parts stands."""
    return ClientStatus(
        base_url=base_url,
        channel="webhook" if is_pushed else "long polling",
        last_answer_at=contact.last_answer_at,
        failures=contact.failures,
        last_failure=contact.last_failure or reader.last_failure,
        retry_in_seconds=reader.pause_seconds,
        position=reader.position,
        waiting=inbox.waiting,
        unclaimed=inbox.unclaimed,
        unreadable=inbox.unreadable,
        duplicates=inbox.duplicates,
        dropped=inbox.dropped,
        watches=watches,
    )
