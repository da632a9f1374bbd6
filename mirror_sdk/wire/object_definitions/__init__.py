"""The declarations of LwM2M and IPSO objects: name, type, unit, access and range of each resource."""

from mirror_sdk.wire.object_definitions.definition import (
    NUMBERS,
    Access,
    Personal,
    ResourceDeclaration,
    ResourceDefinition,
    ResourceType,
)
from mirror_sdk.wire.object_definitions.display_units import DISPLAY_UNITS, display_unit
from mirror_sdk.wire.object_definitions.ipso import CONSTANT, IN_SENSOR_UNITS, IPSO_OBJECTS, SENSOR_UNITS
from mirror_sdk.wire.object_definitions.lwm2m import CONSTANT_IN_DEVICE, LWM2M_OBJECTS

__all__ = [
    "CONSTANT",
    "CONSTANT_IN_DEVICE",
    "DECLARED_OBJECTS",
    "DISPLAY_UNITS",
    "IN_SENSOR_UNITS",
    "NUMBERS",
    "SENSOR_UNITS",
    "Access",
    "Personal",
    "ResourceDeclaration",
    "ResourceDefinition",
    "ResourceType",
    "display_unit",
]

DECLARED_OBJECTS = {**LWM2M_OBJECTS, **IPSO_OBJECTS}
"""Name and resources of each object, by id."""
