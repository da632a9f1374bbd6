"""Saying aloud which entries of the notification log were lost or could not be read."""

from __future__ import annotations

from collections.abc import Collection

from mirror_sdk._caller import SourceLine, warn
from mirror_sdk.errors import CompatibilityWarning, GapWarning
from mirror_sdk.wire.log_entries import Gap, count_missing


def warn_of(gap: Gap | None, unreadable: Collection[str] = (), called_from: SourceLine | None = None) -> None:
    """Say aloud what was lost, and in which lists something was not understood.

    Args:
        gap: What was lost.
        unreadable: The lists.
        called_from: The line of the program that began what reads here, for where no line of it calls now.
    """
    if gap is not None:
        missing = "all before this moment" if gap.first_seq is None else f"{gap.first_seq}-{gap.last_seq}"
        if gap.first_seq is not None and count_missing(gap.first_seq, gap.last_seq) is None:
            missing = f"those from {gap.first_seq} on: the service went back to an earlier state"
        warn(
            f"entries of the notification log are gone ({missing}); read the device objects again to catch up",
            GapWarning,
            called_from,
        )
    for key in sorted(unreadable):
        warn(f"entries of {key!r} could not be read and were kept as they are", CompatibilityWarning, called_from)
