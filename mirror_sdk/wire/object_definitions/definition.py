"""The properties that an object declares for a resource."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, NamedTuple

Access = Literal["R", "W", "RW", "E"]
"""The operations of a client: read, write, both, or execute."""


class ResourceType(StrEnum):
    """The data types of LwM2M. An executable resource has the type ``NONE``."""

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
    """The treatment of a personal value in a shared table; see :func:`mirror_sdk.privacy.pseudonymize`.

    ``IDENTIFIER``: it is replaced by a pseudonym. Equal values get the same pseudonym. ``PLACE``: a coordinate in
    degrees, which is rounded to tenths. ``HIDDEN``: it is removed.
    """

    IDENTIFIER = "identifier"
    PLACE = "place"
    HIDDEN = "hidden"


NUMBERS = frozenset({ResourceType.INTEGER, ResourceType.UNSIGNED, ResourceType.FLOAT})
"""The types that have a range and a unit."""


class ResourceDeclaration(NamedTuple):
    """The declaration of a resource of an object.

    ``range`` is the lowest and the highest allowed number. A ``multiple`` resource has instances, each with its own
    value. ``personal`` is the treatment of its values in a shared table.
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
    """The definition of a resource; ``range`` is the lowest and the highest allowed number."""

    object_id: int
    resource_id: int
    label: str
    type: ResourceType
    access: Access
    unit: str
    range: tuple[float, float] | None
    multiple: bool = False
    personal: Personal | None = None
