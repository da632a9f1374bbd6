"""What LwM2M and IPSO objects declare: name, type, unit, access and range of each resource.

Only what stands here gives a payload without types of its own (text, TLV) a type; everything else stays what it is. The
common objects are built in; :func:`register_object` and :func:`load_object_definitions` add others.
"""

from mirror_sdk.object_table.definition import Access, ResourceDeclaration, ResourceDefinition, ResourceType
from mirror_sdk.object_table.definition_files import load_object_definitions
from mirror_sdk.object_table.ipso import IN_SENSOR_UNITS, SENSOR_UNITS
from mirror_sdk.object_table.table import lookup, register_object

__all__ = [
    "IN_SENSOR_UNITS",
    "SENSOR_UNITS",
    "Access",
    "ResourceDeclaration",
    "ResourceDefinition",
    "ResourceType",
    "load_object_definitions",
    "lookup",
    "register_object",
]
