"""How long a device object is kept. Source: specification 2.1 and 8."""

from __future__ import annotations

import calendar

from mirror_server.core.instants import Instant, from_datetime, to_datetime

RETENTION_MONTHS = 6


def months_before(instant: Instant, months: int = RETENTION_MONTHS) -> Instant:
    """The same day and time of day that many calendar months earlier, or the last day of a shorter month."""
    moment = to_datetime(instant)
    year, month_index = divmod(moment.year * 12 + moment.month - 1 - months, 12)
    day = min(moment.day, calendar.monthrange(year, month_index + 1)[1])
    return from_datetime(moment.replace(year=year, month=month_index + 1, day=day))
