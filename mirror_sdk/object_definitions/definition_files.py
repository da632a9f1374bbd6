"""Object definition files as the OMA registry and device makers publish them.

Source: LwM2M core, annex on object definitions; http://openmobilealliance.org/tech/profiles/LWM2M.xsd.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, cast

from mirror_sdk._warnings import warn
from mirror_sdk.object_definitions.registry import register_object
from mirror_sdk.wire.object_definitions import NUMBERS, Access, ResourceDeclaration, ResourceType

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_TYPES: Mapping[str, ResourceType] = {
    "string": ResourceType.STRING,
    "integer": ResourceType.INTEGER,
    "unsigned integer": ResourceType.UNSIGNED,
    "float": ResourceType.FLOAT,
    "boolean": ResourceType.BOOLEAN,
    "opaque": ResourceType.OPAQUE,
    "time": ResourceType.TIME,
    "objlnk": ResourceType.OBJLINK,
    "corelnk": ResourceType.CORELINK,
    "": ResourceType.NONE,
}
_OPERATIONS = {"WR": "RW", "READ": "R", "WRITE": "W", "READWRITE": "RW", "EXECUTE": "E"}
_NUMBER = r"\s*(-?[0-9]{1,30}(?:\.[0-9]{1,30})?)\s*"
_RANGE = re.compile(rf"{_NUMBER}\.\.{_NUMBER}")


def load_object_definitions(source: str | Path, *, replace: bool = False) -> list[int]:
    """Register the objects of an object definition file (XML); see :func:`~mirror_sdk.register_object`.

    The function skips resources without an operation, because no client can use them. It also skips resources that have
    no type and are not executable, with a warning.

    Args:
        source: The path of the file, or its text, which begins with ``<``.
        replace: Whether to replace existing declarations.

    Returns:
        The ids of the objects.

    Raises:
        OSError: The file cannot be read.
        ValueError: ``source`` is not an object definition file, or contains a document type declaration, because
            entities are never expanded. The error is also raised if an object cannot be registered. The objects before
            it in the file stay registered.
    """
    objects = list(_parse(_content(source)).iterfind(".//{*}Object"))
    if not objects:
        raise ValueError("the definition has no <Object>; pass a file of the OMA LwM2M registry")
    return [_register(found, replace=replace) for found in objects]


def _content(source: str | Path) -> bytes | str:
    if isinstance(source, str) and source.lstrip("\ufeff \t\r\n").startswith("<"):
        return source.lstrip("\ufeff \t\r\n")
    # An XML declaration is allowed only at the beginning; some files have an empty line before it.
    return Path(source).read_bytes().lstrip()


def _parse(content: bytes | str) -> Element:
    # Imported here: every program uses the object definitions, but few read files with more.
    from xml.etree.ElementTree import ParseError, TreeBuilder, XMLParser

    class Builder(TreeBuilder):
        def doctype(self, *_: object) -> NoReturn:
            raise ValueError(
                "this XML has a document type (<!DOCTYPE ...>); remove it, because entities are not expanded"
            )

    parser = XMLParser(target=Builder())  # noqa: S314 - a document type, and with it all entities, is rejected
    try:
        parser.feed(content)
        root: Element = parser.close()
    except (ParseError, UnicodeEncodeError, LookupError) as exc:
        raise ValueError(f"this is not XML: {exc}; pass an object definition file or its text") from exc
    return root


def _register(found: Element, *, replace: bool) -> int:
    object_id = _id(_text(found, "ObjectID"), "<ObjectID>")
    items = {_id(item.get("ID", ""), "ID of an <Item>"): item for item in found.iterfind(".//{*}Item")}
    declared = {
        resource_id: _declaration(item, f"resource {resource_id} of object {object_id}")
        for resource_id, item in items.items()
        if _is_usable(item, f"resource {resource_id} of object {object_id}")
    }
    register_object(object_id, _text(found, "Name"), declared, replace=replace)
    return object_id


def _is_usable(item: Element, subject: str) -> bool:
    """Return whether an item has an operation, and a type unless it is executable."""
    operations = _operations(item)
    if not operations or operations == "E" or _text(item, "Type"):
        return bool(operations)
    warn(
        f"{subject} ({_text(item, 'Name')}) has operations {operations!r} but no <Type>, so it is left out; "
        "correct the file, or declare the resource with register_object",
        UserWarning,
    )
    return False


def _operations(item: Element) -> str:
    """Return the operations, in any of the usual spellings, as an access."""
    word = re.sub(r"[\s,/]", "", _text(item, "Operations")).upper()
    return _OPERATIONS.get(word, word)


def _declaration(item: Element, subject: str) -> ResourceDeclaration:
    word = _text(item, "Type").lower()
    if word not in _TYPES:
        raise ValueError(f"{subject}: <Type> must be one of {', '.join(filter(None, _TYPES))}, not {word!r}")
    operations = _operations(item)
    executable = operations == "E"
    kind = ResourceType.NONE if executable else _TYPES[word]
    unit = _text(item, "Units")
    return ResourceDeclaration(
        name=_text(item, "Name"),
        type=kind,
        access=cast("Access", operations),  # register_object checks it
        unit="%" if unit == "/100" else unit,
        range=_range(_text(item, "RangeEnumeration")) if kind in NUMBERS else None,
        multiple=_text(item, "MultipleInstances").lower() == "multiple",
    )


def _range(text: str) -> tuple[float, float] | None:
    """Return the range, if the element is a range. It may also contain a list, a length or prose."""
    limits = _RANGE.fullmatch(text)
    if limits is None:
        return None
    low, high = (float(limit) if "." in limit else int(limit) for limit in limits.groups())
    return (low, high) if low <= high else None


def _text(element: Element, name: str) -> str:
    return " ".join((element.findtext(f"{{*}}{name}") or "").split())


def _id(text: str, subject: str) -> int:
    if not re.fullmatch(r"[0-9]{1,5}", text):
        raise ValueError(f"{subject} must be an integer between 0 and 65535, got {text!r}")
    return int(text)
