"""The kinds of simulated devices, with their resources, the values that they accept, and the models of their values."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from mirror_server.extensions.simulator import models
from mirror_server.extensions.simulator.models import Model

_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?", re.ASCII)
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)


@dataclass(frozen=True, slots=True)
class ResourceRule:
    """The rule for one resource of a kind.

    If a resource has a ``model``, it is measured every ``period_seconds``. Otherwise it starts with ``value``.
    ``accepts`` is a function that returns whether a string may be written; without it, any string may be written.
    ``set_point`` is the path of the set-point that a room temperature follows.
    """

    path: str
    value: str = ""
    model: Model | None = None
    period_seconds: int = 60
    observable: bool = False
    auto_observable: bool = False
    writable: bool = False
    executable: bool = False
    accepts: Callable[[str], bool] | None = None
    set_point: str = ""


@dataclass(frozen=True, slots=True)
class DeviceKind:
    """A kind of device. Its devices are named ``<name>-01``, ``<name>-02`` and so on."""

    name: str
    endpoint_type: str
    queue_mode: bool
    rules: dict[str, ResourceRule]


def is_switch_position(text: str) -> bool:
    """Return whether the string is an LwM2M boolean in text format, which is ``0`` or ``1``."""
    return text in {"0", "1"}


def number_within(lowest: float, highest: float) -> Callable[[str], bool]:
    """Return a function that checks whether a string is a decimal number in a range. Both ends are included."""
    return lambda text: _NUMBER.fullmatch(text) is not None and lowest <= float(text) <= highest


def integer_within(lowest: int, highest: int) -> Callable[[str], bool]:
    """Return a function that checks whether a string is an integer in a range. Both ends are included."""
    return lambda text: _INTEGER.fullmatch(text) is not None and lowest <= int(text) <= highest


def _measured(path: str, model: Model, period_seconds: int = 60) -> ResourceRule:
    return ResourceRule(path, model=model, period_seconds=period_seconds, observable=True)


def _unit(instance: str, unit: str) -> ResourceRule:
    """Return the rule for resource 5701, which has the unit of the values of an object instance."""
    return ResourceRule(f"{instance}/5701", unit, observable=True)


SERIAL_NUMBER_PATH = "/3/0/2"

_BATTERY = _measured("/3/0/9", models.battery_level, 3600)


def _kind(
    name: str, endpoint_type: str, model_number: str, *rules: ResourceRule, queue_mode: bool = False
) -> DeviceKind:
    common_rules = (
        ResourceRule("/3/0/0", "Example Devices"),
        ResourceRule("/3/0/1", model_number),
        ResourceRule(SERIAL_NUMBER_PATH),
        ResourceRule("/3/0/3", "1.4.2"),
        ResourceRule("/3/0/4", executable=True),
    )
    return DeviceKind(name, endpoint_type, queue_mode, {rule.path: rule for rule in (*common_rules, *rules)})


KINDS: tuple[DeviceKind, ...] = (
    _kind(
        "thermometer",
        "Thermometer",
        "TH-100",
        _BATTERY,
        _measured("/3303/0/5700", models.indoor_temperature),
        _unit("/3303/0", "Cel"),
        _measured("/3304/0/5700", models.indoor_humidity),
        _unit("/3304/0", "%RH"),
        queue_mode=True,
    ),
    _kind(
        "weather-station",
        "WeatherStation",
        "WS-200",
        _measured("/3301/0/5700", models.light_level, 300),
        _unit("/3301/0", "lx"),
        _measured("/3303/0/5700", models.outdoor_temperature),
        _unit("/3303/0", "Cel"),
        _measured("/3304/0/5700", models.outdoor_humidity),
        _unit("/3304/0", "%RH"),
        _measured("/3315/0/5700", models.air_pressure, 300),
        _unit("/3315/0", "hPa"),
    ),
    _kind(
        "light",
        "Light",
        "LI-300",
        ResourceRule("/3311/0/5850", model=models.lamp_on, observable=True, writable=True, accepts=is_switch_position),
        ResourceRule(
            "/3311/0/5851",
            model=models.lamp_dimmer,
            observable=True,
            writable=True,
            accepts=integer_within(0, 100),
        ),
        _measured("/3311/0/5852", models.lamp_on_seconds, 300),
    ),
    _kind(
        "smart-plug",
        "SmartPlug",
        "SP-400",
        _measured("/3305/0/5800", models.plug_power, 30),
        _measured("/3305/0/5805", models.plug_energy, 300),
        ResourceRule("/3312/0/5850", "1", observable=True, writable=True, accepts=is_switch_position),
    ),
    _kind(
        "door-contact",
        "DoorContact",
        "DC-500",
        _BATTERY,
        ResourceRule("/3200/0/5500", model=models.door_open, period_seconds=5, observable=True, auto_observable=True),
        _measured("/3200/0/5501", models.door_openings, 5),
        queue_mode=True,
    ),
    _kind(
        "thermostat",
        "Thermostat",
        "TS-600",
        ResourceRule("/3303/0/5700", model=models.heated_temperature, observable=True, set_point="/3308/0/5900"),
        _unit("/3303/0", "Cel"),
        ResourceRule(
            "/3308/0/5900", model=models.set_point, observable=True, writable=True, accepts=number_within(5, 35)
        ),
        _unit("/3308/0", "Cel"),
    ),
)
"""The kinds of simulated devices. New devices get these kinds in turn."""

KINDS_BY_NAME = {kind.name: kind for kind in KINDS}
