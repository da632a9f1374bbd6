"""The responses of a simulated device to commands. Source: specification 3.1 and 3.2; wire.md 5."""

from __future__ import annotations

from urllib.parse import parse_qsl

from mirror_server.core.timestamps import Instant
from mirror_server.devices.interface import (
    CancelObservation,
    Content,
    DeviceCommand,
    DeviceResponse,
    Execute,
    Observe,
    Outcome,
    Read,
    Write,
    WriteAttributes,
)
from mirror_server.extensions.simulator.device import RunningResource, SimulatedDevice

_TEXT = "text/plain"
_BYTES = "application/octet-stream"


def respond(device: SimulatedDevice, command: DeviceCommand, now: Instant) -> DeviceResponse:
    """Execute a command if the device permits it. Return the response of the device."""
    if device.answer == "reject":
        return DeviceResponse(Outcome.REJECTED)
    resource = device.resources.get(command.path)
    if resource is None:
        return DeviceResponse(Outcome.NOT_FOUND)
    return _obey(device, resource, command, now)


def changes_device(command: DeviceCommand) -> bool:
    """Return whether a command, if it succeeds, changes the stored state of the device."""
    return not isinstance(command, Read | Execute)


def _obey(device: SimulatedDevice, resource: RunningResource, command: DeviceCommand, now: Instant) -> DeviceResponse:
    match command:
        case Read():
            return _read(device, resource, command, now)
        case Write():
            return DeviceResponse(_write(device, resource, command, now))
        case WriteAttributes():
            return DeviceResponse(_write_attributes(resource, command.query))
        case Execute():
            return DeviceResponse(Outcome.DONE if resource.executable else Outcome.METHOD_NOT_ALLOWED)
        case Observe():
            return _observe(device, resource, command, now)
        case CancelObservation():
            resource.observed = False
            return DeviceResponse(Outcome.DONE)


def _value(device: SimulatedDevice, path: str, now: Instant) -> DeviceResponse:
    reading = device.reading(path, now)
    return DeviceResponse(Outcome.DONE, Content(reading.text.encode(), _TEXT), responded_at=reading.measured_at)


def _read(device: SimulatedDevice, resource: RunningResource, command: Read, now: Instant) -> DeviceResponse:
    if resource.executable:
        return DeviceResponse(Outcome.METHOD_NOT_ALLOWED)
    if command.accept is not None and _media_type(command.accept) not in {_TEXT, "*/*"}:
        return DeviceResponse(Outcome.UNSUPPORTED_CONTENT_TYPE)
    return _value(device, command.path, now)


def _observe(device: SimulatedDevice, resource: RunningResource, command: Observe, now: Instant) -> DeviceResponse:
    if resource.executable:
        return DeviceResponse(Outcome.METHOD_NOT_ALLOWED)
    resource.observed = True
    return _value(device, command.path, now)


def _write(device: SimulatedDevice, resource: RunningResource, command: Write, now: Instant) -> Outcome:
    rule = device.rule(command.path)
    accepts = rule.accepts if rule else None
    if not resource.writable:
        return Outcome.METHOD_NOT_ALLOWED
    # Only a resource that accepts any text accepts bytes, because the bytes of a number or boolean are not its text.
    if _media_type(command.content.content_type) not in ({_TEXT} if accepts else {_TEXT, _BYTES}):
        return Outcome.UNSUPPORTED_CONTENT_TYPE
    try:
        text = command.content.payload.decode()
    except UnicodeDecodeError:
        return Outcome.BAD_VALUE
    if accepts and not accepts(text):
        return Outcome.BAD_VALUE
    device.set_value(command.path, text, now)
    return Outcome.DONE


def _write_attributes(resource: RunningResource, query: str) -> Outcome:
    """Set ``pmin`` and ``pmax`` in seconds. Reject fractions, a ``pmin`` above ``pmax``, and all other attributes."""
    if resource.executable:
        return Outcome.METHOD_NOT_ALLOWED
    parameters = parse_qsl(query, keep_blank_values=True)
    rules = dict(parameters)
    if not rules or len(rules) < len(parameters) or not rules.keys() <= {"pmin", "pmax"}:
        return Outcome.BAD_VALUE
    if not all(text.isascii() and text.isdecimal() and len(text) <= 9 for text in rules.values()):
        return Outcome.BAD_VALUE
    pmin_seconds = int(rules.get("pmin", resource.pmin_seconds))
    pmax_seconds = int(rules["pmax"]) if "pmax" in rules else resource.pmax_seconds
    if pmax_seconds is not None and pmax_seconds < max(1, pmin_seconds):
        return Outcome.BAD_VALUE
    resource.pmin_seconds, resource.pmax_seconds = pmin_seconds, pmax_seconds
    return Outcome.DONE


def _media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()
