"""The events table, one row per entry of the notification log. Source: specification 6; wire.md 5."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from mirror_sdk.events import Event
from mirror_sdk.frames.columns import frame_of
from mirror_sdk.tables.columns import taken_apart
from mirror_sdk.tables.events import parts_of


def events_frame(
    events: Iterable[Event], *, raw: bool = False, tz: str | None = None, server: str = ""
) -> pd.DataFrame:
    """The events table: one row per event, in their order. A loss is a row too, with ``event`` ``gap``.

    Args:
        events: Events, such as ``client.events()`` gives; all are taken.
        raw: Whether the payloads stand in ``value_raw``.
        tz: Time zone of the time columns, such as ``Europe/Berlin``; UTC by default.
        server: Where the events came from.

    Returns:
        A frame with these columns, also when it has no rows:

        ==============  ===================  ===========================================================
        column          dtype                meaning
        ==============  ===================  ===========================================================
        seq             Int64                number of the entry in the log; of a gap, the last missing one
        first_seq       Int64                of a gap, the first missing number
        uid             string               the entry's identity, the same however often it is read
        event           category             one of ``EventKind``
        device_id       category             the device it is about
        endpoint_name   category             the name that device registers with
        path            category             the resource path it is about
        unit            category             of ``value_num``, as declared; the client's table adds resource 5701
        value_num       Float64              a number, rounded to the nearest float past 2**53
        value_text      string               a text, an object link, a time in RFC 3339; or JSON by instance id:
                                             ``{"0": 3800, "1": 5000}`` of a multiple resource
        value_bool      boolean              a boolean
        value_kind      category             what the value is: one of ``ValueKind``
        changed_at      datetime64[ms, UTC]  when the value changed, as the device tells it, or it happened
        received_at     datetime64[ms, UTC]  when this client received it, by its own clock
        async_id        string               the device request an async response belongs to
        status          Int16                status of an async response
        category        category             why a device request failed
        value_raw       object               payload (bytes), with ``raw=True`` only
        ==============  ===================  ===========================================================

        ``attrs["mirror"]`` holds ``taken_at``, the newest ``changed_at``, ``devices``, how many they are about,
        ``complete``, false when something was lost, ``server``, and of what ``client.events()`` gave ``position``, the
        number to go on behind.

    Raises:
        ValueRefused: ``tz`` is no time zone.

    Source: specification 6; wire.md 5.
    """
    tables, about = parts_of(events, raw=raw).finish(server=server, position=getattr(events, "position", None))
    return frame_of(taken_apart(tables), about, tz=tz)
