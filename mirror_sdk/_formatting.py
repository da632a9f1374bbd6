"""Safe display of text from other sources: control characters have no effect, and different strings look different."""

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
"""Unicode categories that are escaped: control, format, private and unassigned characters, and line separators."""
_SHORTEST_ID = 8
_HIDDEN = "<access key>"
_SHORTEST_SECRET = 16

SIGNIFICANT_DIGITS = 15
"""The number of significant digits that a float always preserves. Further digits are rounding errors."""
_SURE_DIGITS_OF_SINGLE = 6
_LARGEST_SINGLE = 3e38
_MILLISECOND = 1000

TimePrecision: TypeAlias = Literal["seconds", "milliseconds"]

MISSING = "—"
"""The text for a missing value in tables, cards and widgets."""

# Only variables of the theme and transparency are used, because notebooks have light and dark pages.
CARD = 'style="color: var(--jp-ui-font-color1, inherit)"'
DIM = 'style="opacity: 0.65"'
_LONGEST_IN_ONE_LINE = 80

_FORMULA = re.compile(r"'*(?:[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]|\{=)")
_NEUTRALISED = re.compile(r"'+(?:[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]|\{=)")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def visible(text: str) -> str:
    r"""Replace invisible characters, and characters that control a terminal, by escapes such as ``\x1b``.

    In a string that is not in the Unicode form NFC, combining characters are escaped, too.

    >>> visible("caf\u00e9 \x1b[2J")
    'caf\u00e9 \\x1b[2J'
    """
    if text.isascii() and text.isprintable():
        return text
    escaped = _HIDDEN_CATEGORIES if unicodedata.is_normalized("NFC", text) else _HIDDEN_CATEGORIES | {"Mn"}
    return "".join(_escape(one) if unicodedata.category(one) in escaped else one for one in text)


def visible_line(text: str) -> str:
    """Replace characters in the same way as :func:`visible`, and cut the result after 2000 characters."""
    displayed = visible(text[: _LONGEST_LINE + 1])
    return displayed if len(text) <= _LONGEST_LINE else f"{displayed[:_LONGEST_LINE]}…"


def without_key(text: str, key: str) -> str:
    """Remove an access key or its secret part from a string. A short key is removed only if it is a separate word."""
    # The secret part is everything after the second underscore, and may itself contain underscores.
    secret = key.split("_", 2)[-1]
    secrets = [re.escape(one) for one in (key, secret) if len(one) >= _SHORTEST_SECRET]
    # A short key may be a part of other words. Keys that are already removed are skipped, because the key may be a word
    # of the replacement.
    found = "|".join([_HIDDEN, *secrets, rf"(?<!\w){re.escape(key)}(?!\w)"])
    return re.sub(found, _HIDDEN, text)


def without_formula(cell: str) -> str:
    """Return the content of a cell, with an apostrophe in front if a spreadsheet would interpret it as a formula.

    A spreadsheet may do so if the cell is not a number and begins with ``=``, ``{=``, ``+``, ``-``, ``@``, a tab or a
    line end. A cell that begins with apostrophes and then one of these characters also gets another apostrophe, so that
    :func:`with_formula` can restore it.
    """
    return f"'{cell}" if _FORMULA.match(cell) and not _NUMBER.fullmatch(cell) else cell


def with_formula(cell: str) -> str:
    """Restore a cell that :func:`without_formula` has changed."""
    return cell[1:] if _NEUTRALISED.match(cell) else cell


def time_precision(times: Iterable[object]) -> TimePrecision:
    """Return the precision for displaying these times together. Objects that are not times are ignored."""
    has_fraction = any(isinstance(at, datetime) and at.microsecond >= _MILLISECOND for at in times)
    return "milliseconds" if has_fraction else "seconds"


def time_text(at: datetime, precision: TimePrecision | None = None) -> str:
    """Format a time in its own time zone as ``2026-11-22 10:20:30.123``. The caller displays the name of the zone.

    Args:
        at: The time to format.
        precision: The :func:`time_precision` of all times that are displayed together. The default is the precision of
            this time.
    """
    return at.replace(tzinfo=None).isoformat(sep=" ", timespec=precision or time_precision([at]))


def utc_text(at: datetime) -> str:
    """Format a time in UTC without fractions of a second, for a sentence: ``2026-11-22 10:20:30 UTC``."""
    return f"{time_text(at.astimezone(UTC), 'seconds')} UTC"


def number_text(number: float) -> str:
    """Format a number with as few digits as necessary, at most 15, such as ``21.5`` for 21.500000000000004.

    Many devices store numbers in single precision. Such a number gets only the digits that single precision needs. A
    negative zero has no sign.

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
    """Return a cell of an HTML table.

    Ids, paths and times are not wrapped, because a notebook would break them at hyphens.

    Args:
        html: The content of the cell as HTML. An empty string is displayed as a missing value.
        tag: The tag: ``td``, or ``th`` with the attributes of a heading.
        is_number: Whether the cell is aligned to the right.
    """
    one_line = len(html) <= _LONGEST_IN_ONE_LINE or " " not in html
    # GitHub removes the style, and JupyterLab's own style has precedence over the attribute, so both are needed.
    attribute, style = (" nowrap", "; white-space: nowrap") if one_line else ("", "")
    side = "right" if is_number else "left"
    return f'<{tag}{attribute} style="text-align: {side}{style}">{html or MISSING}</{tag.partition(" ")[0]}>'


def html_table(columns: Sequence[str], rows: Iterable[tuple[str, ...]]) -> str:
    """Return an HTML table of cells that already contain HTML."""
    head = "".join(html_cell(column, tag='th scope="col"') for column in columns)
    body = "".join(f"<tr>{''.join(map(html_cell, row))}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def display_names(names: Mapping[str, str]) -> dict[str, str]:
    """Return a name to display for each device, so that users can distinguish the devices.

    If names differ only in case or Unicode form, the beginning of the device id is appended to each of them. It is long
    enough to distinguish the devices.

    Args:
        names: The endpoint names by device id.

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
    """Return a form of a name that ignores case, Unicode form and invisible characters."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
    return "".join(one for one in folded if unicodedata.category(one) not in _HIDDEN_CATEGORIES)


def _distinct_length(ids: Iterable[str]) -> int:
    """Return how many characters of the ids are needed to distinguish them. Only sorted neighbors must be compared."""
    ordered = sorted(ids)
    common = (_common_length(one, other) for one, other in pairwise(ordered))
    return max(_SHORTEST_ID, 1 + max(common))


def _common_length(one: str, other: str) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((index for index, (a, b) in pairs if a != b), min(len(one), len(other)))


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii") if not character.isascii() else repr(character)[1:-1]
