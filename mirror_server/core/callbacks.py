"""When a callback is called again after a failure, and when it is given up. Source: wire.md 4."""

from __future__ import annotations

from mirror_server.core.instants import Instant, after_seconds

_LONGEST_DELAY_SECONDS = 120
_GIVE_UP_AFTER_SECONDS = 24 * 3600
_MOST_DOUBLINGS = 16


def delay_seconds(failures: int) -> int:
    """How long to wait after that many failures in a row: 1, 2, 4 ... at most 120 seconds."""
    return min(1 << min(failures - 1, _MOST_DOUBLINGS), _LONGEST_DELAY_SECONDS)


def is_given_up(failing_since: Instant, now: Instant) -> bool:
    """Whether a channel is removed: its calls have failed for 24 hours. One that had nothing to send did not fail."""
    return now >= after_seconds(failing_since, _GIVE_UP_AFTER_SECONDS)
