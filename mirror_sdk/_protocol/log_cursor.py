"""The position of a reader in the notification log, with its next request and the handling of responses and failures.

This module does not wait and performs no I/O. Source: wire.md 4.
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
"""If a poll fails after this time, a proxy has probably ended it, because the service itself reports failures earlier.
"""


def poll_limit(timeout_seconds: float, remaining_seconds: float) -> float:
    """Return the maximum duration of a poll. It is infinite if the wait is endless or 0 (current entries only)."""
    if timeout_seconds <= 0 or math.isinf(remaining_seconds):
        return math.inf
    # The service holds the poll for whole seconds, and the response also takes some time.
    return math.ceil(max(0.0, remaining_seconds)) + 1


class LogCursor:
    """A position in the log. A temporary failure does not change it, so no entry is lost.

    Attributes:
        position: The number of the last entry that was read, or ``None`` until the end of the log is known.
        served_at: A time by the service's clock. All entries that the service received before that time are in the log
            up to ``position``; see :class:`~mirror_sdk.wire.log_entries.Batch`.
        last_failure: The reason why the last poll failed, or ``None`` if it succeeded.
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
        """The time in seconds until the next poll after a failure. It is 0 after a success."""
        return max(0.0, self._resume_at - self._clock())

    def opening_poll(self, within_seconds: float = math.inf) -> Operation[Poll]:
        """Return the operation that requests the end of the log."""
        # Unlike other polls, this one is retried by the sender, because the caller does not poll again.
        return _operations.poll_log(None, hold_seconds=0, within_seconds=within_seconds, max_retries=None)

    def next_poll(self, hold_seconds: float, within_seconds: float = math.inf) -> Operation[Poll]:
        """Return the operation for the entries after the position, or for the end of the log without a position."""
        hold_seconds = 0 if self.position is None else hold_seconds
        return _operations.poll_log(self.position, hold_seconds=hold_seconds, within_seconds=within_seconds)

    def accept(self, poll: Poll) -> Batch:
        """Return the entries in a response, and move the position to the last of them.

        Raises:
            UnexpectedResponse: The entries were read before, or their numbers are not valid.
        """
        if poll.message and self.position is not None and poll.cursor <= self.position:
            raise UnexpectedResponse(
                f"requested entries after {self.position}, but the service returned entry {poll.cursor} again;"
                f" {CHECK_ADDRESS}"
            )
        entries = Entries(poll.message)
        if fault := entries.numbering_error(self.position, poll.cursor):
            raise UnexpectedResponse(f"the service returned invalid entries: {visible_line(fault)}; {CHECK_ADDRESS}")
        # Only after all checks, so that the next poll repeats an invalid response from the same position.
        self._backoff.succeeded()
        self.last_failure = None
        self.position, self.served_at = poll.cursor, poll.served_at
        return Batch(entries, poll.cursor, poll.gap, poll.served_at)

    def skip_entry(self, seq: int | None) -> bool:
        """Skip an entry that arrived with a 202 if it is the next one, and return whether it was skipped."""
        # If the entry is not the next one, earlier entries are unread. The log then returns it again, after those.
        if seq is None or self.position is None or seq != self.position + 1:
            return False
        self.position = seq
        return True

    def failed(self, error: MirrorError, lasted_seconds: float = 0) -> Batch:
        """Handle a failed poll: postpone the next poll, or raise the error.

        If the log is shorter than the position, the service was reset. This is reported as a gap, and the next poll
        requests the new end without a delay. A program that does not wait would otherwise never find the new end. If
        the channel was deleted, the reader continues, because the log still exists. If a proxy interrupts each held
        poll, the pauses do not grow. Otherwise they would grow as long as no entry arrives, and delay the next entry.

        Args:
            error: The failure.
            lasted_seconds: The time in seconds after which the poll failed.

        Raises:
            MirrorError: The failure itself, if another poll would not help.
        """
        if isinstance(error, BadRequest) and error.reason == CURSOR_BEYOND_LOG:
            self.position = None
            # The service responded, so an earlier failure, such as one during a restart, is over.
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
    """Return whether the failure may come from a proxy that closes polls before the service responds to them."""
    return isinstance(error, ConnectionFailed) or (isinstance(error, ServerError) and error.status == 504)
