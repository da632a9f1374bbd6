"""The signs of all widgets: each state has one sign, one word and one tone, wherever it is shown."""

from __future__ import annotations

from enum import Enum, StrEnum

from mirror_sdk.frames import DriftKind


class Tone(StrEnum):
    """What a colour means; no state is told by its colour alone.

    ``BAD``: it did not work. ``WARN``: somebody should look. ``NOTE``: it is under way. ``GOOD``: as it should be.
    ``DIM``: nothing to do.
    """

    BAD = "bad"
    WARN = "warn"
    NOTE = "note"
    GOOD = "good"
    DIM = "dim"


class Mark(Enum):
    """A state as it is shown: sign, word, tone, and what it means."""

    FAILED = "✗", "failed", Tone.BAD, "the write ended with failure"
    REFUSED = "⊘", "refused", Tone.BAD, "it cannot be written, and is not sent"
    DIFFERS = "≠", "differs", Tone.WARN, "after the write the device reported something else"
    OTHER_TYPE = "≠", "other type", Tone.WARN, "what is reported is of another type than what was written"
    STALE = "◔", "stale", Tone.WARN, "nothing was heard for longer than its rhythm allows"
    UNKNOWN = "?", "unknown", Tone.WARN, "whether the write was taken is not known"
    TO_WRITE = "→", "to write", Tone.NOTE, "it will be sent"
    PENDING = "…", "pending", Tone.NOTE, "the write is on its way"
    ASLEEP = "☾", "asleep", Tone.NOTE, "the device takes the write at its next contact"
    SUCCESS = "✓", "success", Tone.GOOD, "the device took the write"
    FINE = "✓", "as asked for", Tone.GOOD, "reported is what was asked for"
    UNCONFIRMED = "?", "unconfirmed", Tone.DIM, "the device took the write and has reported nothing since"
    SILENT = "○", "never reported", Tone.DIM, "the mirror knows no value of it"
    GONE = "∅", "not registered", Tone.DIM, "the device has left, or was not heard of in time"
    SKIPPED = "↷", "skipped", Tone.DIM, "nothing is to be done, and nothing is sent"
    QUEUED = "·", "waits its turn", Tone.DIM, "it will be sent after others"
    UNSENT = "◌", "not sent", Tone.DIM, "sending ended before it"

    def __init__(self, sign: str, word: str, tone: Tone, meaning: str) -> None:
        self.sign = sign
        self.word = word
        self.tone = tone
        self.meaning = meaning

    @property
    def text(self) -> str:
        """The sign and the word."""
        return f"{self.sign} {self.word}"


OF_DRIFT = {
    DriftKind.PENDING: Mark.PENDING,
    DriftKind.FAILED: Mark.FAILED,
    DriftKind.REVERTED: Mark.DIFFERS,
    DriftKind.UNCONFIRMED: Mark.UNCONFIRMED,
    DriftKind.NEVER_REPORTED: Mark.SILENT,
    DriftKind.TYPE_MISMATCH: Mark.OTHER_TYPE,
}
"""How each kind of drift is shown."""
