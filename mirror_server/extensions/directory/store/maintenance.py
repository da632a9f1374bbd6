"""Maintenance of the directory's tables: descriptions, saved queries and device events."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace
from urllib.parse import parse_qsl, urlencode

from mirror_sdk.wire.directory import ATTRIBUTE_FILTER, FILTER_OPERATORS
from mirror_server.core.timestamps import Instant
from mirror_server.extensions.directory.store import descriptions, device_events, device_queries
from mirror_server.store.session import Session

VIOLATIONS = {
    "a device event has an unknown kind": (
        f"SELECT CAST(revision AS TEXT) FROM device_events WHERE kind < 0 OR kind >= {len(device_events.KINDS)}"
    ),
    "a device event has a larger revision than the last change": (
        "SELECT CAST(revision AS TEXT) FROM device_events WHERE revision > (SELECT last_revision FROM revisions)"
    ),
    "a device has attributes without the time of their change": (
        "SELECT device_id || ' ' || name FROM device_attributes"
        " WHERE device_id NOT IN (SELECT device_id FROM device_descriptions)"
    ),
}
"""The kinds of violations, each with a statement that returns one row per violation."""

_OPERATOR = re.compile(rf"__(?:{'|'.join(FILTER_OPERATORS)})\Z")


def erase(session: Session, device_id: str, name: str | None) -> dict[str, int]:
    """Delete all data of a device, and return the number of rows by table. ``name`` is its endpoint name."""
    # The queries are erased first, because this needs the description.
    queries = _erase_queries(session, device_id, name)
    rows = {
        table: session.run(f"DELETE FROM {table} WHERE device_id = :device_id", device_id=device_id)
        for table in ("device_attributes", "device_descriptions", "device_events")
    }
    return rows | {"device_queries": queries}


def newest_instant(session: Session) -> Instant | None:
    """Return the time of the newest device event, or ``None`` if there are no events."""
    instant: Instant | None = session.scalar("SELECT max(at) FROM device_events")
    return instant


def _erase_queries(session: Session, device_id: str, name: str | None) -> int:
    """Remove a device from the saved filters that identify it, and return the number of these filters.

    A device is identified by its names, its description, and attribute values that no other device has. If a condition
    would become empty, the filter is deleted, because without the condition it would select other devices. In the name
    of a filter, the names of the device are replaced.
    """
    description = descriptions.of_device(session, device_id)
    names = {each for each in (device_id, name, description.name) if each is not None}
    own = {
        f"{ATTRIBUTE_FILTER}__{attribute}": value
        for attribute, value in description.attributes.items()
        if not descriptions.is_with_others(session, device_id, attribute, value)
    }
    mention = re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, sorted(names)))})(?![\w-])")
    erased = 0
    for row in device_queries.list_all(session):
        conditions = parse_qsl(row.query, keep_blank_values=True)
        remaining = [
            (field, _without(value, {*names, description.description, own.get(_OPERATOR.sub("", field))}))
            for field, value in conditions
        ]
        new_name = mention.sub(f"({row.query_id})", row.name)
        if remaining == conditions and new_name == row.name:
            continue
        erased += 1
        if any(value == "" != before for (_, before), (_, value) in zip(conditions, remaining, strict=True)):
            device_queries.delete(session, row.query_id)
        else:
            query = row.query if remaining == conditions else urlencode(remaining, safe=",")
            device_queries.put(session, replace(row, name=new_name, query=query))
    return erased


def _without(value: str, names: Collection[str | None]) -> str:
    return "" if value in names else ",".join(each for each in value.split(",") if each not in names)
