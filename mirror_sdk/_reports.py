"""What both kinds of clients have in common when they wait: the time, and saying aloud what went wrong."""

from __future__ import annotations

import warnings
from datetime import UTC, datetime

from mirror_sdk._cursor import Batch
from mirror_sdk._inbox import Unreadable
from mirror_sdk.errors import CompatibilityWarning, GapWarning

DEFAULT_TIMEOUT_SECONDS = 30.0
DEFAULT_IDLE_SECONDS = 60.0
STALE_AFTER_SECONDS = 60.0
ERRORS_KEPT = 100


def utc_now() -> datetime:
    """The present, aware."""
    return datetime.now(UTC)


def warn_of(batch: Batch) -> None:
    """Say aloud what was lost and what was not understood."""
    if batch.gap is not None:
        missing = (
            "all before this moment" if batch.gap.first_seq is None else f"{batch.gap.first_seq}-{batch.gap.last_seq}"
        )
        warnings.warn(
            f"entries of the notification log are gone ({missing}); read the device objects again to catch up",
            GapWarning,
            stacklevel=2,
        )
    for key in sorted({entry.key for entry in batch.entries if isinstance(entry.body, Unreadable)}):
        warnings.warn(
            f"entries of {key!r} could not be read and were kept as they are", CompatibilityWarning, stacklevel=2
        )
