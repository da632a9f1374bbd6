"""Commands to a device as CoAP requests, and the values in its responses.

Source: LwM2M core 1.0 (5.4, 5.5) and 1.1 (6.3, 6.4).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mirror_server.clock import Clock
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
from mirror_server.extensions.lwm2m.coap_commands import (
    NotSendable,
    accepts,
    attribute_options,
    error_text,
    execute_payload,
    outcome,
    writes,
)
from mirror_server.extensions.lwm2m.device_registry import DeviceRegistry, ObservedResource, RegisteredDevice
from mirror_server.extensions.lwm2m.payloads import BadPayload, ReportedPayload, content_type, contents, is_doubtful
from mirror_server.extensions.lwm2m.transport_api import Request, Response

if TYPE_CHECKING:  # the sockets need an extra
    from mirror_server.extensions.lwm2m.coap.endpoint import CoapEndpoint

_log = logging.getLogger(__name__)

_LINKS = 40
_OTHER_FORMAT = frozenset({"4.06", "4.15"})
"""The device does not have the value in the format of the request."""


class DeviceSession:
    """Sends requests to devices. The caller sends one at a time to each device.

    Args:
        endpoint: The sockets.
        registry: The devices and their observations.
        clock: Domain time.
        note_unreadable: Called with the device, the path and the error when a response cannot be decoded.
    """

    def __init__(
        self,
        endpoint: CoapEndpoint,
        registry: DeviceRegistry,
        clock: Clock,
        note_unreadable: Callable[[RegisteredDevice, str, BadPayload], None],
    ) -> None:
        self.endpoint = endpoint
        self._registry = registry
        self._clock = clock
        self._note_unreadable = note_unreadable

    async def perform(self, device: RegisteredDevice, command: DeviceCommand) -> DeviceResponse:
        """Send a command to a device.

        Raises:
            NoResponse: The device did not respond in time.
            Unreachable: Nothing can be sent to the device.
        """
        try:
            match command:
                case Read():
                    return await self._read(device, command)
                case Observe():
                    return await self._observe(device, command.path)
                case CancelObservation():
                    return await self._cancel(device, command.path)
                case Write():
                    return await self._write(device, command)
                case Execute() | WriteAttributes():
                    return await self._command(device, command)
        except NotSendable as error:
            _log.warning("device %s: command for %s not sent: %s", device.device_id, command.path, error.reason)
            return DeviceResponse(error.outcome)

    async def read_values(self, device: RegisteredDevice, path: str) -> list[ReportedPayload]:
        """Return the values of a resource or an object instance; an empty list if the device returns none.

        Raises:
            NoResponse: The device did not respond in time.
            Unreachable: Nothing can be sent to the device.
        """
        response = await self._get(device, path, None)
        return self._values(device, path, response) or [] if response.is_success else []

    async def read_rest(self, observed: ObservedResource) -> list[ReportedPayload]:
        """Return the values of a block-wise notification after its first block has arrived.

        The list is empty if the device returns none.

        Raises:
            NoResponse: The device did not respond in time.
            Unreachable: Nothing can be sent to the device.
        """
        device, path = observed.device, observed.path
        request = _request(device, path, _accepts(device, path, None)[0])
        response = await self.endpoint.read_remaining(device.peer, request, observed.token)
        _note_failure(device, "read", path, response)
        return self._values(device, path, response) or [] if response.is_success else []

    async def discover(self, device: RegisteredDevice, path: str) -> Response:
        """Discover the resources of an object or an object instance. The payload of the response has the links.

        Raises:
            NoResponse: The device did not respond in time.
            Unreachable: Nothing can be sent to the device.
        """
        response = await self.endpoint.request(device.peer, Request("GET", device.prefix + path, accept=_LINKS))
        _note_failure(device, "discover", path, response)
        return response

    async def _read(self, device: RegisteredDevice, command: Read) -> DeviceResponse:
        response = await self._get(device, command.path, command.accept)
        result = self._response(device, command.path, response)
        if command.accept is None or result.outcome is not Outcome.DONE:
            return result
        # Return the payload unchanged, in the requested format.
        return DeviceResponse(
            Outcome.DONE, _as_reported(command.path, response), result.responded_at, result.instance_values
        )

    async def _get(self, device: RegisteredDevice, path: str, requested_type: str | None) -> Response:
        """Request a value in one format after another until the device supports the format."""
        for number in _accepts(device, path, requested_type):
            response = await self.endpoint.request(device.peer, _request(device, path, number))
            if response.code not in _OTHER_FORMAT:
                break
        if requested_type is None:
            _remember_read(device, path, number, response)
        _note_failure(device, "read", path, response)
        return response

    async def _observe(self, device: RegisteredDevice, path: str) -> DeviceResponse:
        numbers = _accepts(device, path, None)
        observed = self._registry.observe(device, path)
        if not observed.is_requested:
            return await self._initial(device, observed)
        observed.start_buffering()
        is_observed = False
        try:
            for number in numbers:
                request = _request(device, path, number)
                response, sequence = await self.endpoint.observe(device.peer, request, observed.token)
                if response.code not in _OTHER_FORMAT:
                    break
            is_observed = response.is_success and sequence is not None
        finally:
            # Also after a timeout or a cancellation. If the device observes nevertheless, its notifications get a
            # reset, which ends that.
            if not is_observed and device.observed.get(path) is observed:
                self._registry.end_observation(device, path)
        _remember_read(device, path, number, response)
        _note_failure(device, "observe", path, response)
        if response.is_success and not is_observed:
            _log.warning(
                "device %s: accepted the request to observe %s, but did not start to observe it", device.device_id, path
            )
            return DeviceResponse(Outcome.METHOD_NOT_ALLOWED)
        if sequence is not None:
            # Notifications with higher numbers are newer.
            observed.sequence, observed.sequence_at = sequence, self._clock.now()
        return self._response(device, path, response)

    async def _initial(self, device: RegisteredDevice, observed: ObservedResource) -> DeviceResponse:
        """Return the initial value of an auto-observed resource.

        It is read only if the mirror has no value from this registration. A device may reject the read and still send
        changes.
        """
        if observed.has_value:
            return DeviceResponse(Outcome.DONE)
        result = self._response(device, observed.path, await self._get(device, observed.path, None))
        if result.outcome is not Outcome.DONE:
            return DeviceResponse(Outcome.DONE)
        observed.has_value = True
        return result

    async def _cancel(self, device: RegisteredDevice, path: str) -> DeviceResponse:
        observed = device.observed.get(path)
        if observed is None or not observed.is_requested:
            return DeviceResponse(Outcome.DONE)
        request = _request(device, path, _accepts(device, path, None)[0])
        response = await self.endpoint.cancel(device.peer, request, observed.token)
        self._registry.end_observation(device, path)
        return _outcome(device, "cancel observation of", path, response)

    async def _write(self, device: RegisteredDevice, command: Write) -> DeviceResponse:
        path = command.path
        forms = writes(path, command.content, device.structured)
        first = forms[0].content_format
        # Try the format that the device accepted last time first.
        preferred = device.write_formats.get(path, first)
        for payload, number in sorted(forms, key=lambda form: form.content_format != preferred):
            request = Request("PUT", device.prefix + path, payload=payload, content_format=number)
            response = await self.endpoint.request(device.peer, request)
            if response.code not in _OTHER_FORMAT:
                break
        if number is not None:
            _remember(device.write_formats, path, number, first, response)
        return _outcome(device, "write", path, response)

    async def _command(self, device: RegisteredDevice, command: Execute | WriteAttributes) -> DeviceResponse:
        path = device.prefix + command.path
        if isinstance(command, Execute):
            payload, number = execute_payload(command.content, device.structured)
            request = Request("POST", path, payload=payload, content_format=number)
        else:
            request = Request("PUT", path, query=attribute_options(command.query))
        response = await self.endpoint.request(device.peer, request)
        return _outcome(device, "execute" if isinstance(command, Execute) else "write attributes of", path, response)

    def _response(self, device: RegisteredDevice, path: str, response: Response) -> DeviceResponse:
        if not response.is_success:
            return DeviceResponse(outcome(response))
        values = self._values(device, path, response)
        if values is None:
            return DeviceResponse(Outcome.UNSUPPORTED_CONTENT_TYPE)
        exact = [each for each in values if each.path == path]
        if exact:
            return DeviceResponse(Outcome.DONE, exact[-1].content, exact[-1].changed_at)
        doubtful = [each.path for each in values if is_doubtful(each)]
        for each in doubtful:
            self._note_unreadable(device, each, BadPayload("an integer where a float is declared; it is not stored"))
        instance_values = tuple((each.path, each.content) for each in values if each.path not in doubtful)
        return DeviceResponse(Outcome.DONE, _as_reported(path, response), instance_values=instance_values)

    def _values(self, device: RegisteredDevice, path: str, response: Response) -> list[ReportedPayload] | None:
        """Return the values in a response, or ``None`` if it cannot be decoded."""
        max_age_seconds = response.max_age_seconds
        try:
            return contents(response.payload, response.content_format, path, self._clock.now(), max_age_seconds)
        except BadPayload as error:
            self._note_unreadable(device, path, error)
            return None


def _accepts(device: RegisteredDevice, path: str, requested_type: str | None) -> Sequence[int]:
    """Return the formats to request a value in, in the order to try. The format of the last read comes first."""
    numbers = accepts(path, requested_type, device.structured)
    preferred = device.read_formats.get(path)
    if requested_type is not None or preferred is None:
        return numbers
    return (preferred, *(number for number in numbers if number != preferred))


def _request(device: RegisteredDevice, path: str, number: int) -> Request:
    return Request("GET", device.prefix + path, accept=number)


def _as_reported(path: str, response: Response) -> Content:
    return Content(response.payload, content_type(response.content_format, path), response.max_age_seconds)


def _remember_read(device: RegisteredDevice, path: str, number: int, response: Response) -> None:
    first = accepts(path, None, device.structured)[0]
    _remember(device.read_formats, path, number, first, response)


def _remember(formats: dict[str, int], path: str, number: int, first: int | None, response: Response) -> None:
    """Remember the format that a device supports, unless it is the default one."""
    if response.is_success and number != first:
        formats[path] = number
    elif response.is_success or response.code in _OTHER_FORMAT:
        formats.pop(path, None)


def _outcome(device: RegisteredDevice, operation: str, path: str, response: Response) -> DeviceResponse:
    """Return the outcome of a command whose response has no value."""
    _note_failure(device, operation, path, response)
    return DeviceResponse(outcome(response))


def _note_failure(device: RegisteredDevice, operation: str, path: str, response: Response) -> None:
    if not response.is_success:
        _log.warning("device %s: %s %s failed with %s", device.device_id, operation, path, error_text(response))
