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


class Personal(StrEnum):
    """What becomes of a personal value where a table is shared; see :func:`mirror_sdk.privacy.pseudonymize`.

    ``IDENTIFIER``: a pseudonym takes its place, equal ones for equal values. ``PLACE``: a coordinate in degrees, which
    is rounded to tenths. ``HIDDEN``: nothing is left of it.
    """

    IDENTIFIER = "identifier"
    PLACE = "place"
    HIDDEN = "hidden"


NUMBERS = frozenset({ResourceType.INTEGER, ResourceType.UNSIGNED, ResourceType.FLOAT})
"""The types that have a range and a unit."""


class ResourceDeclaration(NamedTuple):
    """What an object declares for one of its resources.

    ``range`` holds the lowest and the highest number allowed; ``multiple`` says that the resource has instances, each
    with a value of its own; ``personal`` says what becomes of its values where a table is shared.
    """

    name: str
    type: ResourceType
    access: Access
    unit: str = ""
    range: tuple[float, float] | None = None
    multiple: bool = False
    personal: Personal | None = None


@dataclass(frozen=True, slots=True)
class ResourceDefinition:
    """A resource as the object table has it; ``range`` holds the lowest and the highest number allowed."""

    object_id: int
    resource_id: int
    label: str
    type: ResourceType
    access: Access
    unit: str
    range: tuple[float, float] | None
    multiple: bool = False
    personal: Personal | None = None
