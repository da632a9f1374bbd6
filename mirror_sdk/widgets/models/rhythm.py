"""Which values are stale, by the rhythm in which their resources report: learnt from the tables that are read."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

import pandas as pd

from mirror_sdk.frames.stale import is_sent, silent_rows
from mirror_sdk.wire.directory import Device

PAUSES_NEEDED = 3
"""How many pauses tell a rhythm."""


@dataclass(slots=True)
class _Seen:
    """When a resource reported last, and its pauses before that, in milliseconds."""

    at: int
    longest: int = 0
    pauses: int = 0


class Rhythms:
    """The rhythms of a widget's resources; any thread may ask.

    Args:
        stale_after_seconds: What silence is never too long; see :func:`mirror_sdk.frames.stale.silent_rows`.

    Raises:
        ValueError: ``stale_after_seconds`` is not above 0.
    """

    def __init__(self, stale_after_seconds: float | None = None) -> None:
        if stale_after_seconds is not None and not stale_after_seconds > 0:
            raise ValueError(f"stale_after_seconds={stale_after_seconds} is no age; give seconds above 0")
        self._least = None if stale_after_seconds is None else timedelta(seconds=stale_after_seconds)
        self._seen: dict[tuple[str, str], _Seen] = {}
        self._lock = threading.Lock()

    def stale(self, state: pd.DataFrame, devices: Iterable[Device]) -> pd.Series:
        """Which rows of a state table with ``raw=True`` have a stale value; the table tells more of the rhythms.

        Args:
            state: What was read last.
            devices: The directory, for when devices were heard.
        """
        contacts = {device.id: device.last_contact_at for device in devices if device.last_contact_at is not None}
        return silent_rows(state, contacts=contacts, longest_pauses=self._longest_pauses(state), least=self._least)

    def _longest_pauses(self, state: pd.DataFrame) -> pd.Series:
        """The longest pause between two reports of each row's resource; ``NaT`` where too few were seen."""
        told = state[is_sent(state) & state["reported_at"].notna()]
        times = told["reported_at"].astype("datetime64[ms, UTC]").astype("int64")
        with self._lock:
            longest = list(map(self._note, zip(told["device_id"], told["path"], strict=True), times))
        milliseconds = pd.Series(longest, index=told.index, dtype="float64")
        return pd.to_timedelta(milliseconds, unit="ms").reindex(state.index)

    def _note(self, key: tuple[str, str], at: int) -> int | None:
        seen = self._seen.setdefault(key, _Seen(at))
        if at > seen.at:
            seen.longest = max(seen.longest, at - seen.at)
            seen.pauses += 1
            seen.at = at
        return seen.longest if seen.pauses >= PAUSES_NEEDED else None
