"""Devices of the simulator's kinds over CoAP. Their resources, rules, models and measurement intervals are the same."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from mirror_sdk.values import TEXT_PLAIN, PythonValue, decode, encode
from mirror_server.core.timestamps import Instant
from mirror_server.extensions.lwm2m.device.resources import DeviceResource

if TYPE_CHECKING:
    from mirror_server.extensions.lwm2m.device.device import LwM2MDevice
    from mirror_server.extensions.simulator.kinds import DeviceKind, ResourceRule

NO_KINDS = (
    "mirror-device needs the models of the simulated devices, which are not installed; reinstall them:"
    " pip install --force-reinstall 'device-state-mirror[lwm2m]'"
)
"""The error message if the simulator is not installed, so that there are no kinds."""

_FIRST_TOKEN = 0x0100


def kinds_by_name() -> Mapping[str, DeviceKind]:
    """Return the kinds of the simulated devices by name. The result is empty if the simulator is not installed."""
    try:
        from mirror_server.extensions.simulator.kinds import KINDS_BY_NAME  # noqa: PLC0415 - another extension
    except ModuleNotFoundError:
        return {}
    return KINDS_BY_NAME


class ModelledDevice:
    """The resources of a device of one kind, with a model of their values.

    Args:
        kind: The name of a kind of the simulator, such as ``weather-station``.
        endpoint_name: The name of the device. The values depend on this name and the seed.
        seed: The seed of the values. The same seed and name always produce the same values.
        now: A function that returns the current time.
        executed: A function that is called with the path and the argument of each execute request.

    Attributes:
        endpoint_type: The endpoint type for the registration.
        resources: The resources for a :class:`~mirror_server.extensions.lwm2m.device.device.LwM2MDevice`. Values that
            are written to them change the model.

    Raises:
        KeyError: There is no kind with this name.
        ImportError: The simulator is not installed.
    """

    def __init__(
        self,
        kind: str,
        endpoint_name: str,
        seed: int,
        now: Callable[[], Instant],
        executed: Callable[[str, bytes], None],
    ) -> None:
        kinds = kinds_by_name()
        if not kinds:
            raise ImportError(NO_KINDS)
        from mirror_server.extensions.simulator.device import device_of_kind  # noqa: PLC0415 - another extension

        self._now = now
        self._executed = executed
        key = f"{seed}/{endpoint_name}"
        serial_number = hashlib.blake2b(key.encode(), digest_size=16).hexdigest()
        self._model = device_of_kind(kinds[kind], serial_number, endpoint_name, key, now())
        self.endpoint_type = self._model.endpoint_type
        rules = kinds[kind].rules
        self.resources = [self._resource(rule, _FIRST_TOKEN + number) for number, rule in enumerate(rules.values())]

    def _resource(self, rule: ResourceRule, token: int) -> DeviceResource:
        path, accepts = rule.path, rule.accepts
        resource = DeviceResource(
            path,
            writable=rule.writable,
            observable=rule.observable,
            auto_observed_token=token if rule.auto_observable else None,
            accepts=None if accepts is None else lambda value: accepts(_text(value, path)),
            on_write=lambda value: self._model.set_value(path, _text(value, path), self._now()),
            on_execute=(lambda argument: self._executed(path, argument)) if rule.executable else None,
        )
        if not rule.executable:
            reading = self._model.reading(path, self._now())
            resource.set(_typed(reading.text, path), reading.measured_at)
        return resource

    def measure(self, device: LwM2MDevice) -> None:
        """Set the values of the device to the current values of the model."""
        for resource in self.resources:
            path = resource.path
            if self._model.modeled(path) is not None:
                device.set_value(path, _typed(self._model.reading(path, self._now()).text, path))

    def next_measurement_at(self) -> Instant | None:
        """Return the time of the next measurement, or ``None`` if no resource is measured."""
        rules = filter(None, map(self._model.modeled, self._model.resources))
        return min((self._model.next_period_after(self._now(), rule.period_seconds) for rule in rules), default=None)

    def next_contact_at(self, period_seconds: int) -> Instant:
        """Return the time of the next contact in queue mode. Each device has a different offset within the period."""
        return self._model.next_period_after(self._now(), period_seconds)


def _typed(text: str, path: str) -> PythonValue:
    value = decode(text.encode(), TEXT_PLAIN, path).python
    return text if value is None or isinstance(value, Mapping) else value


def _text(value: PythonValue, path: str) -> str:
    return encode(value, path, TEXT_PLAIN, allow_read_only=True)[0].decode()
