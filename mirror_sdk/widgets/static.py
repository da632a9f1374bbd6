"""Plain HTML with the content of a widget, for a notebook without a kernel, for GitHub, and for reports.

Style sheets and scripts are removed there, so the tags contain the styles. Every string is escaped, because it may come
from a device.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape

from mirror_sdk._formatting import TimePrecision, html_cell, number_text, time_precision, time_text
from mirror_sdk.widgets.models.model import Row


def table(caption: str, columns: Sequence[str], rows: Sequence[Row], most: int) -> str:
    """Return a table as HTML.

    Args:
        caption: The title of the table.
        columns: The columns. A column may be followed by its heading if the heading differs, as in ``reason: Why``.
        rows: All rows.
        most: The maximum number of rows to display. Only the first rows are displayed if there are more.
    """
    headings = {name: heading or name.capitalize() for name, _, heading in (one.partition(": ") for one in columns)}
    cells = [[row.get(name) for name in headings] for row in rows[:most]]
    precisions = [time_precision(column) for column in zip(*cells, strict=True)]
    lines = ["".join(map(_cell, row, precisions)) for row in cells]
    head = "".join(html_cell(escape(heading), tag='th scope="col"') for heading in headings.values())
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    more = f", the first {most:,} of {len(rows):,} rows" if len(rows) > most else ""
    return (
        f'<table><caption style="text-align: left">{escape(caption)}{more}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )


def paragraph(text: str) -> str:
    """Return a paragraph as HTML."""
    return f"<p>{escape(text)}</p>"


def picture(png: bytes, description: str) -> str:
    """Return an image tag that contains the picture itself."""
    data = base64.b64encode(png).decode("ascii")
    return f'<img src="data:image/png;base64,{data}" alt="{escape(description)}" style="max-width: 100%">'


def page(title: str, body: str) -> str:
    """Return a complete HTML page that does not need other files."""
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<style>:root { color-scheme: light dark } body { font: 14px/1.5 system-ui, sans-serif; margin: 24px }"
        " table { border-collapse: collapse; display: block; overflow-x: auto; margin: 12px 0 }"
        " td, th { padding: 2px 8px; border-bottom: 1px solid rgba(128, 128, 128, 0.4) }</style></head>"
        f"<body>{body}</body></html>\n"
    )


def _cell(value: object, precision: TimePrecision) -> str:
    match value:
        case datetime():
            return html_cell(time_text(value.astimezone(UTC), precision))
        case int() | float() if not isinstance(value, bool):
            return html_cell(number_text(value), is_number=True)
    return html_cell("" if value is None else escape(str(value)))
