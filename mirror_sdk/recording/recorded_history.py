"""The history table of a recording. Log entries that were lost or not read appear as gaps."""

from __future__ import annotations

from datetime import datetime
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc

from mirror_sdk.arrow_tables.columns import INSTANT
from mirror_sdk.arrow_tables.history import HistoryTableBuilder, history_of_events
from mirror_sdk.errors import InvalidValue
from mirror_sdk.history.history_request import up_to_millisecond
from mirror_sdk.recording.recording_content import RecordingContent
from mirror_sdk.recording.row_selection import RowSelection
from mirror_sdk.wire.model import write_timestamp


def history(
    content: RecordingContent,
    selection: RowSelection,
    *,
    begin: datetime | None,
    end: datetime | None,
    limit: int | None,
    raw: bool,
    server: str,
) -> tuple[list[pa.Table], dict[str, object]]:
    """Return the batches of the history table and its metadata.

    Args:
        content: The content of the recording.
        selection: The selected devices and resources.
        begin: The start of the period, inclusive.
        end: The end of the period, exclusive.
        limit: The maximum number of rows.
        raw: Whether to add a column with the payloads.
        server: The address of the service.

    Raises:
        InvalidValue: ``begin`` is before the start of the recording.
    """
    spans = content.spans
    from_at = spans[0].from_at if spans else None
    until_at = spans[-1].until_at if spans else None
    if begin is not None and from_at is not None and begin < from_at:
        raise InvalidValue(
            f"begin={write_timestamp(begin)} is before the recording, which starts at {write_timestamp(from_at)};"
            " pass a later begin"
        )
    table = history_of_events(
        selection.of_table(content.events),
        [(before.until_at, after.from_at) for before, after in pairwise(spans)],
        raw=raw,
    )
    parts = HistoryTableBuilder(raw=raw)
    parts.add(_between(table, begin, end).slice(0, limit))
    times = {"taken_at": until_at, "begin": begin, "end": end, "oldest_at": from_at}
    instants = {name: None if one is None else write_timestamp(one) for name, one in times.items()}
    tables, metadata = parts.finish({**instants, "server": server})
    is_covered = until_at is not None and (end is None or end <= until_at)
    return tables, {**metadata, "complete": bool(metadata["complete"]) and is_covered}


def _between(table: pa.Table, begin: datetime | None, end: datetime | None) -> pa.Table:
    """Return the rows in a period, and the gaps that overlap it."""
    changed_at = table["changed_at"]
    if begin is not None:
        is_gap = pc.equal(table["event"].cast(pa.string()), "gap")
        # A gap without a known end extends to the present.
        reaches = pc.fill_null(pc.greater(table["until"], _instant(begin)), True)
        happens = pc.greater_equal(changed_at, _instant(begin))
        table = table.filter(pc.if_else(is_gap, reaches, happens))
    if end is not None:
        table = table.filter(pc.fill_null(pc.less(table["changed_at"], _instant(end)), True))
    return table


def _instant(at: datetime) -> pa.Scalar:
    return pa.scalar(up_to_millisecond(at), INSTANT)
