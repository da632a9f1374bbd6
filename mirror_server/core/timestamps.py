"""Timestamps inside the server: whole milliseconds since the Unix epoch in UTC, as in the database."""

from __future__ import annotations

import calendar
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

Instant: TypeAlias = int
"""A time in milliseconds since 1970-01-01T00:00:00Z. The names of such values end in ``_at``."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def from_datetime(moment: datetime) -> Instant:
    """Convert an aware datetime to an instant, truncated to milliseconds."""
    return (moment - _EPOCH) // _MILLISECOND


def to_datetime(instant: Instant) -> datetime:
    """Convert an instant to an aware datetime in UTC."""
    return _EPOCH + instant * _MILLISECOND


def after_seconds(instant: Instant, seconds: float) -> Instant:
    """Return the instant that is this many seconds later."""
    return instant + round(seconds * 1000)


def months_before(instant: Instant, months: int) -> Instant:
    """Return the same day and time this many calendar months earlier, or the last day of a shorter month."""
    moment = to_datetime(instant)
    year, month_index = divmod(moment.year * 12 + moment.month - 1 - months, 12)
    day = min(moment.day, calendar.monthrange(year, month_index + 1)[1])
    return from_datetime(moment.replace(year=year, month=month_index + 1, day=day))
