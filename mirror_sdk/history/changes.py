"""The changes between two times: the state at both times, and the number of reports of each resource in between."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from mirror_sdk.arrow_tables.columns import CATEGORY, INSTANT, TableColumn, schema_of, value_fields, words_at
from mirror_sdk.arrow_tables.history import has_gap
from mirror_sdk.object_definitions import lookup
from mirror_sdk.wire.model import write_timestamp

CHANGES_COLUMNS = (
    TableColumn("device_id", CATEGORY, "the device"),
    TableColumn("endpoint_name", CATEGORY, "its endpoint name"),
    TableColumn("path", CATEGORY, "resource path"),
    TableColumn("label", CATEGORY, "object and resource name; NA if undeclared"),
    TableColumn("unit", CATEGORY, "unit of ``after_num``"),
    TableColumn("before_unit", CATEGORY, "unit of ``before_num``; NA if that is NA"),
    TableColumn("before_num", pa.float64(), "the number at ``begin``; NA if it was unknown"),
    TableColumn("before_text", pa.string(), "the text at ``begin``"),
    TableColumn("before_bool", pa.bool_(), "the boolean at ``begin``"),
    TableColumn("after_num", pa.float64(), "the number at ``end``"),
    TableColumn("after_text", pa.string(), "the text at ``end``"),
    TableColumn("after_bool", pa.bool_(), "the boolean at ``end``"),
    TableColumn("observations", pa.int64(), "how many times the resource was reported in between"),
    TableColumn("first_at", INSTANT, "the time of the first of these reports"),
    TableColumn("last_at", INSTANT, "the time of the last of these reports"),
)
"""The columns of the changes table."""

CHANGES_SCHEMA = schema_of(CHANGES_COLUMNS)
"""The Arrow schema of the changes table."""

KEY = ["device_id", "path"]
_KEY_FIELDS = [pa.field(name, pa.string()) for name in KEY]

COUNTED_SCHEMA = pa.schema(
    [*_KEY_FIELDS, pa.field("observations", pa.int64()), pa.field("first_at", INSTANT), pa.field("last_at", INSTANT)]
)
"""The schema of the report counts: the number of reports of each resource, with the first and last time."""

_OF_RESOURCE = ["endpoint_name", "label", "unit"]

VALUES_SCHEMA = pa.schema(
    [
        *_KEY_FIELDS,
        *value_fields("reported"),
        *(pa.field(name, pa.string()) for name in _OF_RESOURCE),
    ]
)
"""The columns of the state tables at both times that are needed."""

_TIMES = [("changed_at", "count"), ("changed_at", "min"), ("changed_at", "max")]
_COUNTS = [("observations", "sum"), ("first_at", "min"), ("last_at", "max")]


class Counted(NamedTuple):
    """The number of reports for each resource in an interval.

    Attributes:
        rows: A table with one row for each resource.
        complete: Whether the interval has no gap, so that the numbers include every report.
    """

    rows: pa.Table
    complete: bool


class ReportCounts:
    """A counter of the reports in a history while it arrives. For each chunk, it stores a row for each resource."""

    def __init__(self) -> None:
        self._tables = [COUNTED_SCHEMA.empty_table()]
        self._complete = True

    def add(self, table: pa.Table) -> None:
        """Count the rows of a chunk of a history table."""
        self._complete = self._complete and not has_gap(table)
        reported = table.filter(pc.equal(table["event"].cast(pa.string()), "reported"))
        found = reported.select([*KEY, "changed_at"]).group_by(KEY).aggregate(_TIMES)
        self._tables.append(found.select(_made_of(_TIMES)).rename_columns(COUNTED_SCHEMA.names).cast(COUNTED_SCHEMA))

    def finish(self) -> Counted:
        """Return the total counts of all chunks."""
        found = pa.concat_tables(self._tables).group_by(KEY).aggregate(_COUNTS)
        return Counted(found.select(_made_of(_COUNTS)).rename_columns(COUNTED_SCHEMA.names), self._complete)


def _made_of(aggregations: list[tuple[str, str]]) -> list[str]:
    return [*KEY, *(f"{column}_{how}" for column, how in aggregations)]


def changes_tables(
    counted: Counted, before: pa.Table, after: pa.Table, begin: datetime, end: datetime
) -> tuple[list[pa.Table], dict[str, object]]:
    """Return the changes table with one row for each reported resource, sorted by device and path, and its metadata.

    Args:
        counted: The number of reports in the interval.
        before: The state table at the start of the interval.
        after: The state table at the end of the interval.
        begin: The start of the interval.
        end: The end of the interval.
    """
    rows = counted.rows
    for name, state in (("before", before), ("after", after)):
        values = state.select(VALUES_SCHEMA.names).cast(VALUES_SCHEMA)
        named = [one.replace("reported", name) for one in values.column_names]
        if name == "before":
            # The name and the label are those of the state at the end.
            values = values.drop_columns(["endpoint_name", "label"])
            named = [*named[: -len(_OF_RESOURCE)], "before_unit"]
        rows = rows.join(values.rename_columns(named), KEY)
    rows = rows.sort_by([(name, "ascending") for name in KEY]).combine_chunks()
    path = rows["path"].combine_chunks().dictionary_encode()
    columns = {name: rows[name] for name in rows.column_names}
    for name, attribute in (("label", "label"), ("unit", "unit"), ("before_unit", "unit")):
        declared = pa.array(
            [getattr(lookup(one), attribute, None) or None for one in path.dictionary.to_pylist()], pa.string()
        )
        columns[name] = pc.coalesce(rows[name], words_at(path.indices, declared).cast(pa.string()))
    # If there is no earlier value, there is no earlier unit.
    columns["before_unit"] = pc.if_else(pc.is_valid(rows["before_num"]), columns["before_unit"], None)
    table = pa.table({name: columns[name] for name in CHANGES_SCHEMA.names})
    metadata: dict[str, object] = {
        "begin": write_timestamp(begin),
        "end": write_timestamp(end),
        "complete": counted.complete,
    }
    return [table.combine_chunks().cast(CHANGES_SCHEMA)], metadata
