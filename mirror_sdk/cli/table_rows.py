"""The rows of pandas tables for the output of commands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

# Imported before pandas. If pandas is missing, its error says how to install it.
from mirror_sdk.frames import value_column

# isort: split
import pandas as pd

from mirror_sdk._formatting import display_names
from mirror_sdk.cli.group import in_words_of_the_shell
from mirror_sdk.cli.output import OutputFormat, Row
from mirror_sdk.frames.requests import RequestStatus
from mirror_sdk.object_definitions import ResourceType, lookup
from mirror_sdk.plan.checks import Decision
from mirror_sdk.values import written

DRIFT_COLUMNS = ["device", "path", "desired", "reported", "kind", "since", "age"]
DRIFT_COLUMNS_FOR_PROGRAMS = [*DRIFT_COLUMNS, "desired_revision"]
PLAN_COLUMNS = ["device", "path", "current", "wanted", "decision", "check", "expiry_seconds", "undoable", "reason"]
RESULT_COLUMNS = ["device", "path", "requested", "status", "category", "latency", "reason"]
HISTORY_COLUMNS = ["at", "path", "event", "value", "unit", "origin", "status", "category", "until", "reason"]
_NAMES_IN_TABLE = {"at": "changed_at"}


def table_rows(
    frame: pd.DataFrame, columns: Sequence[str], form: OutputFormat, names: pd.DataFrame | None = None
) -> list[Row]:
    """Return the rows of a table, with these columns.

    Args:
        frame: A drift, plan, requests or history table.
        columns: One of the lists of columns in this module.
        form: The format of the output. JSON has typed values. The other formats have strings as in ``mirror get``.
        names: A table with the endpoint names of the devices. The default is ``frame`` itself.
    """
    cells = [_cells(frame, name, form, frame if names is None else names) for name in columns]
    return [dict(zip(columns, row, strict=True)) for row in zip(*cells, strict=True)]


def _cells(frame: pd.DataFrame, name: str, form: OutputFormat, names: pd.DataFrame) -> list[Any]:
    match name:
        case "device":
            displayed = _device_names(names)
            return [displayed[device_id] for device_id in frame["device_id"]]
        case "desired" | "reported" | "current" | "wanted" | "requested" | "value":
            typed = [
                _typed(_plain(value), path)
                for value, path in zip(value_column(frame, name), frame["path"], strict=True)
            ]
            return typed if form == "json" else [None if value is None else written(value) for value in typed]
    cells = [_plain(cell) for cell in frame[_NAMES_IN_TABLE.get(name, name)].astype(object)]
    if name == "reason":
        return [None if cell is None else in_words_of_the_shell(str(cell)) for cell in cells]
    if name == "decision" and form is None:
        # The summary below the table says "rejected". Programs get the value of the enumeration.
        return ["reject" if cell == Decision.REFUSE else cell for cell in cells]
    # Results are displayed after the plan has ended. By then, a request that is still queued will never be sent.
    return ["not sent" if name == "status" and cell == RequestStatus.QUEUED else cell for cell in cells]


def _device_names(frame: pd.DataFrame) -> dict[str, str]:
    """Return the endpoint name of each device, or the device id if the device has no name."""
    devices = frame[["device_id", "endpoint_name"]].astype(object).drop_duplicates("device_id")
    named = devices["endpoint_name"].where(devices["endpoint_name"].notna(), devices["device_id"])
    return display_names(dict(zip(devices["device_id"], named, strict=True)))


def _typed(value: Any, path: str) -> Any:
    # The column of numbers has floats, even for resources that are declared as integers.
    definition = lookup(path) if isinstance(value, float) else None
    is_integer = definition is not None and definition.type is ResourceType.INTEGER
    return int(value) if is_integer and value.is_integer() else value


def _plain(cell: Any) -> object:
    if pd.isna(cell):
        return None
    if isinstance(cell, pd.Timestamp):
        return cell.to_pydatetime()
    return cell.to_pytimedelta() if isinstance(cell, pd.Timedelta) else cell
