"""A reader's own position in the notification log: what to ask next, and what an answer or a failure means for it.

Nothing in here waits or does I/O. Source: wire.md 4.
"""

from __future__ import annotations

import math
from datetime import datetime

from mirror_sdk._protocol import operations as _operations
from mirror_sdk._protocol.backoff import Backoff
from mirror_sdk._protocol.operation import Operation
from mirror_sdk._protocol.operations import Poll
from mirror_sdk._visible import visible_line
from mirror_sdk.errors import (
    BadRequest,
    ChannelGone,
    ConnectionFailed,
    LimitExceeded,
    MirrorError,
    ServerError,
    UnexpectedAnswer,
)
from mirror_sdk.wire.log_entries import NOTHING, Batch, Entries, Gap

CURSOR_BEYOND_LOG = "CURSOR_BEYOND_LOG"
_CUT_SECONDS = 2.0
"""A poll that was held for longer before it failed was cut on the way."""


def poll_limit(timeout_seconds: float, remaining_seconds: float) -> float:
    """How long a poll may take, of which so much is left of a wait.

    A look is no wait, and has no limit of its own; nor has the poll of a wait without end.
    """
    if timeout_seconds <= 0 or math.isinf(remaining_seconds):
        return math.inf
    # The service holds it for whole seconds, and its answer takes some time as well.
    return math.ceil(max(0.0, remaining_seconds)) + 1


class LogCursor:
    """The position. Failures that may pass leave it where it is, so that nothing is lost by them.

    Attributes:
        seq: Number of the last entry that was read; ``None`` until the end of the log is known.
        served_at: What the last answer told of its instant; see :class:`Batch`.
        is_lost: Whether the log began anew and its end is to be asked for; that is not put off, since a program that
            only looks what is there would never find it.
        last_failure: Why the last poll failed; ``None`` when it did not.
    """

    def __init__(self, seq: int | None, backoff: Backoff) -> None:
        self.seq = seq
        self.served_at: datetime | None = None
        self.is_lost = False
        self.last_failure: MirrorError | None = None
        self._backoff = backoff

    def opening_poll(self, within_seconds: float = math.inf) -> Operation[Poll]:
        """Ask where the log ends."""
        return _operations.poll_log(None, hold_seconds=0, within_seconds=within_seconds, max_retries=None)

    def next_poll(self, hold_seconds: float, within_seconds: float = math.inf) -> Operation[Poll]:
        """Ask for what follows the position, or for the position while there is none."""
        hold_seconds = 0 if self.seq is None else hold_seconds
        return _operations.poll_log(self.seq, hold_seconds=hold_seconds, within_seconds=within_seconds)

    def answered(self, poll: Poll) -> Batch:
        """Move on behind what was read.

        Raises:
            UnexpectedAnswer: It is what was read before, or its entries have numbers that cannot be.
        """
        if poll.message and self.seq is not None and poll.cursor <= self.seq:
            raise UnexpectedAnswer(
                f"a poll for what follows entry {self.seq} was answered with entry {poll.cursor} again"
            )
        entries = Entries(poll.message)
        if fault := entries.numbering_error(self.seq, poll.cursor):
            raise UnexpectedAnswer(f"in the answer to a poll {visible_line(fault)}")
        # Not before all of it was looked at: an answer that cannot be is asked for again from the same position.
        self._backoff.succeeded()
        self.last_failure = None
        self.is_lost = False
        self.seq, self.served_at = poll.cursor, poll.served_at
        return Batch(entries, poll.cursor, poll.gap, poll.served_at)

    def pass_over(self, seq: int | None) -> bool:
        """Move on behind an entry that was told elsewhere, where it is the next one; gives whether it was."""
        if seq is None or self.seq is None or seq != self.seq + 1:
            return False
        self.seq = seq
        return True

    def failed(self, error: MirrorError, lasted_seconds: float = 0) -> tuple[Batch, float]:
        """What a failure means, and how many seconds to wait before the next poll.

        A log that is shorter than the position is a new one: its end is the new position, and that is a loss. A
        channel that was deleted is only a position; the log behind it is still there. Where what is on the way ends
        each poll that is held, the next ones are put off no longer each time: that would be for as long as nothing is
        new, and what then comes would be late.

        Args:
            error: The failure.
            lasted_seconds: How long the poll took to fail.

        Raises:
            MirrorError: The failure itself, when asking again would not help.
        """
        self.is_lost = isinstance(error, BadRequest) and error.reason == CURSOR_BEYOND_LOG
        if self.is_lost:
            self.seq = None
            # It was answered: a failure before it, such as that of a restart, is over.
            self.last_failure = None
            return Batch(gap=Gap(None, None)), self._backoff.failed()
        if lasted_seconds > _CUT_SECONDS and _may_be_cut(error):
            self._backoff.succeeded()
        if isinstance(error, LimitExceeded | ServerError):
            delay_seconds = self._backoff.failed(error.retry_after_seconds)
        elif isinstance(error, ConnectionFailed | ChannelGone):
            delay_seconds = self._backoff.failed()
        else:
            raise error
        self.last_failure = error
        return NOTHING, delay_seconds


def _may_be_cut(error: MirrorError) -> bool:
    """Whether it may come of a proxy that waits for less than a poll is held."""
    return isinstance(error, ConnectionFailed) or (isinstance(error, ServerError) and error.status == 504)
