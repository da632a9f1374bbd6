"""Export of tables to CSV files, which a spreadsheet can open without executing a formula."""

from __future__ import annotations

import csv
from pathlib import Path

import pandas as pd

from mirror_sdk._formatting import without_formula


def write_csv(frame: pd.DataFrame, file: Path) -> None:
    """Write a table as CSV.

    Strings are written as :func:`mirror_sdk._formatting.without_formula` returns them.

    Raises:
        OSError: The file cannot be written.
    """
    texts = frame.select_dtypes(["category", "string", "object"])
    safe = frame.assign(**{str(name): texts[name].map(_without_formula, na_action="ignore") for name in texts})
    has_carriage_returns = any(texts[name].astype("string").str.contains("\r").any() for name in texts)
    # pandas does not quote a carriage return, although it would start a new row.
    safe.to_csv(file, index=False, quoting=csv.QUOTE_ALL if has_carriage_returns else csv.QUOTE_MINIMAL)


def _without_formula(value: object) -> object:
    return without_formula(value) if isinstance(value, str) else value
