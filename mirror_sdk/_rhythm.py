"""How often a device is heard, and whether it has been silent for too long; nothing is guessed from too little."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median_low

_FEWEST_PAUSES = 5
"""A light that was switched a few times has no rhythm."""
_ONE_CONTACT = timedelta(seconds=1)
"""What comes within it is of one contact: a device that wakes up sends several values."""
_LATE_BY = 3
"""A device is heard when a value changes, and a value may well stay twice as long as ever before."""


@dataclass(frozen=True, slots=True)
class Rhythm:
    """The pauses between the contacts that are known: the usual one, their median, and the longest one."""

    usual: timedelta
    longest: timedelta

    def is_late(self, silence: timedelta) -> bool:
        """Whether a silence is three times as long as any pause that is known."""
        return silence > _LATE_BY * self.longest


def rhythm_of(contacts: Iterable[datetime]) -> Rhythm | None:
    """The rhythm of a device that was heard at these instants; ``None`` before there are five pauses between them."""
    pauses = [later - earlier for earlier, later in pairwise(sorted(contacts)) if later - earlier >= _ONE_CONTACT]
    if len(pauses) < _FEWEST_PAUSES:
        return None
    return Rhythm(median_low(pauses), max(pauses))
