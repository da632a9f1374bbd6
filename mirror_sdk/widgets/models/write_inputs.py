"""What a value is entered with, by what is declared for its resource, and what was entered as a value."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from mirror_sdk._visible import visible
from mirror_sdk.object_table import ResourceType, lookup
from mirror_sdk.values import PythonValue, Value, ValueKind, encode, parse_value, written
from mirror_sdk.values.typed_input import BYTES_EXAMPLE, LINK_EXAMPLE, TIME_EXAMPLE

Entry: TypeAlias = bool | str | bytes
"""What an input holds: text as it was typed, whatever the resource takes, and bytes of a file."""

LONGEST_SLIDER = 10_000


class InputKind(StrEnum):
    """What a value is entered with."""

    BOOLEAN = "boolean"
    RANGE = "range"
    INTEGER = "integer"
    FLOAT = "float"
    TEXT = "text"
    TIME = "time"
    LINK = "link"
    BYTES = "bytes"


_KINDS = {
    ResourceType.BOOLEAN: InputKind.BOOLEAN,
    ResourceType.INTEGER: InputKind.INTEGER,
    ResourceType.UNSIGNED: InputKind.INTEGER,
    ResourceType.FLOAT: InputKind.FLOAT,
    ResourceType.TIME: InputKind.TIME,
    ResourceType.OBJLINK: InputKind.LINK,
    ResourceType.OPAQUE: InputKind.BYTES,
}
_HINTS = {
    InputKind.BOOLEAN: "ticked is true, not ticked is false",
    InputKind.RANGE: "a whole number",
    InputKind.INTEGER: "a whole number",
    InputKind.FLOAT: "a number",
    InputKind.TEXT: "a text",
    InputKind.TIME: f"a time in RFC 3339 with its zone, such as {TIME_EXAMPLE}",
    InputKind.LINK: f"object and instance id, such as {LINK_EXAMPLE}",
    InputKind.BYTES: f"bytes as hex digits, such as {BYTES_EXAMPLE}, or a file",
}
_VALUE_KINDS = {
    InputKind.BOOLEAN: ValueKind.BOOLEAN,
    InputKind.RANGE: ValueKind.NUMBER,
    InputKind.INTEGER: ValueKind.NUMBER,
    InputKind.FLOAT: ValueKind.NUMBER,
    InputKind.TEXT: ValueKind.TEXT,
    InputKind.TIME: ValueKind.TIME,
    InputKind.LINK: ValueKind.OBJLINK,
    InputKind.BYTES: ValueKind.OPAQUE,
}
_PLACEHOLDERS = {InputKind.TIME: TIME_EXAMPLE, InputKind.LINK: LINK_EXAMPLE, InputKind.BYTES: BYTES_EXAMPLE}


@dataclass(frozen=True, slots=True)
class InputForm:
    """How the value of a resource is entered.

    Attributes:
        kind: With what.
        unit: Of a number; empty where nobody names one.
        range: The lowest and the highest number of a slider beside it; ``None`` for any other kind.
        hint: What is taken, in words.
        placeholder: What a text looks like.
        initial: What the input holds at first.
    """

    kind: InputKind
    unit: str
    range: tuple[int, int] | None
    hint: str
    placeholder: str
    initial: Entry


def form_of(path: str, unit: str = "") -> InputForm:
    """How a value for this path is entered; what nothing is declared for is a text.

    Args:
        path: The resource path; one that is none yet is a text as well.
        unit: The unit the device names, where it does.
    """
    definition = lookup(path)
    if definition is None:
        hint = "nothing is declared for this path: it is sent as text" if path else ""
        return InputForm(InputKind.TEXT, "", None, hint, "", "")
    kind = _KINDS.get(definition.type, InputKind.TEXT)
    slider = _slider(definition.range) if kind is InputKind.INTEGER else None
    if slider is not None:
        kind = InputKind.RANGE
    limits = f" from {definition.range[0]:g} to {definition.range[1]:g}" if definition.range else ""
    hint = f"{_HINTS[kind]}{limits}"
    initial: Entry = False if kind is InputKind.BOOLEAN else ""
    return InputForm(kind, visible(unit or definition.unit), slider, hint, _PLACEHOLDERS.get(kind, ""), initial)


def read_entry(entry: Entry, path: str) -> PythonValue:
    """The value that was entered, checked against what is declared.

    Raises:
        InvalidValue: It is none for this resource; the message says what is.
    """
    value = parse_value(entry, path) if isinstance(entry, str) else entry
    # Whether it may be written is found by the plan, device by device.
    encode(value, path, allow_read_only=True)
    return value


def entry_of(form: InputForm, value: Value) -> Entry:
    """What the input holds when a resource has this value; the initial entry where it cannot be entered."""
    known = value.python
    if known is None or value.kind is not _VALUE_KINDS[form.kind]:
        return form.initial
    return known if isinstance(known, bool) else written(known)


def _slider(declared: tuple[float, float] | None) -> tuple[int, int] | None:
    """The range of a slider; none for a range on which a step could not be seen."""
    if declared is None:
        return None
    low, high = declared
    return (int(low), int(high)) if high - low <= LONGEST_SLIDER else None
