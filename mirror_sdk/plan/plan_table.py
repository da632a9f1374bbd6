"""The plan table, with one row per requested write."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import pyarrow as pa

from mirror_sdk.arrow_tables.columns import CATEGORY, TableColumn, Words, schema_of, value_columns
from mirror_sdk.frames.columns import build
from mirror_sdk.object_definitions import lookup
from mirror_sdk.plan.checks import Check, Decision, PlannedWrite

PLAN_COLUMNS = (
    TableColumn("device_id", CATEGORY, "the device"),
    TableColumn("endpoint_name", CATEGORY, "its endpoint name; NA for an unknown device"),
    TableColumn("path", CATEGORY, "resource path"),
    TableColumn("label", CATEGORY, "object and resource name; NA without a declaration"),
    TableColumn("unit", CATEGORY, "unit of the ``_num`` columns"),
    TableColumn(
        "current_num",
        pa.float64(),
        "the current number when the plan was made: the reported one, or one written successfully after that report",
    ),
    TableColumn("current_text", pa.string(), "the current text"),
    TableColumn("current_bool", pa.bool_(), "the current boolean"),
    TableColumn("wanted_num", pa.float64(), "the requested number"),
    TableColumn("wanted_text", pa.string(), "the requested text"),
    TableColumn("wanted_bool", pa.bool_(), "the requested boolean"),
    TableColumn("decision", Words([decision.value for decision in Decision]), "one of ``Decision``"),
    TableColumn("check", Words([check.value for check in Check]), "the reason, one of ``Check``"),
    TableColumn("reason", pa.string(), "the reason in words, and why the write cannot be undone"),
    TableColumn("sleeps", pa.bool_(), "whether the device sleeps, and receives the write at its next contact"),
    TableColumn("expiry_seconds", pa.int64(), "how long the write may wait, unless ``apply`` sets another time"),
    TableColumn("undoable", pa.bool_(), "whether the earlier value is known and can be written again"),
)
"""The columns of the plan table."""

PLAN_SCHEMA = schema_of(PLAN_COLUMNS)
"""The schema of the plan table."""


def plan_frame(planned: Sequence[PlannedWrite], *, server: str = "") -> pd.DataFrame:
    """Return the plan table with one row per requested write, in their order; see :attr:`mirror_sdk.Plan.frame`."""
    definitions = [lookup(one.path) for one in planned]
    columns: dict[str, list[object]] = {
        name: [getattr(one, name) for one in planned]
        for name in ("device_id", "endpoint_name", "path", "unit", "decision", "check")
    }
    columns |= {
        name: [getattr(one, name) if one.may_be_sent else None for one in planned]
        for name in ("sleeps", "expiry_seconds", "undoable")
    }
    columns["label"] = [definition.label if definition else None for definition in definitions]
    columns["reason"] = [one.reason or None for one in planned]
    columns |= value_columns("current", [one.before for one in planned])
    columns |= value_columns("wanted", [one.requested for one in planned])
    return build(columns, PLAN_SCHEMA, complete=True, server=server)
