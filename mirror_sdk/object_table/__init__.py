"""The object table: the declared resources of LwM2M and IPSO objects, and of registered objects.

It has the types of payloads without types of their own (text, TLV); undeclared payloads stay as they are. The common
objects are built in; :func:`~mirror_sdk.register_object` and :func:`~mirror_sdk.load_object_definitions` add others.
"""

from mirror_sdk.object_table.definition_files import load_object_definitions
from mirror_sdk.object_table.table import labeled, lookup, never_changes, register_object
from mirror_sdk.wire.declarations import (
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
