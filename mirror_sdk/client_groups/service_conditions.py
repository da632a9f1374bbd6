"""The conditions of a scan as parameters of the service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from mirror_sdk.snapshot.device_selection import MAX_IDS_PER_URL, Selection
from mirror_sdk.sql.conditions import Intervals, hull_of, patterns_of, period_of, points_of
from mirror_sdk.sql.source import Scan
from mirror_sdk.wire.directory import STATES
from mirror_sdk.wire.snapshot import MAX_PATTERNS

_FIELDS = {"device_id": "id", "endpoint_name": "endpoint_name"}
_DEVICE_FIELDS = {**_FIELDS, "endpoint_type": "endpoint_type", "state": "state"}
_WITH_PATHS = {"history", "state", "as_of", "drift", "changes"}
_WITH_FILTERS = {*_WITH_PATHS, "devices"}
_WITH_PERIOD = {"history", "device_events"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """The conditions that limit the rows of a scan.

    Attributes:
        scan: The scan.
        selection: The devices and resources.
        begin: The first time, or ``None``.
        end: The first time after the last one, or ``None``.
    """

    scan: Scan
    selection: Selection
    begin: datetime | None
    end: datetime | None

    def to_dict(self) -> dict[str, object]:
        """Return the conditions by the names of the service's parameters."""
        selected = self.selection
        return {
            **selected.filters,
            "device_id": selected.device_ids,
            "path": selected.paths,
            "from": self.begin,
            "to": self.end,
        }


def sent_conditions(scan: Scan) -> Sent:
    """Return the conditions of a scan that the service supports."""
    conditions, view = scan.conditions, scan.view
    filters: dict[str, str] = {}
    for column, field in (_DEVICE_FIELDS if view == "devices" else _FIELDS).items():
        if column in conditions and view in _WITH_FILTERS:
            filters |= _filters(field, conditions[column])
    patterns = patterns_of(conditions["path"]) if "path" in conditions and view in _WITH_PATHS else None
    begin, end = period_of(conditions.get("changed_at")) if view in _WITH_PERIOD else (None, None)
    selection = Selection(
        filters=filters,
        device_ids=_device_ids(scan),
        paths=None if patterns is None or len(patterns) > MAX_PATTERNS else patterns,
    )
    return Sent(scan=scan, selection=selection, begin=begin, end=end)


def _device_ids(scan: Scan) -> Sequence[str] | None:
    """Return the ids of devices that are not sent as a filter, or ``None`` if the conditions are not a list of them."""
    ids = points_of(scan.conditions["device_id"]) if "device_id" in scan.conditions else None
    if ids is None or not _can_be_listed(ids):
        return None
    # A history is requested in several parts if there are more devices than a URL can contain.
    is_needed = scan.view == "device_events" or (scan.view == "history" and len(ids) > MAX_IDS_PER_URL)
    return ids if is_needed else None


def _can_be_listed(values: Sequence[str]) -> bool:
    return all(values) and "," not in "".join(values)


def _filters(field: str, intervals: Intervals) -> Mapping[str, str]:
    points = points_of(intervals)
    if field == "state" and not (points and set(points) <= set(STATES)):
        # The service rejects other words.
        return {}
    if points is not None and len(points) <= MAX_IDS_PER_URL and _can_be_listed(points):
        return {f"{field}__eq": points[0]} if len(points) == 1 else {f"{field}__in": ",".join(points)}
    low, high = hull_of(intervals)
    return {f"{field}__{name}": limit for name, limit in (("gte", low), ("lte", high)) if limit}
