"""The resources of a device: their links, payloads and observations.

Source: LwM2M core 5.1.2, 6.2.1, 6.4, and its data formats; RFC 6690; RFC 7641.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import cbor2

from mirror_sdk.errors import InvalidValue
from mirror_sdk.values import (
    LWM2M_TLV,
    OCTET_STREAM,
    SENML_CBOR,
    SENML_JSON,
    TEXT_PLAIN,
    PythonValue,
    decode_many,
    encode,
)
from mirror_sdk.wire.paths import parse_path
from mirror_server.core.timestamps import Instant, after_seconds
from mirror_server.extensions.lwm2m.links import is_within

TEXT, LINKS, OCTETS, JSON_RECORDS, CBOR_RECORDS, TLV = 0, 40, 42, 110, 112, 11542
CONTENT_TYPES: Mapping[int, str] = {
    TEXT: TEXT_PLAIN,
    OCTETS: OCTET_STREAM,
    JSON_RECORDS: SENML_JSON,
    CBOR_RECORDS: SENML_CBOR,
    TLV: LWM2M_TLV,
}
FORMATS_OF_VERSION: Mapping[str, frozenset[int]] = {
    "1.0": frozenset({TEXT, OCTETS, TLV}),
    "1.1": frozenset(CONTENT_TYPES),
}
_CBOR_TIME = 6
_SEQUENCES = 1 << 24


@dataclass(slots=True)
class DeviceResource:
    """A resource of a device.

    Attributes:
        path: Its path, such as ``/3303/0/5700``.
        value: The value, or ``None`` if the resource has no value, for example because it is executable.
        writable: Whether the server can write it.
        observable: Whether it is announced as observable.
        auto_observed_token: If set, changes are sent without an observe request, with this token of two bytes.
        accepts: Returns whether a value of the declared type can be written. By default any can.
        on_write: Called with each written value.
        on_execute: Called with the argument of each execute. If set, the resource is executable.
        changed_at: The time of the last change of the value.
    """

    path: str
    value: PythonValue | None = None
    writable: bool = False
    observable: bool = True
    auto_observed_token: int | None = None
    accepts: Callable[[PythonValue], bool] | None = None
    on_write: Callable[[PythonValue], None] | None = None
    on_execute: Callable[[bytes], None] | None = None
    changed_at: Instant = 0

    @property
    def is_executable(self) -> bool:
        """Whether it can be executed. It then has no value."""
        return self.on_execute is not None

    def can_be_set_to(self, value: PythonValue) -> bool:
        """Whether a value can be written: it has the declared type and range, and is accepted."""
        try:
            encode(value, self.path, allow_read_only=True)
        except InvalidValue:
            return False
        return self.accepts is None or self.accepts(value)

    def set(self, value: PythonValue, now: Instant) -> None:
        """Set the value.

        Raises:
            InvalidValue: The value does not have the declared type and range.
        """
        encode(value, self.path, allow_read_only=True)
        if value != self.value:
            self.value, self.changed_at = value, now


def changed_attributes(attributes: Mapping[str, int], query: Iterable[str]) -> dict[str, int]:
    """Return the notification attributes after Write-Attributes: ``pmin=5`` sets one, ``pmin`` removes it.

    ``pmin`` is the minimum time between two notifications in seconds, ``pmax`` the maximum.

    Raises:
        ValueError: The query is empty, or has an unknown attribute or one that is not a number of seconds.

    Source: LwM2M core 5.1.2.
    """
    words = [word.partition("=") for word in query]
    if not words or any(name not in {"pmin", "pmax"} for name, _, _ in words):
        raise ValueError("supported attributes are pmin and pmax")
    changed = {**attributes, **{name: _seconds(text) for name, equals, text in words if equals}}
    removed = {name for name, equals, _ in words if not equals}
    return {name: changed[name] for name in ("pmin", "pmax") if name in changed and name not in removed}


def _seconds(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise ValueError(f"{text!r} is not a number of seconds")
    return int(text)


def outer_paths(path: str) -> list[str]:
    """Return a path and the paths above it: ``/3303/0/5700``, ``/3303/0``, ``/3303``."""
    words = path.strip("/").split("/")
    return ["/" + "/".join(words[:length]) for length in range(len(words), 0, -1)]


def write_links(resources: Iterable[DeviceResource]) -> str:
    """Return the links of a registration. Source: LwM2M core 6.2.1; RFC 6690."""
    links = []
    for resource in sorted(resources, key=lambda resource: parse_path(resource.path)):
        link = f"<{resource.path}>"
        if not resource.is_executable and resource.observable:
            link += ";obs"
        if resource.auto_observed_token is not None:
            link += f';aobs="{resource.auto_observed_token}"'
        links.append(link)
    return ",".join(links)


@dataclass(slots=True)
class DeviceObservation:
    """An observation of a resource or an object instance, with the last notification."""

    path: str
    token: bytes
    content_format: int
    sent: bytes
    sent_at: Instant


class DeviceObservations:
    """The observations of a device.

    Attributes:
        sequence: The last used Observe number. It wraps around after 24 bits.
    """

    def __init__(self) -> None:
        self.sequence = 0
        self._by_token: dict[bytes, DeviceObservation] = {}
        self._attributes: dict[str, Mapping[str, int]] = {}

    def __len__(self) -> int:
        return len(self._by_token)

    def all(self) -> list[DeviceObservation]:
        """Return all observations, in the order of their start."""
        return list(self._by_token.values())

    def next_sequence(self) -> int:
        """Return the Observe number of the next notification."""
        self.sequence = (self.sequence + 1) % _SEQUENCES
        return self.sequence

    def start(self, observation: DeviceObservation) -> None:
        """Add an observation.

        It replaces overlapping observations, as in LwM2M stacks that have one observation per path.
        """
        for other in self.all():
            if is_within(other.path, observation.path) or is_within(observation.path, other.path):
                del self._by_token[other.token]
        self._by_token[observation.token] = observation

    def end(self, token: bytes) -> None:
        """Remove the observation with this token, if there is one."""
        self._by_token.pop(token, None)

    def clear(self) -> None:
        """Remove all observations."""
        self._by_token.clear()

    def affected_by(self, path: str) -> list[DeviceObservation]:
        """Return the observations that include a resource."""
        return [each for each in self._by_token.values() if is_within(path, each.path)]

    def own_attributes(self, path: str) -> Mapping[str, int]:
        """Return the attributes that were written to exactly this path."""
        return self._attributes.get(path, {})

    def set_attributes(self, path: str, attributes: Mapping[str, int]) -> None:
        """Store the attributes that were written to a path."""
        self._attributes[path] = attributes

    def earliest_at(self, observation: DeviceObservation) -> Instant:
        """Return the earliest time of the next notification."""
        return after_seconds(observation.sent_at, self._inherited(observation).get("pmin", 0))

    def latest_at(self, observation: DeviceObservation) -> Instant | None:
        """Return the time of the next notification if nothing changes, or ``None`` if there is no limit."""
        seconds = self._inherited(observation).get("pmax")
        if seconds is None:
            return None
        return max(after_seconds(observation.sent_at, seconds), self.earliest_at(observation))

    def _inherited(self, observation: DeviceObservation) -> dict[str, int]:
        """Return the attributes that apply to a path.

        The attributes of an inner path override the attributes of outer paths.
        """
        found: dict[str, int] = {}
        for path in reversed(outer_paths(observation.path)):
            found |= self.own_attributes(path)
        return found


class NotAcceptable(Exception):
    """A content format cannot represent the values."""


def encode_values(
    values: Mapping[str, PythonValue], path: str, content_format: int, at: Mapping[str, Instant] | None = None
) -> bytes:
    """Encode the values of a resource or an object instance.

    Args:
        values: The values, by path.
        path: The requested path.
        content_format: CoAP's number of the format.
        at: The times of the values, by path, to include in SenML.

    Raises:
        NotAcceptable: The format cannot represent them.
    """
    is_possible = {TEXT: path in values, OCTETS: isinstance(values.get(path), bytes), TLV: path.count("/") > 1}
    if not is_possible.get(content_format, True):
        raise NotAcceptable(path)
    content_type = CONTENT_TYPES[content_format]
    try:
        encoded = {each: encode(value, each, content_type, allow_read_only=True)[0] for each, value in values.items()}
    except InvalidValue as error:
        raise NotAcceptable(path) from error
    if content_format == JSON_RECORDS:
        records = [_timed(json.loads(record)[0], "t", each, at) for each, record in encoded.items()]
        return json.dumps(records, separators=(",", ":")).encode()
    if content_format == CBOR_RECORDS:
        return cbor2.dumps([_timed(cbor2.loads(record)[0], _CBOR_TIME, each, at) for each, record in encoded.items()])
    return b"".join(encoded.values())


def _timed(record: dict[Any, Any], label: str | int, path: str, at: Mapping[str, Instant] | None) -> dict[Any, Any]:
    return record if at is None else {**record, label: at[path] / 1000}


def decode_values(payload: bytes, path: str, content_format: int) -> dict[str, PythonValue]:
    """Return the values in a payload, by path.

    Raises:
        ValueError: A value does not have the declared type, or cannot be decoded.
    """
    values = {}
    for found, value in decode_many(payload, CONTENT_TYPES[content_format], path).items():
        if value.problem is not None or value.python is None or isinstance(value.python, Mapping):
            raise ValueError(value.problem or f"{found} has no value")
        values[found] = value.python
    return values
