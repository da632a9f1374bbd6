"""The statuses that widgets display. Each status has the same sign, word and tone everywhere."""

from __future__ import annotations

from enum import Enum, StrEnum

from mirror_sdk.frames import DriftKind


class Tone(StrEnum):
    """The meaning of a color. No status is displayed by its color alone.

    - ``BAD``: it failed.
    - ``WARN``: it needs attention.
    - ``NOTE``: it is in progress.
    - ``GOOD``: it is as expected.
    - ``DIM``: it needs no action.
    """

    BAD = "bad"
    WARN = "warn"
    NOTE = "note"
    GOOD = "good"
    DIM = "dim"


class Status(Enum):
    """A displayed status, with a sign, a word, a tone, and a meaning."""

    FAILED = "✗", "Failed", Tone.BAD, "the write failed"
    REJECTED = "⊘", "Rejected", Tone.BAD, "the resource cannot be written, so the write is not sent"
    DRIFTING = "≠", "Drifting", Tone.WARN, "the desired and the reported value differ"
    STALE = "◔", "Stale", Tone.WARN, "no value was received for longer than its reporting interval allows"
    UNKNOWN = "?", "Unknown", Tone.WARN, "it is unknown whether the service accepted the write"
    TO_WRITE = "→", "To write", Tone.NOTE, "the write will be sent"
    PENDING = "…", "Pending", Tone.NOTE, "the write has not ended yet"
    ASLEEP = "☾", "Asleep", Tone.NOTE, "the device receives the write at its next contact"
    SUCCESS = "✓", "Success", Tone.GOOD, "the device accepted the write"
    IN_SYNC = "✓", "In sync", Tone.GOOD, "the reported values are the desired ones"
    UNCONFIRMED = "?", "Unconfirmed", Tone.DIM, "the device accepted the write, and has reported nothing since"
    NEVER_REPORTED = "○", "Never reported", Tone.DIM, "the mirror has no value"
    OFFLINE = "∅", "Offline", Tone.DIM, "the device is not registered"
    SKIPPED = "↷", "Skipped", Tone.DIM, "there is nothing to do, and nothing is sent"
    QUEUED = "·", "Queued", Tone.DIM, "the write will be sent after others"
    UNSENT = "◌", "Not sent", Tone.DIM, "sending ended before it"

    def __init__(self, sign: str, word: str, tone: Tone, meaning: str) -> None:
        self.sign = sign
        self.word = word
        self.tone = tone
        self.meaning = meaning

    @property
    def text(self) -> str:
        """The sign and the word of the status."""
        return f"{self.sign} {self.word}"


DRIFT_STATUS = {
    DriftKind.PENDING: Status.PENDING,
    DriftKind.FAILED: Status.FAILED,
    DriftKind.REVERTED: Status.DRIFTING,
    DriftKind.TYPE_MISMATCH: Status.DRIFTING,
    DriftKind.UNCONFIRMED: Status.UNCONFIRMED,
    DriftKind.NEVER_REPORTED: Status.NEVER_REPORTED,
}
"""The status of a resource for each kind of drift."""
