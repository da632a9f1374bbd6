"""Texts that others wrote, as they may be shown: nothing acts on the screen, and what differs looks different."""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import pairwise

_LONGEST_LINE = 2000
_NEVER_SHOWN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Controls, what has no width or turns the direction of writing, halves of characters, and what is no character."""
_SHORTEST_ID = 8
_HIDDEN = "<access key>"
_SHORTEST_SECRET = 16

MISSING = "—"
"""Stands where there is no value: in tables, cards and widgets."""

# Only theme variables and transparency: what is shown in a notebook is read on light and on dark pages.
CARD = 'style="color: var(--jp-ui-font-color1, inherit)"'
DIM = 'style="opacity: 0.65"'
_LONGEST_IN_ONE_LINE = 80

_FORMULA = re.compile(r"'*(?:[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]|\{=)")
_NEUTRALISED = re.compile(r"'+(?:[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]|\{=)")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def visible(text: str) -> str:
    r"""The text with what cannot be seen, or acts on a terminal, as an escape: ``\x1b``, ``\u202e``.

    A text that is in another Unicode form than NFC shows its combining characters as escapes too.

    >>> visible("caf\u00e9 \x1b[2J")
    'caf\u00e9 \\x1b[2J'
    """
    if text.isascii() and text.isprintable():
        return text
    escaped = _NEVER_SHOWN if unicodedata.is_normalized("NFC", text) else _NEVER_SHOWN | {"Mn"}
    return "".join(_escape(one) if unicodedata.category(one) in escaped else one for one in text)


def visible_line(text: str) -> str:
    """Make a text visible like :func:`visible`, and cut it where nobody reads any more."""
    shown = visible(text[: _LONGEST_LINE + 1])
    return shown if len(text) <= _LONGEST_LINE else f"{shown[:_LONGEST_LINE]}…"


def without_key(text: str, key: str) -> str:
    """The text without an access key that stands in it, as a whole or its secret part alone."""
    shown = text.replace(key, _HIDDEN)
    # A secret may have underscores of its own.
    secret = key.split("_", 2)[-1]
    return shown.replace(secret, _HIDDEN) if len(secret) >= _SHORTEST_SECRET else shown


def without_formula(cell: str) -> str:
    """A cell that no spreadsheet takes for a formula: with an apostrophe in front where it might.

    That is, where the cell begins with ``=``, ``{=``, ``+``, ``-``, ``@``, a tab or a line end, and is no number; also
    where such a beginning has apostrophes in front already, so that :func:`with_formula` gives back what it was.
    """
    return f"'{cell}" if _FORMULA.match(cell) and not _NUMBER.fullmatch(cell) else cell


def with_formula(cell: str) -> str:
    """What :func:`without_formula` made a cell of."""
    return cell[1:] if _NEUTRALISED.match(cell) else cell


def time_text(at: datetime) -> str:
    """A time with its date, to the millisecond: ``2026-11-22 10:20:30.123``, in its zone, which the heading says."""
    return f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03d}"


def html_cell(html: str, *, tag: str = "td", is_number: bool = False) -> str:
    """A cell of a table; an id, a path or a time in it stays in one line, where a notebook would break it at a hyphen.

    Args:
        html: What it holds, HTML already; nothing is shown as what is missing.
        tag: ``td``, or ``th`` with the attributes of a heading.
        is_number: Whether it stands at the right.
    """
    one_line = len(html) <= _LONGEST_IN_ONE_LINE or " " not in html
    # GitHub takes the style away, and JupyterLab's own style beats the attribute.
    attribute, style = (" nowrap", "; white-space: nowrap") if one_line else ("", "")
    side = "right" if is_number else "left"
    return f'<{tag}{attribute} style="text-align: {side}{style}">{html or MISSING}</{tag.partition(" ")[0]}>'


def html_table(columns: Sequence[str], rows: Iterable[tuple[str, ...]]) -> str:
    """A table of cells that are HTML already."""
    head = "".join(html_cell(column, tag='th scope="col"') for column in columns)
    body = "".join(f"<tr>{''.join(map(html_cell, row))}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def shown_names(names: Mapping[str, str]) -> dict[str, str]:
    """How devices are called where several are shown.

    Names that are equal but for case or Unicode form have the beginning of the device's id beside them, as much of it
    as tells them apart.

    Args:
        names: Endpoint names by device id.

    >>> shown_names({"0198aaaa01": "Hall", "0198aaaa02": "hall", "0198aaaa03": "Roof"})
    {'0198aaaa01': 'Hall (0198aaaa01)', '0198aaaa02': 'hall (0198aaaa02)', '0198aaaa03': 'Roof'}
    """
    alike: dict[str, list[str]] = defaultdict(list)
    for device_id, name in names.items():
        alike[looks_like(name)].append(device_id)
    shown = {device_id: visible(name) for device_id, name in names.items()}
    for ids in alike.values():
        if len(ids) > 1:
            length = _telling_length(ids)
            shown |= {device_id: f"{shown[device_id]} ({visible(device_id[:length])})" for device_id in ids}
    return shown


def looks_like(name: str) -> str:
    """The same for names that are equal but for case, Unicode form, and what cannot be seen."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
    return "".join(one for one in folded if unicodedata.category(one) not in _NEVER_SHOWN)


def _telling_length(ids: Iterable[str]) -> int:
    """How much of ids tells them apart: of neighbours in their order, what they have in common and one more."""
    ordered = sorted(ids)
    common = (_common_length(one, other) for one, other in pairwise(ordered))
    return max(_SHORTEST_ID, 1 + max(common))


def _common_length(one: str, other: str) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((index for index, (a, b) in pairs if a != b), min(len(one), len(other)))


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii") if not character.isascii() else repr(character)[1:-1]
