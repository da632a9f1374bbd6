"""What the common LwM2M and IPSO objects declare: name, type, unit, access and range of each resource.

Only what stands here gives a text payload a type; everything else stays the text it is. Units are those the registry
declares or its descriptions name (``/100`` is written ``%``). Where it has none the unit here is empty; a device may
then name one per object instance in resource 5701.

Source: OMA LwM2M registry (https://github.com/OpenMobileAlliance/lwm2m-registry), objects 3 to 6 and 3200 to 3347.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Literal, NamedTuple

from mirror_sdk.wire.paths import parse_path

Access = Literal["R", "W", "RW", "E"]


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
    NONE = "none"


@dataclass(frozen=True, slots=True)
class ResourceDefinition:
    """What the registry declares for one resource; ``range`` holds the lowest and the highest number allowed."""

    object_id: int
    resource_id: int
    label: str
    type: ResourceType
    unit: str
    access: Access
    range: tuple[float, float] | None


SENSOR_UNITS = 5701
"""Resource id under which a device names the unit of an object instance."""

IN_SENSOR_UNITS = frozenset({5601, 5602, 5603, 5604, 5700, 5702, 5703, 5704, 5900})
"""Resource ids whose numbers are in the unit that resource 5701 of the same object instance names."""


class _Row(NamedTuple):
    name: str
    type: ResourceType
    access: Access
    unit: str = ""
    range: tuple[float, float] | None = None


_STR, _INT, _UINT, _FLT = ResourceType.STRING, ResourceType.INTEGER, ResourceType.UNSIGNED, ResourceType.FLOAT
_BOOL, _OPQ, _TIME, _LINK = ResourceType.BOOLEAN, ResourceType.OPAQUE, ResourceType.TIME, ResourceType.OBJLINK
_EXE = ResourceType.NONE

_REUSABLE: Mapping[int, _Row] = {
    5500: _Row("Digital Input State", _BOOL, "R"),
    5501: _Row("Digital Input Counter", _INT, "R"),
    5502: _Row("Digital Input Polarity", _BOOL, "RW"),
    5503: _Row("Digital Input Debounce", _INT, "RW", "ms"),
    5504: _Row("Digital Input Edge Selection", _INT, "RW", range=(1, 3)),
    5505: _Row("Digital Input Counter Reset", _EXE, "E"),
    5518: _Row("Timestamp", _TIME, "R"),
    5550: _Row("Digital Output State", _BOOL, "RW"),
    5551: _Row("Digital Output Polarity", _BOOL, "RW"),
    5600: _Row("Analog Input Current Value", _FLT, "R"),
    5601: _Row("Min Measured Value", _FLT, "R"),
    5602: _Row("Max Measured Value", _FLT, "R"),
    5603: _Row("Min Range Value", _FLT, "R"),
    5604: _Row("Max Range Value", _FLT, "R"),
    5605: _Row("Reset Min and Max Measured Values", _EXE, "E"),
    5650: _Row("Analog Output Current Value", _FLT, "RW", range=(0, 1)),
    5700: _Row("Sensor Value", _FLT, "R"),
    SENSOR_UNITS: _Row("Sensor Units", _STR, "R"),
    5702: _Row("X Value", _FLT, "R"),
    5703: _Row("Y Value", _FLT, "R"),
    5704: _Row("Z Value", _FLT, "R"),
    5706: _Row("Colour", _STR, "RW"),
    5750: _Row("Application Type", _STR, "RW"),
    5751: _Row("Sensor Type", _STR, "R"),
    5800: _Row("Instantaneous active power", _FLT, "R", "W"),
    5801: _Row("Min Measured active power", _FLT, "R", "W"),
    5802: _Row("Max Measured active power", _FLT, "R", "W"),
    5803: _Row("Min Range active power", _FLT, "R", "W"),
    5804: _Row("Max Range active power", _FLT, "R", "W"),
    5805: _Row("Cumulative active power", _FLT, "R", "Wh"),
    5806: _Row("Active Power Calibration", _FLT, "W", "W"),
    5810: _Row("Instantaneous reactive power", _FLT, "R", "var"),
    5811: _Row("Min Measured reactive power", _FLT, "R", "var"),
    5812: _Row("Max Measured reactive power", _FLT, "R", "var"),
    5813: _Row("Min Range reactive power", _FLT, "R", "var"),
    5814: _Row("Max Range reactive power", _FLT, "R", "var"),
    5815: _Row("Cumulative reactive power", _FLT, "R", "varh"),
    5816: _Row("Reactive Power Calibration", _FLT, "W", "var"),
    5820: _Row("Power factor", _FLT, "R"),
    5821: _Row("Current Calibration", _FLT, "RW"),
    5822: _Row("Reset Cumulative energy", _EXE, "E"),
    5850: _Row("On/Off", _BOOL, "RW"),
    5851: _Row("Dimmer", _INT, "RW", "%", (0, 100)),
    5852: _Row("On time", _INT, "RW", "s"),
    5853: _Row("Multi-state Output", _STR, "RW"),
    5854: _Row("Off Time", _INT, "RW", "s"),
    5900: _Row("Set Point Value", _FLT, "RW"),
    5903: _Row("Busy to Clear delay", _INT, "RW", "ms"),
    5904: _Row("Clear to Busy delay", _INT, "RW", "ms"),
    6042: _Row("Measurement Quality Indicator", _INT, "R", range=(0, 23)),
    6049: _Row("Measurement Quality Level", _INT, "R", range=(0, 100)),
    6050: _Row("Fractional Timestamp", _FLT, "R", "s", (0, 1)),
}
"""Resources that IPSO objects share: the same id means the same in each."""

_STAMPED = (5750, 5518, 6050)
_QUALITY = (*_STAMPED, 6042, 6049)
_EXTREMES = (5601, 5602, 5603, 5604, 5605)
_SENSOR = (5700, SENSOR_UNITS, *_EXTREMES, *_QUALITY)
_METER = (*_SENSOR, 5821)
_SWITCHED = (5850, 5851, 5852)

_IPSO_OBJECTS: Mapping[int, tuple[str, tuple[int, ...]]] = {
    3200: ("Digital Input", (5500, 5501, 5502, 5503, 5504, 5505, 5751, *_STAMPED)),
    3201: ("Digital Output", (5550, 5551, *_STAMPED)),
    3202: ("Analog Input", (5600, *_EXTREMES, 5751, *_QUALITY)),
    3203: ("Analog Output", (5650, 5603, 5604, *_STAMPED)),
    3300: ("Generic Sensor", (*_SENSOR, 5751)),
    3301: ("Illuminance", _SENSOR),
    3302: ("Presence", (5500, 5501, 5505, 5751, 5903, 5904, *_QUALITY)),
    3303: ("Temperature", _SENSOR),
    3304: ("Humidity", _SENSOR),
    3305: ("Power Measurement", (*range(5800, 5807), *range(5810, 5817), 5820, 5821, 5822, 5605, *_QUALITY)),
    3306: ("Actuation", (*_SWITCHED, 5853, *_STAMPED)),
    3308: ("Set Point", (5900, SENSOR_UNITS, 5706, *_STAMPED)),
    3311: ("Light Control", (*_SWITCHED, 5805, 5820, 5706, SENSOR_UNITS, 5750)),
    3312: ("Power Control", (*_SWITCHED, 5805, 5820, *_STAMPED)),
    3313: ("Accelerometer", (5702, 5703, 5704, SENSOR_UNITS, 5603, 5604, *_QUALITY)),
    3315: ("Barometer", _SENSOR),
    3316: ("Voltage", _METER),
    3320: ("Percentage", _METER),
    3323: ("Pressure", _METER),
    3325: ("Concentration", _METER),
    3328: ("Power", _METER),
    3330: ("Distance", _METER),
    3331: ("Energy", (5700, SENSOR_UNITS, 5822, *_QUALITY)),
    3335: ("Colour", (5706, SENSOR_UNITS, *_QUALITY)),
    3342: ("On/Off switch", (5500, 5501, 5852, 5854, *_STAMPED)),
    3347: ("Push button", (5500, 5501, *_STAMPED)),
}

_LWM2M_OBJECTS: Mapping[int, tuple[str, Mapping[int, _Row]]] = {
    3: (
        "Device",
        {
            0: _Row("Manufacturer", _STR, "R"),
            1: _Row("Model Number", _STR, "R"),
            2: _Row("Serial Number", _STR, "R"),
            3: _Row("Firmware Version", _STR, "R"),
            4: _Row("Reboot", _EXE, "E"),
            5: _Row("Factory Reset", _EXE, "E"),
            6: _Row("Available Power Sources", _INT, "R", range=(0, 7)),
            7: _Row("Power Source Voltage", _INT, "R", "mV"),
            8: _Row("Power Source Current", _INT, "R", "mA"),
            9: _Row("Battery Level", _INT, "R", "%", (0, 100)),
            10: _Row("Memory Free", _INT, "R", "kB"),
            11: _Row("Error Code", _INT, "R", range=(0, 32)),
            12: _Row("Reset Error Code", _EXE, "E"),
            13: _Row("Current Time", _TIME, "RW"),
            14: _Row("UTC Offset", _STR, "RW"),
            15: _Row("Timezone", _STR, "RW"),
            16: _Row("Supported Binding and Modes", _STR, "R"),
            17: _Row("Device Type", _STR, "R"),
            18: _Row("Hardware Version", _STR, "R"),
            19: _Row("Software Version", _STR, "R"),
            20: _Row("Battery Status", _INT, "R", range=(0, 6)),
            21: _Row("Memory Total", _INT, "R", "kB"),
            22: _Row("ExtDevInfo", _LINK, "R"),
        },
    ),
    4: (
        "Connectivity Monitoring",
        {
            0: _Row("Network Bearer", _INT, "R", range=(0, 50)),
            1: _Row("Available Network Bearer", _INT, "R", range=(0, 50)),
            2: _Row("Radio Signal Strength", _INT, "R", "dBm"),
            3: _Row("Link Quality", _INT, "R"),
            4: _Row("IP Addresses", _STR, "R"),
            5: _Row("Router IP Addresses", _STR, "R"),
            6: _Row("Link Utilization", _INT, "R", "%", (0, 100)),
            7: _Row("APN", _STR, "R"),
            8: _Row("Cell ID", _INT, "R"),
            9: _Row("SMNC", _INT, "R", range=(0, 999)),
            10: _Row("SMCC", _INT, "R", range=(0, 999)),
            11: _Row("SignalSNR", _INT, "R", "dB"),
            12: _Row("LAC", _INT, "R"),
            13: _Row("Coverage Enhancement Level", _INT, "R", range=(0, 4)),
        },
    ),
    5: (
        "Firmware Update",
        {
            0: _Row("Package", _OPQ, "W"),
            1: _Row("Package URI", _STR, "RW"),
            2: _Row("Update", _EXE, "E"),
            3: _Row("State", _INT, "R", range=(0, 3)),
            5: _Row("Update Result", _INT, "R", range=(0, 11)),
            6: _Row("PkgName", _STR, "R"),
            7: _Row("PkgVersion", _STR, "R"),
            8: _Row("Firmware Update Protocol Support", _INT, "R", range=(0, 5)),
            9: _Row("Firmware Update Delivery Method", _INT, "R", range=(0, 2)),
            10: _Row("Cancel", _EXE, "E"),
            11: _Row("Severity", _INT, "RW", range=(0, 2)),
            12: _Row("Last State Change Time", _TIME, "R"),
            13: _Row("Maximum Defer Period", _UINT, "RW", "s"),
            14: _Row("Automatic Upgrade at Download", _BOOL, "RW"),
        },
    ),
    6: (
        "Location",
        {
            0: _Row("Latitude", _FLT, "R", "lat"),
            1: _Row("Longitude", _FLT, "R", "lon"),
            2: _Row("Altitude", _FLT, "R", "m"),
            3: _Row("Radius", _FLT, "R", "m"),
            4: _Row("Velocity", _OPQ, "R"),
            5: _Row("Timestamp", _TIME, "R"),
            6: _Row("Speed", _FLT, "R", "m/s"),
        },
    ),
}


def _definitions() -> Iterator[ResourceDefinition]:
    shared = {number: (name, {key: _REUSABLE[key] for key in keys}) for number, (name, keys) in _IPSO_OBJECTS.items()}
    for object_id, (object_name, rows) in (*_LWM2M_OBJECTS.items(), *shared.items()):
        for resource_id, row in rows.items():
            label = f"{object_name} · {row.name}"
            yield ResourceDefinition(object_id, resource_id, label, row.type, row.unit, row.access, row.range)


_TABLE = {(definition.object_id, definition.resource_id): definition for definition in _definitions()}


@lru_cache(maxsize=4096)
def lookup(path: str) -> ResourceDefinition | None:
    """What is declared for a resource path such as ``/3303/0/5700`` or, for a resource instance, ``/3/0/7/1``.

    Returns:
        The definition; ``None`` for a resource that is not in the table and for a text that is no resource's path.
    """
    try:
        parts = parse_path(path)
    except ValueError:
        return None
    if parts.resource_id is None:
        return None
    return _TABLE.get((parts.object_id, parts.resource_id))
