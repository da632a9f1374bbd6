"""The registry of object definitions in this process: the built-in objects and the registered ones."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

from mirror_sdk._fork import Lock
from mirror_sdk.wire.object_definitions import (
    CONSTANT,
    CONSTANT_IN_DEVICE,
    DECLARED_OBJECTS,
    NUMBERS,
    Personal,
    ResourceDeclaration,
    ResourceDefinition,
    ResourceType,
)
from mirror_sdk.wire.paths import parse_path

_Key = tuple[int, int]
_SECURITY_OBJECT = 0
_DEVICE_OBJECT = 3
_HIGHEST_ID = 65535
_ACCESSES = ("R", "W", "RW", "E")


def _definitions(
    object_id: int, name: str, resources: Mapping[int, ResourceDeclaration]
) -> Iterator[tuple[_Key, ResourceDefinition]]:
    for resource_id, declared in resources.items():
        # A type may be a string instead of a member of the enumeration.
        personal = None if declared.personal is None else Personal(declared.personal)
        exact = declared._replace(type=ResourceType(declared.type), personal=personal)
        label = f"{name} · {declared.name}"
        yield (object_id, resource_id), ResourceDefinition(object_id, resource_id, label, *exact[1:])


_table: dict[_Key, ResourceDefinition] = {
    key: definition
    for object_id, (name, resources) in DECLARED_OBJECTS.items()
    for key, definition in _definitions(object_id, name, resources)
}
_registering = Lock()


def lookup(path: str) -> ResourceDefinition | None:
    """Return the definition of a resource path such as ``/3303/0/5700`` or, for a resource instance, ``/3/0/7/1``.

    Returns:
        The definition; ``None`` for a resource that is not in the table and for a string that is not a resource path.
    """
    key = _key(path)
    return None if key is None else _table.get(key)


def labeled(label: str) -> ResourceDefinition | None:
    """Return the resource with a label such as ``Device · Serial Number``; ``None`` if there is none."""
    return next((definition for definition in _table.values() if definition.label == label), None)


def never_changes(path: str) -> bool:
    """Return whether the values of a resource are constant: serial and model numbers, versions, units, ranges."""
    object_id, resource_id = _key(path) or (None, None)
    return resource_id in (CONSTANT_IN_DEVICE if object_id == _DEVICE_OBJECT else CONSTANT)


@lru_cache(maxsize=4096)
def _key(path: str) -> _Key | None:
    try:
        numbers = parse_path(path)
    except ValueError:
        return None
    return None if numbers.resource_id is None else (numbers.object_id, numbers.resource_id)


def register_object(
    object_id: int, name: str, resources: Mapping[int, ResourceDeclaration], *, replace: bool = False
) -> None:
    """Declare the resources of an object, so that its values are decoded to the right types.

    Every client and table of the process uses the declaration. Registering the same object again changes nothing.
    Threads may register and look up objects at the same time.

    Args:
        object_id: The object id, from 1 to 65535. Object 0 contains keys and cannot be declared.
        name: The name of the object in labels, such as ``Pump``.
        resources: Its resources by id, such as
            ``{1: ResourceDeclaration("Flow", ResourceType.FLOAT, "R", "l/s")}``.
        replace: Whether to replace an existing declaration.

    Raises:
        ValueError: A part of the declaration is invalid; the message names it and the valid values. The object is
            already declared differently, and ``replace`` is false.
    """
    global _table  # noqa: PLW0603 - readers use the table without a lock, so it is replaced, never changed
    _check_object(object_id, name, resources)
    added = dict(_definitions(object_id, name, resources))
    with _registering:
        existing = {key: definition for key, definition in _table.items() if key[0] == object_id}
        if existing and existing != added and not replace:
            raise ValueError(
                f"object {object_id} is declared already ({_name(existing.values())}); pass replace=True to replace "
                f"it by {name!r}"
            )
        _table = {key: definition for key, definition in _table.items() if key not in existing} | added


def _name(definitions: Iterable[ResourceDefinition]) -> str:
    return next(definition.label.partition(" · ")[0] for definition in definitions)


def _check_object(object_id: int, name: str, resources: Mapping[int, ResourceDeclaration]) -> None:
    if object_id == _SECURITY_OBJECT:
        raise ValueError(
            "object_id=0 is the security object: it contains keys, and no server reads or writes it; use an id from 1"
            f" to {_HIGHEST_ID}"
        )
    _check_id("object_id", object_id)
    _check_name(f"object {object_id}", name)
    if not resources:
        raise ValueError(f"object {object_id} has no resources; pass at least one ResourceDeclaration by its id")
    for resource_id, declared in resources.items():
        _check_id(f"resource id of object {object_id}:", resource_id)
        _check_resource(f"resource {resource_id} of object {object_id}", declared)


def _check_name(subject: str, name: object) -> None:
    if not isinstance(name, str) or not name.strip():
        raise ValueError(f"{subject}: name={name!r} must be a nonempty string")


def _check_id(subject: str, number: object) -> None:
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= _HIGHEST_ID:
        raise ValueError(f"{subject} {number!r} must be an integer between 0 and {_HIGHEST_ID}")


def _check_resource(subject: str, declared: object) -> None:
    if not isinstance(declared, ResourceDeclaration):
        raise ValueError(f"{subject}: {declared!r} is not a ResourceDeclaration; pass one")  # noqa: TRY004 - one error
    _check_name(subject, declared.name)
    if declared.type not in tuple(ResourceType):
        raise ValueError(f"{subject}: type={declared.type!r} must be one of {', '.join(ResourceType)}")
    if declared.access not in _ACCESSES:
        raise ValueError(f"{subject}: access={declared.access!r} must be one of {', '.join(_ACCESSES)}")
    if (declared.access == "E") is not (declared.type == ResourceType.NONE):
        raise ValueError(f"{subject}: access 'E' requires type 'none', and type 'none' requires access 'E'")
    if not isinstance(declared.unit, str):
        raise ValueError(f"{subject}: unit={declared.unit!r} must be a string, '' for none")  # noqa: TRY004 - as above
    if declared.personal is not None and declared.personal not in tuple(Personal):
        raise ValueError(f"{subject}: personal={declared.personal!r} must be None or one of {', '.join(Personal)}")
    if declared.range is not None:
        _check_range(subject, declared)


def _check_range(subject: str, declared: ResourceDeclaration) -> None:
    if declared.type not in NUMBERS:
        raise ValueError(f"{subject}: a {declared.type} has no range; remove range=")
    match declared.range:
        # The difference is finite only if both numbers are.
        case (int() | float() as low, int() | float() as high) if math.isfinite(high - low) and low <= high:
            return
    raise ValueError(f"{subject}: range={declared.range!r} must be (lowest, highest), both finite numbers")
