"""Displays text from others safely: control characters do nothing, and different strings look different."""

from __future__ import annotations

import math
import re
import struct
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Literal, TypeAlias

_LONGEST_LINE = 2000
_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Control and format characters, surrogates, private and unassigned characters, and line separators."""
_SHORTEST_ID = 8
_HIDDEN = "<access key>"
_SHORTEST_SECRET = 16

SIGNIFICANT_DIGITS = 15
"""Every decimal of this many digits remains the same as a float. More digits are rounding errors."""
_SURE_DIGITS_OF_SINGLE = 6
_LARGEST_SINGLE = 3e38
_MILLISECOND = 1000

TimePrecision: TypeAlias = Literal["seconds", "milliseconds"]

MISSING = "—"
"""Shown for a missing value in tables, cards and widgets."""

# Only theme variables and transparency: notebooks have light and dark pages.
CARD = 'style="color: var(--jp-ui-font-color1, inherit)"'
DIM = 'style="opacity: 0.65"'
_LONGEST_IN_ONE_LINE = 80

_FORMULA = re.compile(r"'*(?:[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]|\{=)")
_NEUTRALISED = re.compile(r"'+(?:[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]|\{=)")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def visible(text: str) -> str:
    r"""Return the text with invisible characters, and those that act on a terminal, as escapes: ``\x1b``, ``\u202e``.

    A string that is not in the Unicode form NFC has its combining characters as escapes too.

    >>> visible("caf\u00e9 \x1b[2J")
    'caf\u00e9 \\x1b[2J'
    """
    if text.isascii() and text.isprintable():
        return text
    escaped = _HIDDEN_CATEGORIES if unicodedata.is_normalized("NFC", text) else _HIDDEN_CATEGORIES | {"Mn"}
    return "".join(_escape(one) if unicodedata.category(one) in escaped else one for one in text)


def visible_line(text: str) -> str:
    """Return the text like :func:`visible`, cut at a length that no one reads."""
    displayed = visible(text[: _LONGEST_LINE + 1])
    return displayed if len(text) <= _LONGEST_LINE else f"{displayed[:_LONGEST_LINE]}…"


def without_key(text: str, key: str) -> str:
    """Remove an access key from a string, or its secret part; a short key only where it is a separate word."""
    # A secret may have underscores of its own.
    secret = key.split("_", 2)[-1]
    secrets = [re.escape(one) for one in (key, secret) if len(one) >= _SHORTEST_SECRET]
    # A short key may be a part of other words. What is already removed stays, since its words may be a key.
    found = "|".join([_HIDDEN, *secrets, rf"(?<!\w){re.escape(key)}(?!\w)"])
    return re.sub(found, _HIDDEN, text)


def without_formula(cell: str) -> str:
    """Return a cell that no spreadsheet interprets as a formula: with an apostrophe in front if it could be one.

    That is a cell that begins with ``=``, ``{=``, ``+``, ``-``, ``@``, a tab or a line end, and is not a number. A text
    that has apostrophes before such a beginning gets one more apostrophe, so that :func:`with_formula` restores the
    text.
    """
    return f"'{cell}" if _FORMULA.match(cell) and not _NUMBER.fullmatch(cell) else cell


def with_formula(cell: str) -> str:
    """Undo :func:`without_formula`."""
    return cell[1:] if _NEUTRALISED.match(cell) else cell


def time_precision(times: Iterable[object]) -> TimePrecision:
    """Return the precision in which to display these times together; other objects are ignored."""
    has_fraction = any(isinstance(at, datetime) and at.microsecond >= _MILLISECOND for at in times)
    return "milliseconds" if has_fraction else "seconds"


def time_text(at: datetime, precision: TimePrecision | None = None) -> str:
    """Format a time: ``2026-11-22 10:20:30.123``, in its zone, which the heading names.

    Args:
        at: The time.
        precision: The :func:`time_precision` of all times that are displayed together. By default the precision of this
            time.
    """
    return at.replace(tzinfo=None).isoformat(sep=" ", timespec=precision or time_precision([at]))


def utc_text(at: datetime) -> str:
    """Format a time to the second, for a sentence: ``2026-11-22 10:20:30 UTC``."""
    return f"{time_text(at.astimezone(UTC), 'seconds')} UTC"


def number_text(number: float) -> str:
    """Format a number with as few digits as it needs, at most 15: ``21.5`` for 21.500000000000004.

    A number that devices have in single precision is formatted with the digits of that. A negative zero has no sign.

    >>> [number_text(number) for number in (0.1 + 0.2, 21.299999237060547, 21.0, 1234567, -0.0)]
    ['0.3', '21.3', '21', '1234567', '0']
    """
    if isinstance(number, int) or not math.isfinite(number):
        return str(number)
    if number == 0:
        return "0"
    text = f"{number:.{SIGNIFICANT_DIGITS}g}"
    if number.is_integer() or abs(number) > _LARGEST_SINGLE or _single(number) != number:
        return text
    shorter = (f"{number:.{digits}g}" for digits in range(_SURE_DIGITS_OF_SINGLE, SIGNIFICANT_DIGITS))
    return next((one for one in shorter if _single(float(one)) == number), text)


def _single(number: float) -> float:
    rounded: float = struct.unpack("f", struct.pack("f", number))[0]
    return rounded


def html_cell(html: str, *, tag: str = "td", is_number: bool = False) -> str:
    """Return a cell of a table. Ids, paths and times stay in one line, which a notebook would break at a hyphen.

    Args:
        html: The content of the cell as HTML. An empty cell is shown as a missing value.
        tag: ``td``, or ``th`` with the attributes of a heading.
        is_number: Whether it is aligned to the right.
    """
    one_line = len(html) <= _LONGEST_IN_ONE_LINE or " " not in html
    # GitHub removes the style, and JupyterLab's own style overrides the attribute.
    attribute, style = (" nowrap", "; white-space: nowrap") if one_line else ("", "")
    side = "right" if is_number else "left"
    return f'<{tag}{attribute} style="text-align: {side}{style}">{html or MISSING}</{tag.partition(" ")[0]}>'


def html_table(columns: Sequence[str], rows: Iterable[tuple[str, ...]]) -> str:
    """Return a table of cells that are HTML already."""
    head = "".join(html_cell(column, tag='th scope="col"') for column in columns)
    body = "".join(f"<tr>{''.join(map(html_cell, row))}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def display_names(names: Mapping[str, str]) -> dict[str, str]:
    """Return the names of devices for display together.

    Names that differ only in case or Unicode form are followed by the beginning of the device's id, long enough to
    distinguish them.

    Args:
        names: Endpoint names by device id.

    >>> display_names({"0198aaaa01": "Hall", "0198aaaa02": "hall", "0198aaaa03": "Roof"})
    {'0198aaaa01': 'Hall (0198aaaa01)', '0198aaaa02': 'hall (0198aaaa02)', '0198aaaa03': 'Roof'}
    """
    alike: dict[str, list[str]] = defaultdict(list)
    for device_id, name in names.items():
        alike[name_skeleton(name)].append(device_id)
    displayed = {device_id: visible(name) for device_id, name in names.items()}
    for ids in alike.values():
        if len(ids) > 1:
            length = _distinct_length(ids)
            displayed |= {device_id: f"{displayed[device_id]} ({visible(device_id[:length])})" for device_id in ids}
    return displayed


def name_skeleton(name: str) -> str:
    """Return the same text for names that differ only in case, Unicode form and invisible characters."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
    return "".join(one for one in folded if unicodedata.category(one) not in _HIDDEN_CATEGORIES)


def _distinct_length(ids: Iterable[str]) -> int:
    """Return how many characters distinguish the ids.

    This is the longest common beginning of sorted neighbors, and one more.
    """
    ordered = sorted(ids)
    common = (_common_length(one, other) for one, other in pairwise(ordered))
    return max(_SHORTEST_ID, 1 + max(common))


def _common_length(one: str, other: str) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((index for index, (a, b) in pairs if a != b), min(len(one), len(other)))


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii") if not character.isascii() else repr(character)[1:-1]
