"""Compares the bins of every time zone with an independent computation: ``python tests/sdk/zone_bins.py [ZONE ...]``.

It takes the clock of each zone from 2000 to 2037, a quarter of an hour at a time and at every change, and prints how
many zones, changes and bins were compared, and what differs. The tests do the same with a few zones and years.
"""

import sys
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

import numpy as np
import numpy.typing as npt

from mirror_sdk.frames.questions.bins import bins_of

MINUTES = (15, 30, 60, 90, 120, 180, 360, 420, 720, 1440, 2880, 10080)
_QUARTER = 900_000
_MONDAY = datetime(1970, 1, 5)
_MILLISECOND = timedelta(milliseconds=1)
_SECOND = timedelta(seconds=1)


def changes(zone: ZoneInfo, begin: datetime, end: datetime) -> Iterator[datetime]:
    """When the clock of a zone is put forward or back."""
    while begin < end:
        low, high = begin, begin + timedelta(days=1)
        begin = high
        if _offset(zone, low) == _offset(zone, high):
            continue
        while high - low > _SECOND:
            middle = low + (high - low) // 2 // _SECOND * _SECOND
            low, high = (middle, high) if _offset(zone, middle) == _offset(zone, low) else (low, middle)
        yield high


def _offset(zone: ZoneInfo, at: datetime) -> timedelta | None:
    return at.astimezone(zone).utcoffset()


def milliseconds(at: datetime) -> int:
    return (at - datetime(1970, 1, 1, tzinfo=UTC)) // _MILLISECOND


def expected_edges(
    span: int, at: npt.NDArray[np.int64], shown: npt.NDArray[np.int64], changed: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Where bins begin: where the clock first comes to another multiple, and again where it repeats whole bins.

    Args:
        span: How long a bin is, in milliseconds.
        at: Instants, in order.
        shown: What the clock shows then, since the Monday.
        changed: Which of the instants are changes of the clock.
    """
    label = shown // span
    is_begin = np.append(True, label[1:] > np.maximum.accumulate(label)[:-1])
    latest = np.maximum.accumulate(shown)
    for place in changed:
        back = latest[place] + (at[place] - at[place - 1]) - shown[place]
        if back >= span:
            repeated = slice(place, np.searchsorted(at, at[place] + back))
            is_begin[repeated] |= shown[repeated] % span == 0
    found: npt.NDArray[np.int64] = at[is_begin]
    return found


def compare(name: str, begin: datetime, end: datetime) -> tuple[int, int, list[str]]:
    """How many changes and bins of a zone were compared, and what differs."""
    zone = ZoneInfo(name)
    # The last bin may end behind a change after the end.
    change_times = list(changes(zone, begin - timedelta(days=15), end + timedelta(days=15)))
    moments = np.array([milliseconds(one) for one in change_times], dtype=np.int64)
    first, last = milliseconds(begin), milliseconds(end)
    at = np.union1d(np.arange(first - 15 * 96 * _QUARTER, last + 15 * 96 * _QUARTER, _QUARTER), moments)
    offsets = [_offset(zone, one) or timedelta() for one in (begin - timedelta(days=15), *change_times)]
    walls = np.array([offset // _MILLISECOND for offset in offsets], dtype=np.int64)
    monday = (_MONDAY - datetime(1970, 1, 1)) // _MILLISECOND
    shown = at + walls[np.searchsorted(moments, at, side="right")] - monday
    count, wrong = 0, []
    for minutes in MINUTES:
        span = minutes * 60_000
        edges = expected_edges(span, at, shown, np.searchsorted(at, moments))
        edges = edges[np.searchsorted(edges, first, side="right") - 1 : np.searchsorted(edges, last) + 1]
        found = bins_of(span, first, last, name).edges
        count += len(edges) - 1
        if not np.array_equal(edges, found):
            differing = np.setxor1d(edges, found)
            shown_first = datetime.fromtimestamp(int(differing[0]) / 1000, UTC).astimezone(zone)
            wrong.append(f"{name}, {minutes} min: {len(differing)} edges differ, the first one is {shown_first}")
    return len(change_times), count, wrong


def main() -> int:
    begin, end = datetime(2000, 1, 1, tzinfo=UTC), datetime(2038, 1, 1, tzinfo=UTC)
    alike = defaultdict(list)
    for name in sys.argv[1:] or sorted(available_timezones()):
        zone = ZoneInfo(name)
        times = [begin, *changes(zone, begin, end)]
        alike[tuple((one, _offset(zone, one)) for one in times)].append(name)
    # Many names stand for one clock, of which the first name is compared.
    found = [compare(names[0], begin, end) for names in alike.values()]
    wrong = [line for _, _, lines in found for line in lines]
    change_count, bin_count = (sum(one[place] for one in found) for place in (0, 1))
    print(f"{sum(map(len, alike.values()))} zones with {len(found)} clocks, {change_count} changes, {bin_count} bins:")
    print(f"{len(wrong)} of {len(found) * len(MINUTES)} comparisons differ", *wrong, sep="\n")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
