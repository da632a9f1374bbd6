"""The position of a reader in the notification log: the next request, and the effect of a response or a failure.

Nothing in here waits or does I/O. Source: wire.md 4.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from datetime import datetime

from mirror_sdk._formatting import visible_line
from mirror_sdk._protocol import operations as _operations
from mirror_sdk._protocol.backoff import Backoff
from mirror_sdk._protocol.operation_base import CHECK_ADDRESS, Operation
from mirror_sdk._protocol.operations import Poll
from mirror_sdk.errors import (
    APIError,
    BadRequest,
    ChannelGone,
    ConnectionFailed,
    LimitExceeded,
    MirrorError,
    ServerError,
    UnexpectedResponse,
)
from mirror_sdk.wire.log_entries import NOTHING, Batch, Entries, Gap

CURSOR_BEYOND_LOG = "CURSOR_BEYOND_LOG"
_CUT_SECONDS = 2.0
"""If a poll fails after this time, a proxy probably ended it, because failures of the service arrive sooner."""


def poll_limit(timeout_seconds: float, remaining_seconds: float) -> float:
    """Return how long one poll of a wait may take: no limit if the wait is 0 (read current entries only) or endless."""
    if timeout_seconds <= 0 or math.isinf(remaining_seconds):
        return math.inf
    # The service holds it for whole seconds, and its response takes some time as well.
    return math.ceil(max(0.0, remaining_seconds)) + 1


class LogCursor:
    """A position in the log. Temporary failures do not move the position, so no entry is lost.

    Attributes:
        position: Number of the last entry that was read; ``None`` until the end of the log is known.
        served_at: The instant before which everything up to the position is in the log, by the service's clock; see
            :class:`~mirror_sdk.wire.log_entries.Batch`.
        last_failure: Why the last poll failed; ``None`` when it did not.
    """

    def __init__(
        self,
        position: int | None = None,
        clock: Callable[[], float] = time.monotonic,
        backoff: Backoff | None = None,
    ) -> None:
        self.position: int | None = position
        self.served_at: datetime | None = None
        self.last_failure: MirrorError | None = None
        self._clock = clock
        self._backoff = backoff or Backoff()
        self._resume_at = clock()

    @property
    def has_position(self) -> bool:
        """Whether the position is known."""
        return self.position is not None

    @property
    def pause_seconds(self) -> float:
        """The seconds until the next poll after a failure; 0 after a success."""
        return max(0.0, self._resume_at - self._clock())

    def opening_poll(self, within_seconds: float = math.inf) -> Operation[Poll]:
        """Request the end of the log."""
        # Unlike other polls it is retried by the sender, because its caller does not poll again.
        return _operations.poll_log(None, hold_seconds=0, within_seconds=within_seconds, max_retries=None)

    def next_poll(self, hold_seconds: float, within_seconds: float = math.inf) -> Operation[Poll]:
        """Request the entries after the position, or the position if there is none."""
        hold_seconds = 0 if self.position is None else hold_seconds
        return _operations.poll_log(self.position, hold_seconds=hold_seconds, within_seconds=within_seconds)

    def accept(self, poll: Poll) -> Batch:
        """Move the position after the entries of a response.

        Raises:
            UnexpectedResponse: These entries were read before, or their numbers are not valid.
        """
        if poll.message and self.position is not None and poll.cursor <= self.position:
            raise UnexpectedResponse(
                f"requested entries after {self.position}, but the service returned entry {poll.cursor} again;"
                f" {CHECK_ADDRESS}"
            )
        entries = Entries(poll.message)
        if fault := entries.numbering_error(self.position, poll.cursor):
            raise UnexpectedResponse(f"the service returned invalid entries: {visible_line(fault)}; {CHECK_ADDRESS}")
        # Only after all checks: the next poll repeats an invalid response from the same position.
        self._backoff.succeeded()
        self.last_failure = None
        self.position, self.served_at = poll.cursor, poll.served_at
        return Batch(entries, poll.cursor, poll.gap, poll.served_at)

    def skip_entry(self, seq: int | None) -> bool:
        """Skip an entry that came with a 202, if it is the next entry. Return whether it was."""
        # Otherwise entries before it are unread. The log then brings this one again, after them.
        if seq is None or self.position is None or seq != self.position + 1:
            return False
        self.position = seq
        return True

    def failed(self, error: MirrorError, lasted_seconds: float = 0) -> Batch:
        """Handle a failure: postpone the next poll, or raise the error.

        A log that is shorter than the position was reset. Its end is the new position, and that is a gap. The next
        poll is not postponed then, because a program that does not wait would never find the new end. A deleted channel
        is only a position; its log still exists. If a proxy cuts each held poll, the pauses do not grow: they would
        grow for as long as nothing is new, and delay the next entry.

        Args:
            error: The failure.
            lasted_seconds: How long the poll took to fail.

        Raises:
            MirrorError: The failure itself, when another poll would not help.
        """
        if isinstance(error, BadRequest) and error.reason == CURSOR_BEYOND_LOG:
            self.position = None
            # The service responded, so an earlier failure, such as that of a restart, is over.
            self.last_failure = None
            self._resume_at = self._clock()
            return Batch(gap=Gap(None, None))
        if lasted_seconds > _CUT_SECONDS and _may_be_cut(error):
            self._backoff.succeeded()
        if not isinstance(error, LimitExceeded | ServerError | ConnectionFailed | ChannelGone):
            raise error
        retry_after = error.retry_after_seconds if isinstance(error, APIError) else None
        self._resume_at = self._clock() + self._backoff.failed(retry_after)
        self.last_failure = error
        return NOTHING


def _may_be_cut(error: MirrorError) -> bool:
    """Whether a proxy that waits for less than a poll is held may have caused the failure."""
    return isinstance(error, ConnectionFailed) or (isinstance(error, ServerError) and error.status == 504)
