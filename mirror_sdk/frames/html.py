"""The HTML of tables in notebooks.

Ids and times are not wrapped, missing cells have a common mark, and the header shows units. A table remains a plain
``DataFrame``, which pandas formats everywhere else. An IPython formatter displays the tables of this package.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any, NamedTuple

import pandas as pd
from pandas.api.types import is_bool_dtype, is_datetime64_any_dtype, is_float_dtype, is_integer_dtype, is_object_dtype

from mirror_sdk._formatting import html_cell, time_precision, time_text, visible
from mirror_sdk.wire.object_definitions import display_unit

_SPANS = (("d", 86_400), ("h", 3_600), ("min", 60))
_CUT = "…"


class _Column(NamedTuple):
    """The visible cells of a column. A cell without text is missing."""

    title: str
    cells: list[str]
    is_number: bool


def to_html(frame: pd.DataFrame) -> str:
    """Return the table as notebooks display it; see :meth:`~mirror_sdk.frames.accessor.MirrorAccessor.to_html`."""
    units = _units(frame)
    row_ranges = _visible_ranges(len(frame), _option("display.max_rows"), _option("display.min_rows"))
    rows = frame.iloc[[position for part in row_ranges for position in part]]
    column_ranges = _visible_ranges(frame.shape[1], _option("display.max_columns"))
    visible_columns = [[_column(rows.iloc[:, position], units) for position in part] for part in column_ranges]
    cut = _Column(_CUT, [_CUT] * len(rows), is_number=False)
    columns = [column for part in visible_columns[:-1] for column in (*part, cut)] + visible_columns[-1]
    index = [_column(rows.index.get_level_values(level).to_series(), {}) for level in range(rows.index.nlevels)]
    return _table(index, columns, first_count=len(row_ranges[0]))


def visible_frame(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the table with sanitized strings; see :meth:`~mirror_sdk.frames.accessor.MirrorAccessor.visible`."""
    sanitized = frame.rename(index=_visible_cell, columns=_visible_cell)
    for position, dtype in enumerate(frame.dtypes):
        if is_object_dtype(dtype) or isinstance(dtype, pd.StringDtype | pd.CategoricalDtype):
            column = sanitized.iloc[:, position].astype(object).map(_visible_cell).array
            sanitized.isetitem(position, column)
    return sanitized


def _visible_cell(cell: object) -> object:
    return visible(cell) if isinstance(cell, str) else cell


def show_in_notebooks() -> None:
    """Register the formatter with IPython, unless another formatter for DataFrames is registered."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    if shell is None:
        return
    formatter = shell.display_formatter.formatters["text/html"]
    if pd.DataFrame not in formatter.type_printers:
        formatter.for_type(pd.DataFrame, _for_notebook)


def _for_notebook(frame: Any) -> str | None:
    """Return the HTML of any DataFrame for IPython. If it is ``None``, IPython displays only the text."""
    html: str | None = to_html(frame) if _is_ours(frame) else frame._repr_html_()
    return html


def _is_ours(frame: pd.DataFrame) -> bool:
    """Return whether a DataFrame is a table of this package and HTML is enabled.

    Tables are recognized even after pandas dropped ``attrs``.
    """
    # Another package may have replaced the HTML display of all DataFrames.
    is_pandas = pd.DataFrame._repr_html_.__module__.startswith("pandas.")  # type: ignore[attr-defined]
    is_named = "device_id" in frame.columns or "device_id" in frame.index.names
    return is_pandas and bool(_option("display.notebook_repr_html")) and ("mirror" in frame.attrs or is_named)


def _option(name: str) -> Any:
    return pd.get_option(name)


def _visible_ranges(total: int, most: int | None, fewer: int | None = None) -> Sequence[range]:
    """Return the rows or columns that pandas would display: either all of them, or the first and the last ones."""
    if not most or total <= most:
        return [range(total)]
    count = min(fewer or most, most)
    return [range(count - count // 2), range(total - count // 2, total)]


def _units(frame: pd.DataFrame) -> dict[object, str]:
    """Return the unit of each column whose rows all have the same unit."""
    units: dict[object, str] = dict(frame.attrs.get("units", {}))
    if frame.columns.is_unique and frame.columns.nlevels == 1 and "unit" in frame:
        for name in frame.columns:
            if str(name).endswith("_num"):
                found = frame.loc[frame[name].notna(), "unit"].unique()
                if len(found) == 1 and not pd.isna(found[0]):
                    units[name] = str(found[0])
    return units


def _column(column: pd.Series, units: dict[object, str]) -> _Column:
    is_missing = column.isna().to_numpy()
    title, texts, is_number = _texts(column[~is_missing])
    unit = display_unit(units.get(column.name, ""))
    remaining = iter(texts)
    cells = ["" if missing else escape(visible(next(remaining))) for missing in is_missing]
    return _Column(escape(visible(f"{title} ({unit})" if unit else title)), cells, is_number)


def _texts(values: pd.Series) -> tuple[str, Iterable[str], bool]:
    """Return the title of a column, its values, and whether to align them to the right.

    The title contains the time zone or the unit of time.
    """
    name = values.name
    title = (
        " ".join(str(part) for part in name if part != "")
        if isinstance(name, tuple)
        else ""
        if name is None
        else str(name)
    )
    if is_datetime64_any_dtype(values.dtype):
        zone = getattr(values.dtype, "tz", None)
        precision = time_precision(values)
        return f"{title} ({zone})" if zone else title, [time_text(value, precision) for value in values], False
    if values.dtype.kind == "m":
        return _spans(title, values.dt.total_seconds())
    if is_float_dtype(values.dtype):
        return title, _numbers(values.astype(float)), True
    longest = _option("display.max_colwidth")
    is_number = is_integer_dtype(values.dtype) and not is_bool_dtype(values.dtype)
    return title, [_shortened(str(value), longest) for value in values], is_number


def _spans(title: str, seconds: pd.Series) -> tuple[str, Iterable[str], bool]:
    unit, size = next(((unit, size) for unit, size in _SPANS if (seconds.abs() >= 2 * size).any()), ("s", 1))
    digits = 3 if size == 1 else 1
    return f"{title} ({unit})", [f"{value / size:.{digits}f}" for value in seconds], True


def _numbers(values: pd.Series) -> Iterable[str]:
    """Format numbers in the same way as pandas, with its display options."""
    return [line.strip() for line in values.to_string(index=False, header=False).split("\n")] if len(values) else []


def _shortened(text: str, longest: int | None) -> str:
    return text if longest is None or len(text) <= longest else f"{text[: longest - 1]}{_CUT}"


def _table(index: Sequence[_Column], columns: Sequence[_Column], *, first_count: int) -> str:
    head = [html_cell(level.title or "&nbsp;", tag="th", is_number=level.is_number) for level in index]
    head += [html_cell(column.title, tag='th scope="col"', is_number=column.is_number) for column in columns]
    lines = [
        "".join(
            [html_cell(level.cells[position], tag='th scope="row"', is_number=level.is_number) for level in index]
            + [html_cell(column.cells[position], is_number=column.is_number) for column in columns]
        )
        for position in range(len(index[0].cells))
    ]
    if first_count < len(lines):
        lines.insert(first_count, html_cell(_CUT, tag="th") + html_cell(_CUT) * (len(head) - 1))
    # Each row is on a separate line, because tools compare stored notebooks line by line.
    return "\n".join(
        [
            f'<table border="1" class="dataframe"><thead><tr>{"".join(head)}</tr></thead><tbody>',
            *(f"<tr>{line}</tr>" for line in lines),
            "</tbody></table>",
        ]
    )
