"""The table of a plan: one row per write that is wanted."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import pyarrow as pa

from mirror_sdk.frames.columns import build
from mirror_sdk.object_table import lookup
from mirror_sdk.plan.checks import Check, Decision, PlannedWrite
from mirror_sdk.tables.columns import CATEGORY, fixed_category, value_columns, value_fields

PLAN_SCHEMA = pa.schema(
    [
        pa.field("device_id", CATEGORY),
        pa.field("endpoint_name", CATEGORY),
        pa.field("path", CATEGORY),
        pa.field("label", CATEGORY),
        pa.field("unit", CATEGORY),
        *value_fields("current"),
        *value_fields("wanted"),
        fixed_category("decision", [decision.value for decision in Decision]),
        fixed_category("check", [check.value for check in Check]),
        pa.field("reason", pa.string()),
        pa.field("sleeps", pa.bool_()),
        pa.field("expiry_seconds", pa.int64()),
        pa.field("undoable", pa.bool_()),
    ]
)
"""The plan table."""


def plan_frame(planned: Sequence[PlannedWrite], *, server: str = "") -> pd.DataFrame:
    """The plan table: one row per write that is wanted, in their order.

    Returns:
        A frame with these columns, also when it has no rows:

        ==============  ===================  ===========================================================
        column          dtype                meaning
        ==============  ===================  ===========================================================
        device_id       category             the device
        endpoint_name   category             its endpoint name; NA for an unknown device
        path            category             resource path
        label           category             object and resource name; NA where nothing declares one
        unit            category             of the ``_num`` columns
        current_num     Float64              the number it had when the plan was made: reported, or written since
        current_text    string               the text it had then
        current_bool    boolean              the boolean it had then
        wanted_num      Float64              the number wanted
        wanted_text     string               the text wanted
        wanted_bool     boolean              the boolean wanted
        decision        category             write, skip or refuse
        check           category             one of ``Check``: why
        reason          string               the same in words, and why it cannot be undone
        sleeps          boolean              whether the device sleeps, and takes it at its next contact
        expiry_seconds  Int64                for how long it waits for its device, if ``apply`` is not told otherwise
        undoable        boolean              whether what was there before is known and can be written back
        ==============  ===================  ===========================================================

        The last three are NA where nothing is sent. Where ``check`` is ``changed``, somebody else wrote before this
        write, which ``if_match`` had refused, or after the write that this one undoes: ``current`` is what is
        there since.
    """
    definitions = [lookup(one.want.path) for one in planned]
    columns: dict[str, list[object]] = {
        "device_id": [one.want.device_id for one in planned],
        "endpoint_name": [one.endpoint_name for one in planned],
        "path": [one.want.path for one in planned],
        "label": [definition.label if definition else None for definition in definitions],
        "unit": [one.unit for one in planned],
        "decision": [one.finding.decision.value for one in planned],
        "check": [one.finding.check.value for one in planned],
        "reason": [one.finding.reason or None for one in planned],
        "sleeps": [one.sleeps if one.may_be_sent else None for one in planned],
        "expiry_seconds": [one.expiry_seconds if one.may_be_sent else None for one in planned],
        "undoable": [one.undoable if one.may_be_sent else None for one in planned],
    }
    columns |= value_columns("current", [one.before for one in planned])
    columns |= value_columns("wanted", [one.wanted for one in planned])
    return build(columns, PLAN_SCHEMA, complete=True, server=server)
