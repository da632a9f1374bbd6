"""Warnings about lost or unreadable entries of the notification log."""

from __future__ import annotations

from collections.abc import Collection

from mirror_sdk._warnings import SourceLine, warn
from mirror_sdk.errors import CompatibilityWarning, GapWarning
from mirror_sdk.wire.log_entries import Gap, count_missing


def warn_of_gap(gap: Gap | None, unreadable: Collection[str] = (), called_from: SourceLine | None = None) -> None:
    """Warn about a gap in the log, and about lists with unreadable entries.

    Args:
        gap: The lost entries.
        unreadable: The names of the lists with unreadable entries.
        called_from: The line of the program that started the reader, which is used if no line of the program is calling
            this package.
    """
    if gap is not None:
        missing = "all earlier entries" if gap.first_seq is None else f"{gap.first_seq}-{gap.last_seq}"
        if gap.first_seq is not None and count_missing(gap.first_seq, gap.last_seq) is None:
            missing = f"those from {gap.first_seq} on: the service was restored to an earlier state"
        warn(
            f"entries of the notification log were lost ({missing}); read the device objects again to catch up",
            GapWarning,
            called_from,
        )
    for key in sorted(unreadable):
        warn(
            f"entries of {key!r} could not be read, so the client returns them unchanged; a newer client may read them",
            CompatibilityWarning,
            called_from,
        )
