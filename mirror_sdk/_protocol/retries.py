"""Decides whether and when a request is sent again after a failure. Nothing in here waits or does I/O."""

from __future__ import annotations

import math

from mirror_sdk._protocol.backoff import Backoff
from mirror_sdk._protocol.deadline import Deadline
from mirror_sdk.errors import APIError, CallTimeout, ConnectionFailed, MirrorError

_PASSING = frozenset({429, 502, 503, 504})
"""Errors that are temporary. Others are if the service says when to try again."""
_LOST_BY_PROXY = frozenset({502, 504})
"""Errors of a proxy that lost the connection during a request, or stopped waiting: it may have arrived."""


class Retries:
    """The attempts of one call.

    Args:
        max_attempts: The maximum number of attempts.
        max_pause_seconds: The longest pause, even if the call has more time.
        deadline: The end of the call.
        backoff: How long the pauses are.
        outlasts_loss: Whether a lost connection, here or at a proxy, lifts the limit on attempts. After that, only the
            time of the call limits them.
    """

    def __init__(
        self,
        max_attempts: float,
        max_pause_seconds: float,
        deadline: Deadline,
        backoff: Backoff | None = None,
        *,
        outlasts_loss: bool = False,
    ) -> None:
        self._max_attempts = max_attempts
        self._outlasts_loss = outlasts_loss
        self._max_pause_seconds = max_pause_seconds
        self._deadline = deadline
        self._backoff = backoff or Backoff()
        self._attempts = 0

    def pause_after(self, error: MirrorError) -> float:
        """Return the seconds to wait before the next attempt.

        Raises:
            MirrorError: The error itself, if another attempt would not help, or no attempt or no time is left.
        """
        self._attempts += 1
        if not isinstance(error, APIError | ConnectionFailed):
            raise error
        error.attempts = self._attempts
        if self._outlasts_loss and _was_lost(error):
            self._max_attempts = math.inf
        requested_seconds = error.retry_after_seconds if isinstance(error, APIError) else None
        if self._attempts >= self._max_attempts or not _may_pass(error, requested_seconds):
            raise error
        pause_seconds = self._backoff.failed(requested_seconds)
        # An error now is better than the same error after a wait that the call has no time for.
        if pause_seconds > min(self._max_pause_seconds, self._deadline.max_pause):
            raise error
        return pause_seconds


def _was_lost(error: APIError | ConnectionFailed) -> bool:
    """Whether the request may have arrived without its response."""
    return error.status in _LOST_BY_PROXY if isinstance(error, APIError) else error.was_sent


def _may_pass(error: APIError | ConnectionFailed, requested_seconds: float | None) -> bool:
    if isinstance(error, APIError):
        return error.status in _PASSING or requested_seconds is not None
    return not isinstance(error, CallTimeout)
