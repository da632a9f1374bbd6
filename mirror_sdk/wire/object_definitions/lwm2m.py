"""The objects of LwM2M itself, without object 0. That object holds keys, and no server reads or writes it.

The units come from the registry or from its descriptions (``/100`` is written ``%``).

Source: OMA LwM2M registry (https://github.com/OpenMobileAlliance/lwm2m-registry), objects 1 and 3 to 7.
"""

from __future__ import annotations

from collections.abc import Mapping

from mirror_sdk.wire.object_definitions.definition import ResourceDeclaration as D
from mirror_sdk.wire.object_definitions.definition import ResourceType

_STR, _INT, _UINT, _FLT = ResourceType.STRING, ResourceType.INTEGER, ResourceType.UNSIGNED, ResourceType.FLOAT
_BOOL, _OPQ, _TIME, _LINK = ResourceType.BOOLEAN, ResourceType.OPAQUE, ResourceType.TIME, ResourceType.OBJLINK
_EXE = ResourceType.NONE

CONSTANT_IN_DEVICE = frozenset({0, 1, 2, 3, 17, 18, 19})
"""Ids of resources of the Device object whose values never change, such as serial numbers and versions."""

LWM2M_OBJECTS: Mapping[int, tuple[str, Mapping[int, D]]] = {
    1: (
        "LwM2M Server",
        {
            0: D("Short Server ID", _INT, "R", range=(1, 65534)),
            1: D("Lifetime", _INT, "RW", "s"),
            2: D("Default Minimum Period", _INT, "RW", "s"),
            3: D("Default Maximum Period", _INT, "RW", "s"),
            4: D("Disable", _EXE, "E"),
            5: D("Disable Timeout", _INT, "RW", "s"),
            6: D("Notification Storing When Disabled or Offline", _BOOL, "RW"),
            7: D("Binding", _STR, "RW"),
            8: D("Registration Update Trigger", _EXE, "E"),
            9: D("Bootstrap-Request Trigger", _EXE, "E"),
            10: D("APN Link", _LINK, "RW"),
            11: D("TLS-DTLS Alert Code", _UINT, "R", range=(0, 255)),
            12: D("Last Bootstrapped", _TIME, "R"),
            13: D("Registration Priority Order", _UINT, "R"),
            14: D("Initial Registration Delay Timer", _UINT, "RW", "s"),
            15: D("Registration Failure Block", _BOOL, "R"),
            16: D("Bootstrap on Registration Failure", _BOOL, "R"),
            17: D("Communication Retry Count", _UINT, "RW"),
            18: D("Communication Retry Timer", _UINT, "RW", "s"),
            19: D("Communication Sequence Delay Timer", _UINT, "RW", "s"),
            20: D("Communication Sequence Retry Count", _UINT, "RW"),
            21: D("Trigger", _BOOL, "RW"),
            22: D("Preferred Transport", _STR, "RW"),
            23: D("Mute Send", _BOOL, "RW"),
            24: D("Alternate APN Links", _LINK, "RW", multiple=True),
            25: D("Supported Server Versions", _STR, "RW", multiple=True),
            26: D("Default Notification Mode", _INT, "RW", range=(0, 1)),
            27: D("Profile ID Hash Algorithm", _UINT, "RW", range=(0, 255)),
        },
    ),
    3: (
        "Device",
        {
            0: D("Manufacturer", _STR, "R"),
            1: D("Model Number", _STR, "R"),
            2: D("Serial Number", _STR, "R"),
            3: D("Firmware Version", _STR, "R"),
            4: D("Reboot", _EXE, "E"),
            5: D("Factory Reset", _EXE, "E"),
            6: D("Available Power Sources", _INT, "R", range=(0, 7), multiple=True),
            7: D("Power Source Voltage", _INT, "R", "mV", multiple=True),
            8: D("Power Source Current", _INT, "R", "mA", multiple=True),
            9: D("Battery Level", _INT, "R", "%", (0, 100)),
            10: D("Memory Free", _INT, "R", "kB"),
            11: D("Error Code", _INT, "R", range=(0, 32), multiple=True),
            12: D("Reset Error Code", _EXE, "E"),
            13: D("Current Time", _TIME, "RW"),
            14: D("UTC Offset", _STR, "RW"),
            15: D("Timezone", _STR, "RW"),
            16: D("Supported Binding and Modes", _STR, "R"),
            17: D("Device Type", _STR, "R"),
            18: D("Hardware Version", _STR, "R"),
            19: D("Software Version", _STR, "R"),
            20: D("Battery Status", _INT, "R", range=(0, 6)),
            21: D("Memory Total", _INT, "R", "kB"),
            22: D("ExtDevInfo", _LINK, "R", multiple=True),
        },
    ),
    4: (
        "Connectivity Monitoring",
        {
            0: D("Network Bearer", _INT, "R", range=(0, 50)),
            1: D("Available Network Bearer", _INT, "R", range=(0, 50), multiple=True),
            2: D("Radio Signal Strength", _INT, "R", "dBm"),
            3: D("Link Quality", _INT, "R"),
            4: D("IP Addresses", _STR, "R", multiple=True),
            5: D("Router IP Addresses", _STR, "R", multiple=True),
            6: D("Link Utilization", _INT, "R", "%", (0, 100)),
            7: D("APN", _STR, "R", multiple=True),
            8: D("Cell ID", _INT, "R"),
            9: D("SMNC", _INT, "R", range=(0, 999)),
            10: D("SMCC", _INT, "R", range=(0, 999)),
            11: D("SignalSNR", _INT, "R", "dB"),
            12: D("LAC", _INT, "R"),
            13: D("Coverage Enhancement Level", _INT, "R", range=(0, 4)),
        },
    ),
    5: (
        "Firmware Update",
        {
            0: D("Package", _OPQ, "W"),
            1: D("Package URI", _STR, "RW"),
            2: D("Update", _EXE, "E"),
            3: D("State", _INT, "R", range=(0, 3)),
            5: D("Update Result", _INT, "R", range=(0, 11)),
            6: D("PkgName", _STR, "R"),
            7: D("PkgVersion", _STR, "R"),
            8: D("Firmware Update Protocol Support", _INT, "R", range=(0, 5), multiple=True),
            9: D("Firmware Update Delivery Method", _INT, "R", range=(0, 2)),
            10: D("Cancel", _EXE, "E"),
            11: D("Severity", _INT, "RW", range=(0, 2)),
            12: D("Last State Change Time", _TIME, "R"),
            13: D("Maximum Defer Period", _UINT, "RW", "s"),
            14: D("Automatic Upgrade at Download", _BOOL, "RW"),
        },
    ),
    6: (
        "Location",
        {
            0: D("Latitude", _FLT, "R", "lat"),
            1: D("Longitude", _FLT, "R", "lon"),
            2: D("Altitude", _FLT, "R", "m"),
            3: D("Radius", _FLT, "R", "m"),
            4: D("Velocity", _OPQ, "R"),
            5: D("Timestamp", _TIME, "R"),
            6: D("Speed", _FLT, "R", "m/s"),
        },
    ),
    7: (
        "Connectivity Statistics",
        {
            0: D("SMS Tx Counter", _INT, "R"),
            1: D("SMS Rx Counter", _INT, "R"),
            2: D("Tx Data", _INT, "R", "kB"),
            3: D("Rx Data", _INT, "R", "kB"),
            4: D("Max Message Size", _INT, "R", "B"),
            5: D("Average Message Size", _INT, "R", "B"),
            6: D("Start", _EXE, "E"),
            7: D("Stop", _EXE, "E"),
            8: D("Collection Period", _INT, "RW", "s"),
        },
    ),
}
"""Name and resources of each object, by id."""
