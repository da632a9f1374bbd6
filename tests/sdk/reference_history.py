"""A reference implementation of the history analysis in plain Python: row by row, second by second."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import chain, pairwise
from typing import Any

import pandas as pd
from hypothesis import strategies as st
from resource_paths import TEMPERATURE

BEGIN = datetime(2026, 3, 2, 12, tzinfo=UTC)
"""Noon of a Monday, when bins of all ``LENGTHS`` begin."""
LENGTHS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15)
SECONDS = 40
"""Length of a generated history."""
DEVICES, PATHS = ("d1", "d2"), ("/3303/0/5700", "/3303/1/5700")
UP, DOWN = ("registration", "reg_update"), ("deregistration", "expired")


@dataclass(frozen=True)
class Row:
    """One row; instants are seconds after ``BEGIN``."""

    what: str
    device: str | None
    path: str | None
    at: int
    value: float | bool | str | None = None
    until: int | None = None
    order: int = 0
    received: int | None = None


def at(second: float) -> datetime:
    return BEGIN + timedelta(seconds=second)


def numbers() -> st.SearchStrategy[float | None]:
    return st.sampled_from([0.0, 1.5, -2.0, 0.1, None, math.nan, 1e308])


def histories(values: st.SearchStrategy[Any] | None = None) -> st.SearchStrategy[list[Row]]:
    """Generate histories: values, registrations and their ends, gaps of a device or of all, in any order.

    Some values have a time before their arrival. Some devices leave, return and report their values again.
    """
    instant = st.integers(0, SECONDS)
    device = st.sampled_from(DEVICES)
    reports = st.builds(
        lambda device_id, path, second, value, delay: Row(
            "reported", device_id, path, second, value, received=None if delay is None else second + delay
        ),
        device,
        st.sampled_from(PATHS),
        st.one_of(instant, st.sampled_from([3, 10])),
        values if values is not None else numbers(),
        st.one_of(st.sampled_from([None, 0]), st.integers(-3, 25)),
    )
    seen = st.builds(Row, st.sampled_from([*UP, *DOWN, "write"]), device, st.none(), instant)
    gap = st.builds(
        lambda device_id, begin, length: Row(
            "gap", device_id, None, begin, until=None if length is None else begin + length
        ),
        st.sampled_from([None, *DEVICES]),
        instant,
        st.one_of(st.none(), st.integers(0, 10)),
    )
    # Short lists are likely anyway, and one_of counts a repeated argument once. Without this, few values would follow
    # each other without a break.
    each = st.sampled_from([*[reports] * 12, seen, gap]).flatmap(lambda kind: kind)
    rows = st.one_of(st.lists(each, max_size=3), *[st.lists(each, min_size=size, max_size=30) for size in (8, 20)])
    back = st.builds(
        _back,
        device,
        st.sampled_from(PATHS),
        st.integers(0, SECONDS // 2),
        values if values is not None else numbers(),
        st.tuples(*[st.integers(0, 8)] * 3),
        st.sampled_from([*DOWN, "gap"]),
    )
    few = st.tuples(st.lists(each, max_size=6), st.lists(back, min_size=1, max_size=3))
    return st.one_of(
        rows.flatmap(st.permutations),
        few.flatmap(lambda both: st.permutations(both[0]).map(lambda first: [*first, *chain.from_iterable(both[1])])),
    ).map(lambda rows: [Row(**vars(row) | {"order": number}) for number, row in enumerate(rows)])


def _back(device: str, path: str, second: int, value: Any, lengths: tuple[int, ...], how: str) -> list[Row]:
    """Return a value, a following absence, and the same value with its old time afterwards."""
    begin, end, received = (second + sum(lengths[: count + 1]) for count in range(3))
    absence = [Row(how, device, None, begin), Row("registration", device, None, end)]
    return [
        Row("reported", device, path, second, value, received=second),
        *([Row("gap", None, None, begin, until=end)] if how == "gap" else absence),
        Row("reported", device, path, second, value, received=received),
    ]


def frame_of(rows: list[Row], **metadata: Any) -> pd.DataFrame:
    """Return the rows as a history table, in their order, as a user may have changed it."""

    def times(instants: list[int | None]) -> pd.Series:
        timestamps = [None if one is None else at(one) for one in instants]
        return pd.Series(pd.to_datetime(pd.Series(timestamps, dtype=object), utc=True)).dt.as_unit("ms")

    values = [row.value for row in rows]
    frame = pd.DataFrame(
        {
            "device_id": pd.Series([row.device for row in rows], dtype=object).astype("category"),
            "path": pd.Series([row.path for row in rows], dtype=object).astype("category"),
            "changed_at": times([row.at for row in rows]),
            "event": pd.Series([row.what for row in rows], dtype=object).astype("category"),
            "value_num": pd.Series([one if type(one) is float else None for one in values], dtype="Float64"),
            "value_text": pd.Series([one if isinstance(one, str) else None for one in values], dtype="string"),
            "value_bool": pd.Series([one if isinstance(one, bool) else None for one in values], dtype="boolean"),
            "revision": pd.Series([row.order for row in rows], dtype="Int64"),
            "until": times([row.until for row in rows]),
        }
    )
    if any(row.received is not None for row in rows):
        frame["received_at"] = times([row.received for row in rows])
    if metadata:
        frame.attrs["mirror"] = metadata
    return frame


class Naive:
    """A history that is evaluated instant by instant.

    Args:
        rows: Its rows.
        limit: The number of seconds that a device may be silent.
        known_until: The last second that is known; by default that of the last row.
    """

    def __init__(self, rows: list[Row], limit: int | None = None, known_until: int | None = None) -> None:
        self.rows = sorted(rows, key=lambda row: (row.at, row.order))
        self.known_until = max((row.at for row in rows), default=0) if known_until is None else known_until
        found = [interval for interval in self._intervals(limit) if interval[2] > interval[1]]
        self.intervals = [interval[:4] for interval in found]
        self._repeated_reports = self._reported_again(found)

    @property
    def resources(self) -> list[tuple[str, str]]:
        return sorted({(row.device, row.path) for row in self.rows if row.what == "reported"})

    def values(self, device: str, path: str) -> list[Row]:
        return [row for row in self.rows if row.what == "reported" and (row.device, row.path) == (device, path)]

    def steps(self, device: str, path: str) -> list[Row]:
        """Return the values of a resource, including those that became known again when they arrived."""
        again = [row for row in self._repeated_reports if (row.device, row.path) == (device, path)]
        return sorted([*self.values(device, path), *again], key=lambda row: (row.at, row.order))

    def known(self, device: str, path: str, second: int) -> float | bool | str | None:
        """Return the known value of a resource from this second to the next, or ``None``."""
        reports = [row for row in self.steps(device, path) if row.at <= second]
        if not reports or second >= self.known_until:
            return None
        last = reports[-1]
        for interval_device, begin, *_ in self.intervals:
            if interval_device in (None, device) and last.at <= begin <= second:
                return None
        return readable(last.value)

    def report_instants(self, device: str) -> list[int]:
        """Return the instants of a device's reports and of their arrival."""
        rows = [row for row in self.rows if row.device == device and row.what in ("reported", *UP)]
        return sorted([*(row.at for row in rows), *(row.received for row in rows if row.received is not None)])

    def is_absent(self, device: str, second: int, *reasons: str) -> bool:
        """Return whether a second lies in an interval of a device, or of all devices."""
        return any(
            interval_device in (None, device) and begin <= second < end and reason in reasons
            for interval_device, begin, end, reason in self.intervals
        )

    def _reported_again(self, intervals: list[tuple[str | None, int, float, str, float]]) -> list[Row]:
        """Return values that arrived after their resource had been unknown, each as if reported at its arrival."""
        again = []
        for row in self.rows:
            if row.what != "reported" or row.received is None:
                continue
            others = [one.at for one in self.values(row.device, row.path)]
            own = [one for one in intervals if one[0] in (None, row.device) and one[1] <= row.received]
            if any(row.at < other <= row.received for other in others) or all(one[1] < row.at for one in own):
                continue
            if all(end <= row.received and order < row.order for *_, end, _, order in own):
                again.append((row.at, replace(row, at=row.received)))
        return self._without_delayed(again, intervals)

    def _without_delayed(self, again: list[tuple[int, Row]], intervals: list[tuple[Any, ...]]) -> list[Row]:
        """Return the values that differ from an earlier arrival of the same report."""
        # The last of several simultaneous arrivals counts.
        last = {
            (row.device, row.path, reported_at, row.at): row
            for reported_at, row in sorted(again, key=lambda one: one[1].order)
        }
        retained = []
        for key in sorted(last):
            row = last[key]
            before = [last[one] for one in sorted(last) if one[:3] == key[:3] and one < key]
            is_new = not before or (type(before[-1].value), before[-1].value) != (type(row.value), row.value)
            if is_new or any(one[0] in (None, row.device) and before[-1].at <= one[1] <= row.at for one in intervals):
                retained.append(row)
        return retained

    def _intervals(self, limit: int | None) -> list[tuple[str | None, int, float, str, float]]:
        """Return the intervals: device, begin, end, reason, and the row with which the end arrived."""
        found = []
        for index, row in enumerate(self.rows):
            if row.what == "gap":
                found.append((row.device, row.at, math.inf if row.until is None else row.until, "gap", row.order))
            if row.what in DOWN:
                later = [one for one in self.rows[index:] if one.device == row.device and one.what in UP]
                end, order = (later[0].at, later[0].order) if later else (math.inf, row.order)
                found.append((row.device, row.at, end, row.what, order))
        for device in DEVICES if limit is not None else ():
            for one, following in pairwise([*self.report_instants(device), math.inf]):
                if following - one > limit:
                    found.append((device, one + limit, following, "silent", -math.inf))
        return found


def readable(value: float | bool | str | None) -> float | bool | str | None:
    return None if isinstance(value, float) and math.isnan(value) else value


def reports(*values: tuple[int, Any], device: str = "d1", path: str = TEMPERATURE) -> list[Row]:
    """Return rows with values at these seconds."""
    return [Row("reported", device, path, second, value, order=n) for n, (second, value) in enumerate(values)]


def limited(limit: int | None) -> str | None:
    return None if limit is None else f"{limit}s"
