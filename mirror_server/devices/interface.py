"""The interface between the service and device connections, both simulated and real.

A connection reports the events of devices to :class:`mirror_server.service.devices.DeviceService`. The service sends
commands to devices through a :class:`DeviceBackend`. Neither side holds its own lock while it calls the other side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol

from mirror_server.core.timestamps import Instant
from mirror_server.store.resources import AnnouncedResource


@dataclass(frozen=True, slots=True)
class Registration:
    """The data of a device registration.

    ``backend`` is the name of the :class:`DeviceBackend` that received the registration. ``device_id`` is set only if
    the backend chooses the ids of its devices.
    """

    endpoint_name: str
    endpoint_type: str
    queue_mode: bool
    lifetime_seconds: int
    resources: tuple[AnnouncedResource, ...]
    backend: str
    device_id: str | None = None


class Content(NamedTuple):
    """A value in transit: the raw payload, the content type, and the freshness in seconds (``None`` if unspecified)."""

    payload: bytes
    content_type: str = "text/plain"
    max_age_seconds: int | None = None


class Observation(NamedTuple):
    """A change notification or an auto-observation that a device sent.

    This class is a named tuple, because creating it takes half the time of creating a frozen dataclass, and thousands
    of observations arrive per second. The same applies to :class:`Content`.

    Attributes:
        device_id: The id of the device.
        path: The path of the resource.
        content: The value.
        changed_at: The time at which the value changed, by the clock of the device.
        is_unsolicited: Whether the device sent the value without a request to observe the resource. This can also
            happen for resources that are not auto-observed.
        is_published: Whether the device sent the value together with its registration or a registration update.
    """

    device_id: str
    path: str
    content: Content
    changed_at: Instant
    is_unsolicited: bool = False
    is_published: bool = False


@dataclass(frozen=True, slots=True)
class Read:
    """A command that reads a resource. ``accept`` is the preferred content type."""

    path: str
    accept: str | None = None


@dataclass(frozen=True, slots=True)
class Write:
    """A command that writes a resource."""

    path: str
    content: Content


@dataclass(frozen=True, slots=True)
class WriteAttributes:
    """A command that sets the notification rules of a resource, as a query string (``pmin=5&pmax=120``)."""

    path: str
    query: str


@dataclass(frozen=True, slots=True)
class Execute:
    """A command that executes a resource with an argument."""

    path: str
    content: Content


@dataclass(frozen=True, slots=True)
class Observe:
    """A command that starts an observation of a resource. The response contains the initial value."""

    path: str


@dataclass(frozen=True, slots=True)
class CancelObservation:
    """A command that cancels the observation of a resource."""

    path: str


DeviceCommand = Read | Write | WriteAttributes | Execute | Observe | CancelObservation


class Outcome(Enum):
    """The outcome of a command, which determines the status and the error category of the async response.

    Source: wire.md 5.
    """

    DONE = (200, None)
    METHOD_NOT_ALLOWED = (400, "METHOD_NOT_ALLOWED")
    BAD_VALUE = (400, "BAD_VALUE")
    REJECTED = (400, "REJECTED")
    NOT_FOUND = (404, "RESOURCE_NOT_FOUND")
    PRECONDITION_FAILED = (412, "PRECONDITION_FAILED")
    TOO_LARGE = (413, "TOO_LARGE")
    UNSUPPORTED_CONTENT_TYPE = (415, "UNSUPPORTED_CONTENT_TYPE")
    UNAVAILABLE = (503, "NOT_CONNECTED")
    """The connection was lost before a response arrived. An idempotent command may be retried."""
    NO_RESPONSE = (504, "TIMEOUT")
    """The device did not respond to any transmission. An idempotent command may be retried."""
    NOT_SENT = (503, None)
    """Nothing was sent, because the device is unreachable until its next contact. This does not count as an attempt."""

    @property
    def is_from_device(self) -> bool:
        """Whether the device itself responded."""
        return self not in _WITHOUT_RESPONSE


_WITHOUT_RESPONSE = frozenset({Outcome.UNAVAILABLE, Outcome.NO_RESPONSE, Outcome.NOT_SENT})


@dataclass(frozen=True, slots=True)
class DeviceResponse:
    """The response of a device to a command. ``content`` is set if a read or observe command succeeded."""

    outcome: Outcome
    content: Content | None = None
    responded_at: Instant | None = None
    """The time of the value according to the device, if it differs from the time at which the response arrived."""
    instance_values: tuple[tuple[str, Content], ...] | None = None
    """The paths and values of an object instance that was read, or ``None`` for a single resource."""


@dataclass(frozen=True, slots=True)
class ConnectionStatus:
    """The connection of a device. A field is ``None`` if it does not apply to the backend or is unknown.

    Attributes:
        protocol: The transport protocol: ``coap``, or ``coaps`` with DTLS.
        lwm2m_version: The LwM2M version of the registration, such as ``1.1``.
        binding: The binding mode of the registration: ``U``, or ``UQ`` in queue mode.
        address: The source address and port of the device's messages: ``192.0.2.1:40000`` or ``[2001:db8::1]:40000``.
    """

    protocol: str
    lwm2m_version: str | None = None
    binding: str | None = None
    address: str | None = None


SplitInstance = Callable[[str, Content], Sequence[tuple[str, Content]]]
"""A function that splits the payload of an object instance into the paths and values of its resources.

It raises a ValueError with the reason if it cannot parse the payload.
"""


class DeviceBackend(Protocol):
    """A kind of device connection. All methods are thread-safe."""

    @property
    def name(self) -> str:
        """The name of the backend. The directory stores it for each device of the backend."""

    @property
    def split_instance(self) -> SplitInstance | None:
        """The function that splits object instances, or ``None`` if devices support only single resources."""

    def has(self, device_id: str) -> bool:
        """Return whether the device is connected to this backend.

        This must be fast, because it is called for each command.
        """

    def is_reachable(self, device_id: str) -> bool:
        """Return whether a command that is sent now would arrive.

        The result is false if the device sleeps or is disconnected.
        """

    def send(self, device_id: str, command: DeviceCommand, response: Callable[[DeviceResponse], None]) -> None:
        """Send a command. ``response`` is called at most once, before or after this method returns, on any thread."""

    def cancel(
        self, device_id: str, command: DeviceCommand, cancelled: Callable[[bool], None], *, also_sent: bool
    ) -> None:
        """Cancel a command that timed out, so that the next command need not wait for it.

        Args:
            device_id: The id of the device.
            command: The object that was passed to :meth:`send`. If another command is in flight, that command
                continues.
            cancelled: A function that is called once, on any thread. Its argument is false if no part of the command
                was or will be sent.
            also_sent: Whether to stop waiting for the response if the command was already sent.
        """

    def describe(self, device_id: str) -> ConnectionStatus | None:
        """Return the connection of a device, or ``None`` if the device is not connected to this backend."""


class NotRegistered(Exception):
    """The device is not registered, or its registration has ended. It has to make a full registration."""


class NameInUse(Exception):
    """A device of another backend has the endpoint name."""
