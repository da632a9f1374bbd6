"""What a device is asked, in CoAP, and what its answer says. Source: LwM2M core 1.0 (5.4, 5.5) and 1.1 (6.3, 6.4)."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from mirror_sdk.wire.paths import parse_path
from mirror_server.clock import Clock
from mirror_server.devices.link import (
    Answer,
    CancelObservation,
    Content,
    DeviceCommand,
    Execute,
    Observe,
    Outcome,
    Read,
    Write,
    WriteAttributes,
)
from mirror_server.devices.lwm2m.exchange import Endpoint, Request, Response
from mirror_server.devices.lwm2m.observations import Observations
from mirror_server.devices.lwm2m.payloads import BadPayload, Told, content_format, content_type, contents, outcome
from mirror_server.devices.lwm2m.registry import RegisteredDevice

_log = logging.getLogger(__name__)

_TEXT = 0
_LINKS = 40
_SENML_JSON = 110
_SENML_CBOR = 112
_TLV = 11542

_OTHER_FORMAT = frozenset({"4.06", "4.15"})
"""The device does not tell the value in the format it was asked for."""
_ANY = "*/*"


class Conversation:
    """Asks devices, one thing after the other; who calls sees that each device is asked one at a time.

    Args:
        endpoint: The way to them.
        observations: What they observe.
        clock: Domain time.
    """

    def __init__(self, endpoint: Endpoint, observations: Observations, clock: Clock) -> None:
        self._endpoint = endpoint
        self._observations = observations
        self._clock = clock

    async def perform(self, device: RegisteredDevice, command: DeviceCommand) -> Answer:
        """Have a device do what a command asks.

        Raises:
            NoAnswer: It did not answer in time.
            Unreachable: It cannot be asked.
        """
        match command:
            case Read():
                return await self._read(device, command)
            case Observe():
                return await self._observe(device, command.path)
            case CancelObservation():
                return await self._cancel(device, command.path)
            case _:
                return await self._change(device, command)

    async def read_values(self, device: RegisteredDevice, path: str) -> list[Told]:
        """The values of a resource or an object instance now; none where the device does not tell them.

        Raises:
            NoAnswer: It did not answer in time.
            Unreachable: It cannot be asked.
        """
        response = await self._get(device, path, _formats(device, path))
        return self._told(device, path, response) or [] if response.is_success else []

    async def discover(self, device: RegisteredDevice, path: str) -> Response:
        """Ask which resources an object or an object instance has; the answer has links.

        Raises:
            NoAnswer: It did not answer in time.
            Unreachable: It cannot be asked.
        """
        response = await self._endpoint.request(device.peer, Request("GET", device.prefix + path, accept=_LINKS))
        _note_failure(device, "discover", path, response)
        return response

    async def _read(self, device: RegisteredDevice, command: Read) -> Answer:
        path, accept = command.path, command.accept
        if accept is None or accept.strip() == _ANY:
            response = await self._get(device, path, _formats(device, path))
            return self._answer(device, path, response)
        number = content_format(accept)
        if number is None:
            return Answer(Outcome.UNSUPPORTED_CONTENT_TYPE)
        response = await self._get(device, path, [number])
        answer = self._answer(device, path, response)
        if answer.outcome is not Outcome.DONE:
            return answer
        # In the very format that was wished for.
        as_told = Content(response.payload, content_type(response.content_format, path), response.max_age_seconds)
        return Answer(Outcome.DONE, as_told, answer.answered_at, answer.parts)

    async def _get(self, device: RegisteredDevice, path: str, formats: Sequence[int]) -> Response:
        """Ask for a value in one format after the other until the device has it in one."""
        for number in formats:
            response = await self._endpoint.request(device.peer, _request(device, path, number))
            if response.code not in _OTHER_FORMAT:
                break
        _remember(device, path, number, response)
        _note_failure(device, "read", path, response)
        return response

    async def _observe(self, device: RegisteredDevice, path: str) -> Answer:
        observed = self._observations.begin(device, path)
        if not observed.is_asked:
            return Answer(Outcome.DONE)
        is_observed = False
        try:
            for number in _formats(device, path):
                request = _request(device, path, number)
                response, sequence = await self._endpoint.observe(device.peer, request, observed.token)
                if response.code not in _OTHER_FORMAT:
                    break
            is_observed = response.is_success and sequence is not None
        finally:
            if not is_observed and device.observed.get(path) is observed:
                self._observations.end(device, path)
        _remember(device, path, number, response)
        _note_failure(device, "observe", path, response)
        if response.is_success and not is_observed:
            _log.warning("device %s answered to observe %s, and does not observe it", device.device_id, path)
            return Answer(Outcome.METHOD_NOT_ALLOWED)
        if is_observed and not observed.is_news(sequence, self._clock.now()):
            # A notification has overtaken the answer.
            return await self._read(device, Read(path))
        return self._answer(device, path, response)

    async def _cancel(self, device: RegisteredDevice, path: str) -> Answer:
        observed = device.observed.get(path)
        if observed is None or not observed.is_asked:
            return Answer(Outcome.DONE)
        request = _request(device, path, device.formats.get(path, _TEXT))
        response = await self._endpoint.cancel(device.peer, request, observed.token)
        self._observations.end(device, path)
        _note_failure(device, "observe no longer", path, response)
        return Answer(outcome(response.code))

    async def _change(self, device: RegisteredDevice, command: Write | Execute | WriteAttributes) -> Answer:
        path = device.prefix + command.path
        match command:
            case WriteAttributes():
                request = Request("PUT", path, query=tuple(command.query.split("&")))
            case Execute():
                payload = command.content.payload
                request = Request("POST", path, payload=payload, content_format=_TEXT if payload else None)
            case Write():
                # Always with its format: without one, an empty value was taken for notification rules.
                number = content_format(command.content.content_type)
                if number is None:
                    return Answer(Outcome.UNSUPPORTED_CONTENT_TYPE)
                request = Request("PUT", path, payload=command.content.payload, content_format=number)
        response = await self._endpoint.request(device.peer, request)
        _note_failure(device, type(command).__name__.lower(), command.path, response)
        return Answer(outcome(response.code))

    def _answer(self, device: RegisteredDevice, path: str, response: Response) -> Answer:
        if not response.is_success:
            return Answer(outcome(response.code))
        told = self._told(device, path, response)
        if told is None:
            return Answer(Outcome.UNSUPPORTED_CONTENT_TYPE)
        own = [each for each in told if each.path == path]
        if own:
            return Answer(Outcome.DONE, own[-1].content, own[-1].changed_at)
        whole = Content(response.payload, content_type(response.content_format, path), response.max_age_seconds)
        return Answer(Outcome.DONE, whole, parts=tuple((each.path, each.content) for each in told))

    def _told(self, device: RegisteredDevice, path: str, response: Response) -> list[Told] | None:
        try:
            return contents(
                response.payload, response.content_format, path, self._clock.now(), response.max_age_seconds
            )
        except BadPayload as error:
            _log.warning("device %s answered with an unreadable value of %s: %s", device.device_id, path, error)
            return None


def _request(device: RegisteredDevice, path: str, number: int) -> Request:
    return Request("GET", device.prefix + path, accept=number)


def _formats(device: RegisteredDevice, path: str) -> list[int]:
    """In which formats a value is asked for, the best first; text says a value as it is, and no structure."""
    is_resource = parse_path(path).resource_id is not None
    formats = [_TEXT, _TLV] if is_resource else [_TLV]
    if device.version != "1.0":
        formats += [_SENML_JSON, _SENML_CBOR]
    known = device.formats.get(path)
    return formats if known is None else [known, *(number for number in formats if number != known)]


def _remember(device: RegisteredDevice, path: str, number: int, response: Response) -> None:
    """Remember the format in which a device tells a value, where it is not the first that is asked for."""
    if not response.is_success or number == device.formats.get(path):
        return
    device.formats.pop(path, None)
    if number != _formats(device, path)[0]:
        device.formats[path] = number


def _note_failure(device: RegisteredDevice, what: str, path: str, response: Response) -> None:
    if not response.is_success:
        _log.warning("device %s: %s %s was answered with %s", device.device_id, what, path, response.code)
