"""What can be declared of a resource."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, NamedTuple

Access = Literal["R", "W", "RW", "E"]
"""What a client may do: read, write, both, or execute."""


class ResourceType(StrEnum):
    """The data types of LwM2M; ``NONE`` is that of an executable resource."""

    STRING = "string"
    INTEGER = "integer"
    UNSIGNED = "unsigned"
    FLOAT = "float"
    BOOLEAN = "boolean"
    OPAQUE = "opaque"
    TIME = "time"
    OBJLINK = "objlink"
    CORELINK = "corelink"
    NONE = "none"


NUMBERS = frozenset({ResourceType.INTEGER, ResourceType.UNSIGNED, ResourceType.FLOAT})
"""The types that have a range and a unit."""


class ResourceDeclaration(NamedTuple):
    """What an object declares for one of its resources.

    ``range`` holds the lowest and the highest number allowed; ``multiple`` says that the resource has instances, each
    with a value of its own.
    """

    name: str
    type: ResourceType
    access: Access
    unit: str = ""
    range: tuple[float, float] | None = None
    multiple: bool = False


@dataclass(frozen=True, slots=True)
class ResourceDefinition:
    """A resource as the object table has it; ``range`` holds the lowest and the highest number allowed."""

    object_id: int
    resource_id: int
    label: str
    type: ResourceType
    unit: str
    access: Access
    range: tuple[float, float] | None
    multiple: bool = False
