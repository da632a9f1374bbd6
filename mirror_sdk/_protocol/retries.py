"""Whether a request is sent again after a failure, and when. Nothing in here waits or does I/O."""

from __future__ import annotations

import math

from mirror_sdk._protocol.backoff import Backoff
from mirror_sdk._protocol.deadline import Deadline
from mirror_sdk.errors import APIError, CallTimeout, ConnectionFailed, MirrorError

_PASSING = frozenset({429, 502, 503, 504})
"""Refusals that mean this moment; others do where the service says when to come again."""
_LOST_BY_PROXY = frozenset({502, 504})
"""What a proxy answers that lost the connection under a request, or was tired of waiting: it may have arrived."""


class Retries:
    """The attempts of one call.

    Args:
        most_attempts: How many there may be.
        longest_pause_seconds: For how long it may be put off at most, whatever is left of the call.
        deadline: When the call ends.
        backoff: How long the pauses are.
        outlasts_loss: Whether there are as many as the call has time for, once a connection was lost under a request,
            here or at a proxy.
    """

    def __init__(
        self,
        most_attempts: float,
        longest_pause_seconds: float,
        deadline: Deadline,
        backoff: Backoff | None = None,
        *,
        outlasts_loss: bool = False,
    ) -> None:
        self._most_attempts = most_attempts
        self._outlasts_loss = outlasts_loss
        self._longest_pause_seconds = longest_pause_seconds
        self._deadline = deadline
        self._backoff = backoff or Backoff()
        self._attempts = 0

    def pause_after(self, error: MirrorError) -> float:
        """Seconds to wait before the next attempt.

        Raises:
            MirrorError: The error itself, where another attempt would not help, or there is none or no time left.
        """
        self._attempts += 1
        if not isinstance(error, APIError | ConnectionFailed):
            raise error
        error.attempts = self._attempts
        if self._outlasts_loss and _was_lost(error):
            self._most_attempts = math.inf
        asked_seconds = error.retry_after_seconds if isinstance(error, APIError) else None
        if self._attempts >= self._most_attempts or not _may_pass(error, asked_seconds):
            raise error
        pause_seconds = self._backoff.failed(asked_seconds)
        # Rather the error now than the same after a wait that the call has no time for.
        if pause_seconds > min(self._longest_pause_seconds, self._deadline.longest_pause):
            raise error
        return pause_seconds


def _was_lost(error: APIError | ConnectionFailed) -> bool:
    """Whether the request may have arrived and its answer did not."""
    return error.status in _LOST_BY_PROXY if isinstance(error, APIError) else error.was_sent


def _may_pass(error: APIError | ConnectionFailed, asked_seconds: float | None) -> bool:
    if isinstance(error, APIError):
        return error.status in _PASSING or asked_seconds is not None
    return not isinstance(error, CallTimeout)
