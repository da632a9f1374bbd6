"""The IPSO objects, made of reusable resources.

The units come from the registry or from its descriptions (``/100`` is written ``%``, and a counter has ``count``).
If the registry has no unit, the unit here is empty. A device may then name a unit for each object instance in resource
5701.

Source: OMA LwM2M registry (https://github.com/OpenMobileAlliance/lwm2m-registry), objects 3200 to 3347.
"""

from __future__ import annotations

from collections.abc import Mapping

from mirror_sdk.wire.object_definitions.definition import ResourceDeclaration as D
from mirror_sdk.wire.object_definitions.definition import ResourceType

SENSOR_UNITS = 5701
"""Resource id under which a device names the unit of an object instance."""

IN_SENSOR_UNITS = frozenset({*range(5508, 5514), 5601, 5602, 5603, 5604, 5700, 5702, 5703, 5704, 5900})
"""Resource ids whose numbers are in the unit that resource 5701 of the same object instance names."""

CONSTANT = frozenset({5603, 5604, SENSOR_UNITS, 5750})
"""Ids of resources whose values never change, such as units and ranges, in all objects but Device."""

_STR, _INT, _FLT, _BOOL = ResourceType.STRING, ResourceType.INTEGER, ResourceType.FLOAT, ResourceType.BOOLEAN
_OPQ, _TIME, _EXE = ResourceType.OPAQUE, ResourceType.TIME, ResourceType.NONE

_REUSABLE: Mapping[int, D] = {
    5500: D("Digital Input State", _BOOL, "R"),
    5501: D("Digital Input Counter", _INT, "R", "count"),
    5502: D("Digital Input Polarity", _BOOL, "RW"),
    5503: D("Digital Input Debounce", _INT, "RW", "ms"),
    5504: D("Digital Input Edge Selection", _INT, "RW", range=(1, 3)),
    5505: D("Digital Input Counter Reset", _EXE, "E"),
    5506: D("Current Time", _TIME, "RW"),
    5507: D("Fractional Time", _FLT, "RW", "s", (0, 1)),
    5508: D("Min X Value", _FLT, "R"),
    5509: D("Max X Value", _FLT, "R"),
    5510: D("Min Y Value", _FLT, "R"),
    5511: D("Max Y Value", _FLT, "R"),
    5512: D("Min Z Value", _FLT, "R"),
    5513: D("Max Z Value", _FLT, "R"),
    5517: D("Velocity", _OPQ, "R"),
    5518: D("Timestamp", _TIME, "R"),
    5519: D("Min Limit", _FLT, "R"),
    5520: D("Max Limit", _FLT, "R"),
    5521: D("Delay Duration", _FLT, "RW", "s"),
    5522: D("Clip", _OPQ, "RW"),
    5523: D("Trigger", _EXE, "E"),
    5524: D("Duration", _FLT, "RW", "s"),
    5525: D("Minimum Off-time", _FLT, "RW", "s"),
    5526: D("Timer Mode", _INT, "RW", range=(0, 4)),
    5527: D("Text", _STR, "RW"),
    5528: D("X Coordinate", _INT, "RW"),
    5529: D("Y Coordinate", _INT, "RW"),
    5530: D("Clear Display", _EXE, "E"),
    5531: D("Contrast", _FLT, "RW", "%", (0, 100)),
    5532: D("Increase Input State", _BOOL, "R"),
    5533: D("Decrease Input State", _BOOL, "R"),
    5534: D("Counter", _INT, "RW", "count"),
    5536: D("Current Position", _FLT, "RW", "%", (0, 100)),
    5537: D("Transition Time", _FLT, "RW", "s"),
    5538: D("Remaining Time", _FLT, "R", "s"),
    5541: D("Up Counter", _INT, "RW", "count"),
    5542: D("Down Counter", _INT, "RW", "count"),
    5543: D("Digital State", _BOOL, "R"),
    5544: D("Cumulative Time", _FLT, "RW", "s"),
    5545: D("Max X Coordinate", _INT, "R"),
    5546: D("Max Y Coordinate", _INT, "R"),
    5548: D("Level", _FLT, "RW", "%", (0, 100)),
    5550: D("Digital Output State", _BOOL, "RW"),
    5551: D("Digital Output Polarity", _BOOL, "RW"),
    5600: D("Analog Input Current Value", _FLT, "R"),
    5601: D("Min Measured Value", _FLT, "R"),
    5602: D("Max Measured Value", _FLT, "R"),
    5603: D("Min Range Value", _FLT, "R"),
    5604: D("Max Range Value", _FLT, "R"),
    5605: D("Reset Min and Max Measured Values", _EXE, "E"),
    5650: D("Analog Output Current Value", _FLT, "RW", range=(0, 1)),
    5700: D("Sensor Value", _FLT, "R"),
    SENSOR_UNITS: D("Sensor Units", _STR, "R"),
    5702: D("X Value", _FLT, "R"),
    5703: D("Y Value", _FLT, "R"),
    5704: D("Z Value", _FLT, "R"),
    5705: D("Compass Direction", _FLT, "R", "deg", (0, 360)),
    5706: D("Colour", _STR, "RW"),
    5750: D("Application Type", _STR, "RW"),
    5751: D("Sensor Type", _STR, "R"),
    5800: D("Instantaneous active power", _FLT, "R", "W"),
    5801: D("Min Measured active power", _FLT, "R", "W"),
    5802: D("Max Measured active power", _FLT, "R", "W"),
    5803: D("Min Range active power", _FLT, "R", "W"),
    5804: D("Max Range active power", _FLT, "R", "W"),
    5805: D("Cumulative active power", _FLT, "R", "Wh"),
    5806: D("Active Power Calibration", _FLT, "W", "W"),
    5810: D("Instantaneous reactive power", _FLT, "R", "var"),
    5811: D("Min Measured reactive power", _FLT, "R", "var"),
    5812: D("Max Measured reactive power", _FLT, "R", "var"),
    5813: D("Min Range reactive power", _FLT, "R", "var"),
    5814: D("Max Range reactive power", _FLT, "R", "var"),
    5815: D("Cumulative reactive power", _FLT, "R", "varh"),
    5816: D("Reactive Power Calibration", _FLT, "W", "var"),
    5820: D("Power factor", _FLT, "R"),
    5821: D("Current Calibration", _FLT, "RW"),
    5822: D("Reset Cumulative energy", _EXE, "E"),
    5823: D("Event Identifier", _STR, "RW"),
    5824: D("Start Time", _TIME, "RW"),
    5825: D("Duration In Min", _INT, "RW", "min"),
    5826: D("Criticality Level", _INT, "RW", range=(0, 3)),
    5827: D("Avg Load AdjPct", _INT, "RW", "%", (0, 100)),
    5828: D("Duty Cycle", _INT, "RW", "%", (0, 100)),
    5850: D("On/Off", _BOOL, "RW"),
    5851: D("Dimmer", _INT, "RW", "%", (0, 100)),
    5852: D("On time", _INT, "RW", "s"),
    5853: D("Multi-state Output", _STR, "RW"),
    5854: D("Off Time", _INT, "RW", "s"),
    5900: D("Set Point Value", _FLT, "RW"),
    5903: D("Busy to Clear delay", _INT, "RW", "ms"),
    5904: D("Clear to Busy delay", _INT, "RW", "ms"),
    6042: D("Measurement Quality Indicator", _INT, "R", range=(0, 23)),
    6049: D("Measurement Quality Level", _INT, "R", range=(0, 100)),
    6050: D("Fractional Timestamp", _FLT, "R", "s", (0, 1)),
    6051: D("Numeric Latitude", _FLT, "R", "lat"),
    6052: D("Numeric Longitude", _FLT, "R", "lon"),
    6053: D("Numeric Uncertainty", _FLT, "R", "m"),
}
"""Resources that IPSO objects share: the same id means the same in each."""

_STAMPED = (5750, 5518, 6050)
_QUALITY = (*_STAMPED, 6042, 6049)
_MEASURED = (5601, 5602, 5605)
_EXTREMES = (*_MEASURED, 5603, 5604)
_AXES = (5702, 5703, 5704)
_SENSOR = (5700, SENSOR_UNITS, *_EXTREMES, *_QUALITY)
_METER = (*_SENSOR, 5821)
_SWITCHED = (5850, 5851, 5852)

_OBJECTS: Mapping[int, tuple[str, tuple[int, ...]]] = {
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
    3310: ("Load Control", (*range(5823, 5829), *_STAMPED)),
    3311: ("Light Control", (*_SWITCHED, 5805, 5820, 5706, SENSOR_UNITS, 5750)),
    3312: ("Power Control", (*_SWITCHED, 5805, 5820, *_STAMPED)),
    3313: ("Accelerometer", (*_AXES, SENSOR_UNITS, 5603, 5604, *_QUALITY)),
    3314: ("Magnetometer", (*_AXES, 5705, SENSOR_UNITS, *_QUALITY)),
    3315: ("Barometer", _SENSOR),
    3316: ("Voltage", _METER),
    3317: ("Current", _METER),
    3318: ("Frequency", _METER),
    3319: ("Depth", _METER),
    3320: ("Percentage", _METER),
    3321: ("Altitude", _METER),
    3322: ("Load", _METER),
    3323: ("Pressure", _METER),
    3324: ("Loudness", _METER),
    3325: ("Concentration", _METER),
    3326: ("Acidity", _METER),
    3327: ("Conductivity", _METER),
    3328: ("Power", _METER),
    3329: ("Power Factor", _METER),
    3330: ("Distance", _METER),
    3331: ("Energy", (5700, SENSOR_UNITS, 5822, *_QUALITY)),
    3332: ("Direction", (5705, *_MEASURED, *_QUALITY)),
    3333: ("Time", (5506, 5507, 5750, 6042, 6049)),
    3334: ("Gyrometer", (*_AXES, SENSOR_UNITS, *range(5508, 5514), 5605, 5603, 5604, *_QUALITY)),
    3335: ("Colour", (5706, SENSOR_UNITS, *_QUALITY)),
    3336: ("Location", (6051, 6052, 6053, 5705, 5517, *_QUALITY)),
    3337: ("Positioner", (5536, 5537, 5538, *_MEASURED, 5519, 5520, *_STAMPED)),
    3338: ("Buzzer", (5850, 5548, 5521, 5525, *_STAMPED)),
    3339: ("Audio Clip", (5522, 5523, 5548, 5524, 5750)),
    3340: ("Timer", (5521, 5538, 5525, 5523, 5850, 5501, 5544, 5543, 5534, 5526, 5750)),
    3341: ("Addressable Text Display", (5527, 5528, 5529, 5545, 5546, 5530, 5548, 5531, 5750)),
    3342: ("On/Off switch", (5500, 5501, 5852, 5854, *_STAMPED)),
    3343: ("Dimmer", (5548, 5852, 5854, 5750)),
    3344: ("Up/Down Control", (5532, 5533, 5541, 5542, 5750)),
    3345: ("Multiple Axis Joystick", (5500, 5501, *_AXES, 5750)),
    3346: ("Rate", _METER),
    3347: ("Push button", (5500, 5501, *_STAMPED)),
}

IPSO_OBJECTS: Mapping[int, tuple[str, Mapping[int, D]]] = {
    object_id: (name, {resource_id: _REUSABLE[resource_id] for resource_id in resource_ids})
    for object_id, (name, resource_ids) in _OBJECTS.items()
}
"""Name and resources of each object, by id."""
