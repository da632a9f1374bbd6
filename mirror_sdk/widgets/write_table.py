"""The writes of a plan as a table, and how many of them stand how. Every text is escaped: it may come from a device."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape

from mirror_sdk.widgets.markup import bar
from mirror_sdk.widgets.models.write_rows import WriteRow, WriteState

WORDS = {
    WriteState.REFUSED: ("⊘", "refused", "mirror-bad"),
    WriteState.SKIPPED: ("↷", "skipped", ""),
    WriteState.PLANNED: ("→", "to write", "mirror-note"),
    WriteState.QUEUED: ("·", "waits its turn", ""),
    WriteState.PENDING: ("…", "pending", "mirror-note"),
    WriteState.ASLEEP: ("☾", "asleep", "mirror-note"),
    WriteState.SUCCESS: ("✓", "success", "mirror-good"),
    WriteState.FAILURE: ("✗", "failure", "mirror-bad"),
    WriteState.UNKNOWN: ("?", "unknown", "mirror-warn"),
    WriteState.UNSENT: ("·", "not sent", ""),
}
"""Each state as (sign, word, class): none is told by its colour alone."""

# Names and reasons are read whole, so lines grow here.
TABLE_STYLE = """<style>
.mirror-widget .mirror-writes td, .mirror-widget .mirror-writes th {
  height: auto; line-height: 1.4; overflow-wrap: anywhere; padding: 2px 6px; vertical-align: top; white-space: normal;
}
.mirror-widget .mirror-writes thead th { white-space: nowrap; }
.mirror-widget .mirror-writes caption { color: var(--mirror-text); font-weight: 600; padding: 6px 0 2px; }
.mirror-mark { display: block; }
.mirror-widget .widget-checkbox label { height: auto; overflow-wrap: anywhere; white-space: normal; }
.mirror-widget .widget-checkbox label > * { line-height: 1.3; padding-right: 3px; }
.mirror-old { opacity: 0.55; }
</style>"""
_COLUMNS = (
    ("device", "18%"),
    ("before", "13%"),
    ("wanted", "13%"),
    ("waits", "11%"),
    ("undo", "9%"),
    ("state", "36%"),
)


def counts_bar(counts: Mapping[WriteState, int], *, is_old: bool) -> str:
    """How many writes stand how, paler where that is old."""
    shares = bar((*WORDS[state], count) for state, count in counts.items())
    return f'<div class="mirror-old">{shares}</div>' if is_old else shares


def problem(text: str) -> str:
    """What is wrong with an input; screen readers tell it when it changes."""
    return f'<div class="mirror-mark mirror-bad" role="status">✗ {escape(text)}</div>'


def write_table(caption: str, rows: Iterable[WriteRow], *, is_old: bool) -> str:
    """The rows as a table, paler where they are old; nothing without rows."""
    body = "".join(_line(row) for row in rows)
    if not body:
        return ""
    widths = "".join(f'<col style="width: {width}">' for _, width in _COLUMNS)
    head = "".join(f'<th scope="col">{name}</th>' for name, _ in _COLUMNS)
    classes = f"mirror-table mirror-writes{' mirror-old' if is_old else ''}"
    return (
        f'<table class="{classes}"><caption>{escape(caption)}</caption>'
        f"<colgroup>{widths}</colgroup><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )


def _line(row: WriteRow) -> str:
    sign, word, name = WORDS[row.state]
    reason = f" · {escape(row.reason)}" if row.reason else ""
    return (
        f'<tr><th scope="row" title="{escape(row.device_id)}">{escape(row.device)}</th>'
        f"<td>{escape(row.before)}</td><td>{escape(row.wanted)}</td><td>{row.waits}</td><td>{row.undo}</td>"
        f'<td><span class="mirror-mark {name}">{sign} <b>{word}</b>{reason}</span></td></tr>'
    )
