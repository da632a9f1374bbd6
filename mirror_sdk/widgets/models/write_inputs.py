"""Input forms for values, based on the declaration of their resources, and the conversion of input to values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from mirror_sdk._formatting import visible
from mirror_sdk.object_definitions import ResourceType, lookup
from mirror_sdk.values import PythonValue, Value, ValueKind, encode, parse_value, written
from mirror_sdk.values.text_input import BYTES_EXAMPLE, LINK_EXAMPLE, TIME_EXAMPLE
from mirror_sdk.wire.object_definitions import display_unit

Entry: TypeAlias = bool | str | bytes
"""The content of an input: a string as the user typed it, the state of a checkbox, or the bytes of a file.

A string is possible for any type of resource.
"""

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
    """The input form for the value of a resource.

    Attributes:
        type: The type of the value.
        unit: The unit of a number. It is empty if the unit is unknown.
        range: The lowest and the highest number of a slider; ``None`` if the form has no slider.
        hint: A sentence that describes valid input.
        placeholder: An example of valid input.
        initial: The initial content of the input.
    """

    type: ResourceType
    unit: str = ""
    range: tuple[int, int] | None = None
    hint: str = ""
    placeholder: str = ""
    initial: Entry = ""


def form_of(path: str, unit: str = "") -> InputForm:
    """Return the input form for this path. If the resource has no declaration, the form is for a string.

    Args:
        path: The path of the resource, which may be invalid.
        unit: The unit that the device reported, if there is one.
    """
    definition = lookup(path)
    if definition is None:
        hint = "this path has no declaration: the value is sent as text" if path else ""
        return InputForm(ResourceType.STRING, hint=hint)
    type_, declared = definition.type, definition.range
    is_integer = type_ in {ResourceType.INTEGER, ResourceType.UNSIGNED}
    # On a longer slider, a single step would not be visible.
    has_slider = is_integer and declared is not None and declared[1] - declared[0] <= LONGEST_SLIDER
    limits = f" from {declared[0]:g} to {declared[1]:g}" if declared else ""
    return InputForm(
        type_,
        unit=visible(display_unit(unit or definition.unit)),
        range=(int(declared[0]), int(declared[1])) if declared and has_slider else None,
        hint=f"{_HINTS.get(type_, 'a text')}{limits}",
        placeholder=_PLACEHOLDERS.get(type_, ""),
        initial=False if type_ is ResourceType.BOOLEAN else "",
    )


def read_entry(entry: Entry, path: str) -> PythonValue:
    """Return the value that the user entered, after checking it against the declaration.

    Raises:
        InvalidValue: The entry is not a valid value of this resource. The message describes valid values.
    """
    value = parse_value(entry, path) if isinstance(entry, str) else entry
    # For each device, the plan checks whether the resource is writable.
    encode(value, path, allow_read_only=True)
    return value


def entry_of(form: InputForm, value: Value) -> Entry:
    """Return the entry for a value of a resource, or the initial entry if the value cannot be entered."""
    python = value.python
    if python is None or value.kind is not _VALUE_KINDS.get(form.type, ValueKind.TEXT):
        return form.initial
    return python if isinstance(python, bool) else written(python)
