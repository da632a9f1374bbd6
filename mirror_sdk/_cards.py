"""Parts of the cards by which devices are shown in a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from mirror_sdk.wire.model import write_timestamp

# Only theme variables and transparency: the cards are read on light and on dark pages.
CARD = 'style="color: var(--jp-ui-font-color1, inherit)"'
DIM = 'style="opacity: 0.65"'
_CELL = 'style="text-align: left"'


def instant(at: datetime | None, missing: str = "never") -> str:
    """An instant for people."""
    return missing if at is None else write_timestamp(at)


def table(columns: Sequence[str], rows: Iterable[tuple[str, ...]]) -> str:
    """A table of cells that are HTML already."""
    head = "".join(f'<th scope="col" {_CELL}>{column}</th>' for column in columns)
    body = "".join("<tr>" + "".join(f"<td {_CELL}>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
