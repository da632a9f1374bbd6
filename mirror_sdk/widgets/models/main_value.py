"""The main value of a device, which is its most informative value. The server's web page selects it in the same way."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from mirror_sdk.object_definitions import lookup
from mirror_sdk.wire.paths import parse_path

_FIRST_SENSOR_OBJECT = 3200
"""The first id of the objects of sensors and actuators.

The values of these objects are more informative than those of management objects.
"""
_MAIN_RESOURCES = (5700, 5850, 5851)
"""The resources Sensor Value, On/Off and Dimmer, which are more informative than other resources of an object."""


def main_path(paths: Iterable[str]) -> str:
    """Return the path of the main value of a device. It is empty if the device has no main value.

    Args:
        paths: The paths of the resources whose last reported value is a number or a boolean. Omit resources whose
            values never change.
    """
    return min((path for path in paths if lookup(path) is not None), key=_rank, default="")


@cache
def _rank(path: str) -> tuple[int, ...]:
    parts = parse_path(path)
    is_main = parts.resource_id in _MAIN_RESOURCES
    position = _MAIN_RESOURCES.index(parts.resource_id) if is_main else len(_MAIN_RESOURCES)
    return parts.object_id < _FIRST_SENSOR_OBJECT, position, *map(int, path.split("/")[1:])
