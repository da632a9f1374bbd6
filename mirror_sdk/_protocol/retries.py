"""Decisions whether and when a request is repeated after a failure. This module does not wait and performs no I/O."""

from __future__ import annotations

import math

from mirror_sdk._protocol.backoff import Backoff
from mirror_sdk._protocol.deadline import Deadline
from mirror_sdk.errors import APIError, CallTimeout, ConnectionFailed, MirrorError

_PASSING = frozenset({429, 502, 503, 504})
"""Statuses of temporary errors. An error with another status is temporary if the service sends ``Retry-After``."""
_LOST_BY_PROXY = frozenset({502, 504})
"""Statuses with which a proxy reports a lost connection or a timeout, so the request may have reached the service."""


class Retries:
    """The attempts of one request.

    Args:
        max_attempts: The maximum number of attempts.
        max_pause_seconds: The maximum pause in seconds, even if the call has more time.
        deadline: The deadline of the call.
        backoff: The lengths of the pauses.
        outlasts_loss: Whether a connection that the client or a proxy has lost removes the limit on attempts. After
            that, only the deadline limits them.
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
        """Return how many seconds to wait before the next attempt.

        Raises:
            MirrorError: The error itself, if another attempt would not help, or no attempts or no time are left.
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
        # Raising the error now is better than raising the same error after a pause that is longer than the remaining
        # time.
        if pause_seconds > min(self._max_pause_seconds, self._deadline.max_pause):
            raise error
        return pause_seconds


def _was_lost(error: APIError | ConnectionFailed) -> bool:
    """Return whether the request may have reached the service although its response was lost."""
    return error.status in _LOST_BY_PROXY if isinstance(error, APIError) else error.was_sent


def _may_pass(error: APIError | ConnectionFailed, requested_seconds: float | None) -> bool:
    if isinstance(error, APIError):
        return error.status in _PASSING or requested_seconds is not None
    return not isinstance(error, CallTimeout)
