"""How a value is entered, by the declaration of its resource, and which value an entry is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from mirror_sdk._visible import visible
from mirror_sdk.object_table import ResourceType, lookup
from mirror_sdk.values import PythonValue, Value, ValueKind, encode, parse_value, written
from mirror_sdk.values.typed_input import BYTES_EXAMPLE, LINK_EXAMPLE, TIME_EXAMPLE

Entry: TypeAlias = bool | str | bytes
"""What an input holds: text as it was typed, whatever the type of the resource, and the bytes of a file."""

LONGEST_SLIDER = 10_000

_HINTS = {
    ResourceType.BOOLEAN: "ticked is true, not ticked is false",
    ResourceType.INTEGER: "a whole number",
    ResourceType.UNSIGNED: "a whole number",
    ResourceType.FLOAT: "a number",
    ResourceType.TIME: f"a time in RFC 3339 with its zone, such as {TIME_EXAMPLE}",
    ResourceType.OBJLINK: f"object and instance id, such as {LINK_EXAMPLE}",
    ResourceType.OPAQUE: f"bytes as hex digits, such as {BYTES_EXAMPLE}, or a file",
}
_VALUE_KINDS = {
    ResourceType.BOOLEAN: ValueKind.BOOLEAN,
    ResourceType.INTEGER: ValueKind.NUMBER,
    ResourceType.UNSIGNED: ValueKind.NUMBER,
    ResourceType.FLOAT: ValueKind.NUMBER,
    ResourceType.TIME: ValueKind.TIME,
    ResourceType.OBJLINK: ValueKind.OBJLINK,
    ResourceType.OPAQUE: ValueKind.OPAQUE,
}
_PLACEHOLDERS = {
    ResourceType.TIME: TIME_EXAMPLE,
    ResourceType.OBJLINK: LINK_EXAMPLE,
    ResourceType.OPAQUE: BYTES_EXAMPLE,
}


@dataclass(frozen=True, slots=True)
class InputForm:
    """How the value of a resource is entered.

    Attributes:
        type: The type of the value.
        unit: The unit of a number; empty where none is known.
        range: The lowest and the highest number of a slider; ``None`` for no slider.
        hint: What can be entered, in words.
        placeholder: An example.
        initial: What the input holds at first.
    """

    type: ResourceType
    unit: str = ""
    range: tuple[int, int] | None = None
    hint: str = ""
    placeholder: str = ""
    initial: Entry = ""


def form_of(path: str, unit: str = "") -> InputForm:
    """Return how a value for this path is entered; without a declaration, as a text.

    Args:
        path: The resource path; also one that is not valid yet.
        unit: The unit that the device names, if it does.
    """
    definition = lookup(path)
    if definition is None:
        hint = "nothing is declared for this path: it is sent as text" if path else ""
        return InputForm(ResourceType.STRING, hint=hint)
    type_, declared = definition.type, definition.range
    is_whole = type_ in {ResourceType.INTEGER, ResourceType.UNSIGNED}
    # On a longer slider a step could not be seen.
    has_slider = is_whole and declared is not None and declared[1] - declared[0] <= LONGEST_SLIDER
    limits = f" from {declared[0]:g} to {declared[1]:g}" if declared else ""
    return InputForm(
        type_,
        unit=visible(unit or definition.unit),
        range=(int(declared[0]), int(declared[1])) if declared and has_slider else None,
        hint=f"{_HINTS.get(type_, 'a text')}{limits}",
        placeholder=_PLACEHOLDERS.get(type_, ""),
        initial=False if type_ is ResourceType.BOOLEAN else "",
    )


def read_entry(entry: Entry, path: str) -> PythonValue:
    """Return the value that was entered, checked against the declaration.

    Raises:
        InvalidValue: It is none for this resource; the message says what is.
    """
    value = parse_value(entry, path) if isinstance(entry, str) else entry
    # The plan finds out, device by device, whether it may be written.
    encode(value, path, allow_read_only=True)
    return value


def entry_of(form: InputForm, value: Value) -> Entry:
    """Return the entry for a value of a resource; the initial entry where the value cannot be entered."""
    known = value.python
    if known is None or value.kind is not _VALUE_KINDS.get(form.type, ValueKind.TEXT):
        return form.initial
    return known if isinstance(known, bool) else written(known)
