"""Object definitions: the declared resources of LwM2M and IPSO objects, and of objects that programs register.

They declare the types for formats that do not carry them (text, TLV). Undeclared payloads are not decoded. The
common objects are built in; :func:`~mirror_sdk.register_object` and :func:`~mirror_sdk.load_object_definitions` add
others.
"""

from mirror_sdk.object_definitions.definition_files import load_object_definitions
from mirror_sdk.object_definitions.registry import labeled, lookup, never_changes, register_object
from mirror_sdk.wire.object_definitions import (
    IN_SENSOR_UNITS,
    SENSOR_UNITS,
    Access,
    Personal,
    ResourceDeclaration,
    ResourceDefinition,
    ResourceType,
)

__all__ = [
    "IN_SENSOR_UNITS",
    "SENSOR_UNITS",
    "Access",
    "Personal",
    "ResourceDeclaration",
    "ResourceDefinition",
    "ResourceType",
    "labeled",
    "load_object_definitions",
    "lookup",
    "never_changes",
    "register_object",
]
