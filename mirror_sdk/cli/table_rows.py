"""Rows of tables, as the ``mirror`` command shows them."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Before pandas: who lacks it is told how to get it.
from mirror_sdk.frames import value_column

# isort: split
import pandas as pd

from mirror_sdk._visible import shown_names, without_formula
from mirror_sdk.cli.group import in_words_of_the_shell
from mirror_sdk.cli.output import Form, Row
from mirror_sdk.frames.requests import RequestStatus
from mirror_sdk.frames.state import ValueOf
from mirror_sdk.object_table import ResourceType, lookup
from mirror_sdk.values import written

DRIFT_COLUMNS = ["device", "path", "desired", "reported", "kind", "since", "age"]
DRIFT_COLUMNS_OF_PROGRAMS = [*DRIFT_COLUMNS, "desired_revision"]
PLAN_COLUMNS = ["device", "path", "current", "wanted", "decision", "check", "expiry_seconds", "undoable", "reason"]
LEDGER_COLUMNS = ["device", "path", "asked", "status", "category", "latency", "reason"]
HISTORY_COLUMNS = ["at", "path", "event", "value", "unit", "origin", "status", "category", "until", "reason"]
_OF_HISTORY = {"changed_at": "at"} | {name: name for name in HISTORY_COLUMNS if name not in {"at", "value", "reason"}}
_NOT_SENT = "not sent"


def drift_rows(found: pd.DataFrame, state: pd.DataFrame, form: Form) -> Iterator[Row]:
    """The rows of a drift table, with the names of the state table it was made from."""
    names = _names(state)
    values = zip(_values(found, "desired", form), _values(found, "reported", form), strict=True)
    for (_, row), (desired, reported) in zip(found.iterrows(), values, strict=True):
        yield {
            "device": names[row["device_id"]],
            "path": row["path"],
            "desired": desired,
            "reported": reported,
            "kind": row["kind"],
            "since": _plain(row["since"]),
            "age": _plain(row["age"]),
            "desired_revision": _plain(row["desired_revision"]),
        }


def plan_rows(frame: pd.DataFrame, form: Form) -> Iterator[Row]:
    """The rows of a plan table."""
    values = zip(_values(frame, "current", form), _values(frame, "wanted", form), strict=True)
    names = _names(frame)
    for (_, row), (current, wanted) in zip(frame.iterrows(), values, strict=True):
        yield {
            "device": names[row["device_id"]],
            "path": row["path"],
            "current": current,
            "wanted": wanted,
            "decision": row["decision"],
            "check": row["check"],
            "expiry_seconds": _plain(row["expiry_seconds"]),
            "undoable": _plain(row["undoable"]),
            "reason": _reason(row["reason"]),
        }


def ledger_rows(planned: pd.DataFrame, result: pd.DataFrame, form: Form) -> Iterator[Row]:
    """The rows of the requests table of a plan that is over, with the names of the plan."""
    names = _names(planned)
    for (_, row), asked in zip(result.iterrows(), _values(result, "asked", form), strict=True):
        yield {
            "device": names[row["device_id"]],
            "path": row["path"],
            "asked": asked,
            # The table is of what has ended: nothing waits to be sent any more.
            "status": _NOT_SENT if row["status"] == RequestStatus.QUEUED.value else row["status"],
            "category": _plain(row["category"]),
            "latency": _plain(row["latency"]),
            "reason": _reason(row["reason"]),
        }


def history_rows(frame: pd.DataFrame, form: Form) -> Iterator[Row]:
    """The rows of a history table of one device."""
    plain = [map(_plain, frame[name].astype(object)) for name in _OF_HISTORY]
    for value, reason, *cells in zip(_values(frame, "value", form), frame["reason"], *plain, strict=True):
        yield {"value": value, **dict(zip(_OF_HISTORY.values(), cells, strict=True)), "reason": _reason(reason)}


def _names(frame: pd.DataFrame) -> dict[str, str]:
    """What the devices of a table are called: by name, by id where they have none."""
    devices = frame[["device_id", "endpoint_name"]].astype(object).drop_duplicates("device_id")
    named = devices["endpoint_name"].where(devices["endpoint_name"].notna(), devices["device_id"])
    return shown_names(dict(zip(devices["device_id"], named, strict=True)))


def write_csv(frame: pd.DataFrame, file: Path) -> None:
    """Write the table into a file of CSV, its texts as :func:`mirror_sdk._visible.without_formula` has them.

    Raises:
        OSError: The file cannot be written.
    """
    texts = frame.select_dtypes(["category", "string", "object"])
    written = frame.assign(**{str(name): texts[name].map(_cell, na_action="ignore") for name in texts})
    has_line_ends = any(texts[name].astype("string").str.contains("\r").any() for name in texts)
    # Such a line end is not put into quotes by itself, and would begin a new row.
    written.to_csv(file, index=False, quoting=csv.QUOTE_ALL if has_line_ends else csv.QUOTE_MINIMAL)


def _cell(value: object) -> object:
    return without_formula(value) if isinstance(value, str) else value


def _values(frame: pd.DataFrame, of: ValueOf, form: Form) -> list[object]:
    """The values of a table; as ``mirror get`` writes them where it is no JSON, which has types of its own."""
    typed = [_typed(_plain(value), path) for value, path in zip(value_column(frame, of), frame["path"], strict=True)]
    return typed if form == "json" else [None if value is None else written(value) for value in typed]


def _typed(value: Any, path: str) -> Any:
    # The column of numbers is one of floats, also of what is declared a whole number.
    definition = lookup(path) if isinstance(value, float) else None
    is_whole = definition is not None and definition.type is ResourceType.INTEGER
    return int(value) if is_whole and value.is_integer() else value


def _reason(sentence: Any) -> str | None:
    return None if pd.isna(sentence) else in_words_of_the_shell(sentence)


def _plain(value: object) -> object:
    """A value of pandas as Python has it; ``None`` where it is missing."""
    if pd.isna(value):  # type: ignore[call-overload] # of a cell, never of a whole column
        return None
    if isinstance(value, pd.Timestamp):
        return value.to_pydatetime()
    return value.to_pytimedelta() if isinstance(value, pd.Timedelta) else value
