"""The detection of stale values by the reporting intervals of their resources.

The intervals are determined from the tables that are read.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

import pandas as pd

from mirror_sdk.frames.staleness import is_sent, silent_rows
from mirror_sdk.wire.directory import Device

PAUSES_NEEDED = 3
"""The minimum number of pauses between reports that is needed to determine a reporting interval."""


@dataclass(slots=True)
class _Reports:
    """The time of the last report of a resource, and the pauses before it, in milliseconds."""

    at: int
    longest: int = 0
    pauses: int = 0


class ReportingIntervals:
    """The reporting intervals of a widget's resources. Any thread may use the object.

    Args:
        stale_after_seconds: The silence in seconds up to which a resource is never stale; see
            :func:`mirror_sdk.frames.staleness.silent_rows`.

    Raises:
        ValueError: ``stale_after_seconds`` is not above 0.
    """

    def __init__(self, stale_after_seconds: float | None = None) -> None:
        if stale_after_seconds is not None and not stale_after_seconds > 0:
            raise ValueError(f"stale_after_seconds must be above 0, got {stale_after_seconds}")
        self._least = None if stale_after_seconds is None else timedelta(seconds=stale_after_seconds)
        self._reports: dict[tuple[str, str], _Reports] = {}
        self._lock = threading.Lock()

    def stale(self, state: pd.DataFrame, devices: Iterable[Device]) -> pd.Series:
        """Return which rows of a state table have a stale value, and update the intervals from the table.

        The table must have been read with ``raw=True``.

        Args:
            state: The newest state table.
            devices: The directory, which supplies the last contacts.
        """
        contacts = {device.id: device.last_contact_at for device in devices if device.last_contact_at is not None}
        return silent_rows(state, contacts=contacts, longest_pauses=self._longest_pauses(state), least=self._least)

    def _longest_pauses(self, state: pd.DataFrame) -> pd.Series:
        """Return the longest pause between two reports of the resource of each row.

        It is ``NaT`` if there are too few reports.
        """
        sent = state[is_sent(state) & state["reported_at"].notna()]
        times = sent["reported_at"].astype("datetime64[ms, UTC]").astype("int64")
        with self._lock:
            longest = list(map(self._longest_pause, zip(sent["device_id"], sent["path"], strict=True), times))
        milliseconds = pd.Series(longest, index=sent.index, dtype="float64")
        return pd.to_timedelta(milliseconds, unit="ms").reindex(state.index)

    def _longest_pause(self, key: tuple[str, str], at: int) -> int | None:
        reports = self._reports.setdefault(key, _Reports(at))
        # Tables that several threads have read may arrive out of order.
        if at > reports.at:
            reports.longest = max(reports.longest, at - reports.at)
            reports.pauses += 1
            reports.at = at
        return reports.longest if reports.pauses >= PAUSES_NEEDED else None
