"""The values that were reported in the last hours.

They come from the history of the service, or else from the notification log.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import compress
from typing import TYPE_CHECKING

import numpy as np

from mirror_sdk._client import MirrorClient
from mirror_sdk.errors import AccessDenied, BeforeHistory, NotFound
from mirror_sdk.events import Event
from mirror_sdk.values import Value, ValueKind
from mirror_sdk.values.display import display_value
from mirror_sdk.widgets.models.earlier_events import read_log
from mirror_sdk.widgets.models.formatting import MAX_VALUE_LENGTH

if TYPE_CHECKING:
    import pandas as pd

MOST_ROWS = 200_000
"""The maximum number of rows to read. If there are more, the newest part of the interval is read."""
_SHORTEST = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class PastValues:
    """Reported values, with one row for each value.

    Attributes:
        device_ids: The device id of each row.
        paths: The resource path of each row.
        at: The time of each row, in milliseconds since 1970.
        numbers: The number of each row. It is 1 or 0 for a boolean, and NaN for any other value.
        texts: The value of each row as a string, including booleans. It is ``None`` for a number.
        begin: The start of the interval that was read.
        is_history: Whether the rows come from the history of the service. Otherwise they come from the notification
            log, which contains only values that this application was notified of.
    """

    device_ids: Sequence[str]
    paths: Sequence[str]
    at: np.ndarray
    numbers: np.ndarray
    texts: Sequence[str | None]
    begin: datetime
    is_history: bool

    def where(self, is_included: Sequence[bool]) -> PastValues:
        """Return only the rows for which ``is_included`` is true."""
        mask = np.array(is_included, dtype=bool)
        return replace(
            self,
            device_ids=list(compress(self.device_ids, mask)),
            paths=list(compress(self.paths, mask)),
            at=self.at[mask],
            numbers=self.numbers[mask],
            texts=list(compress(self.texts, mask)),
        )


def read_past_values(
    client: MirrorClient, devices: Sequence[str], paths: Sequence[str], end: datetime, length: timedelta
) -> PastValues:
    """Read the values of resources in an interval with one request for all devices.

    If the interval has more than :data:`MOST_ROWS` rows, it is read again from a later start.

    Args:
        client: The client of the mirror.
        devices: The device ids. If empty, all devices are included.
        paths: The resource paths. If empty, all resources are included.
        end: The end of the interval, by the mirror's clock.
        length: The length of the interval.

    Raises:
        MirrorError: The service does not respond, or it rejects a path.
    """
    try:
        begin, frame = _read_history(client, devices, paths, end, end - length)
    except (AccessDenied, NotFound):
        return _from_log(client, frozenset(devices), frozenset(paths), end - length)
    return _from_history(frame, begin)


def point_of(value: Value | None) -> tuple[float, str | None] | None:
    """Return the number and the text of a value, as in :class:`PastValues`.

    The result is ``None`` if there is no value.
    """
    if value is None or value.kind is ValueKind.NONE:
        return None
    python = value.python
    if isinstance(python, (int, float)):
        return float(python), display_value(value) if isinstance(python, bool) else None
    return float("nan"), display_value(value, longest=MAX_VALUE_LENGTH)


def milliseconds(at: datetime) -> int:
    """Convert a datetime to milliseconds since 1970."""
    return round(at.timestamp() * 1000)


def _read_history(
    client: MirrorClient, devices: Sequence[str], paths: Sequence[str], end: datetime, begin: datetime
) -> tuple[datetime, pd.DataFrame]:
    while True:
        try:
            frame = client.history(devices or None, paths or None, begin=begin, end=end, limit=MOST_ROWS)
        except BeforeHistory as error:
            if error.oldest_at is None or not begin < error.oldest_at < end:
                raise
            begin = error.oldest_at
            continue
        # The limit omits the last devices instead of the oldest rows.
        if len(frame) < MOST_ROWS or end - begin < _SHORTEST:
            return begin, frame
        begin = end - (end - begin) / 4


def _from_history(frame: pd.DataFrame, begin: datetime) -> PastValues:
    rows = frame[(frame["event"] == "reported") & frame["device_id"].notna() & frame["path"].notna()]
    numbers = rows["value_num"].fillna(rows["value_bool"].astype("Float64")).to_numpy("float64", na_value=np.nan)
    words = rows["value_bool"].map({True: "true", False: "false"}).astype("string")
    texts = rows["value_text"].fillna(words).astype(object)
    texts = texts.where(texts.notna(), None)
    at = rows["changed_at"].astype("datetime64[ms, UTC]").astype("int64").to_numpy()
    return PastValues(list(rows["device_id"]), list(rows["path"]), at, numbers, list(texts), begin, is_history=True)


def _from_log(client: MirrorClient, devices: frozenset[str], paths: frozenset[str], begin: datetime) -> PastValues:
    def is_selected(event: Event) -> bool:
        if None in (event.device_id, event.path) or event.value is None or time_of(event) < begin:
            return False
        return (not devices or event.device_id in devices) and (not paths or event.path in paths)

    events, _ = read_log(client, is_selected, MOST_ROWS)
    return from_events(events, begin)


def from_events(events: Iterable[Event], begin: datetime) -> PastValues:
    """Return the values of those events that have a device and a path."""
    rows = [(event, point) for event in events if (point := point_of(event.value)) is not None]
    return PastValues(
        [str(event.device_id) for event, _ in rows],
        [str(event.path) for event, _ in rows],
        np.array([milliseconds(time_of(event)) for event, _ in rows], dtype="int64"),
        np.array([number for _, (number, _) in rows], dtype="float64"),
        [text for _, (_, text) in rows],
        begin,
        is_history=False,
    )


def time_of(event: Event) -> datetime:
    """Return the time of an event by the device's clock, or else the time of its receipt."""
    return (event.changed_at or event.received_at).astimezone(UTC)
