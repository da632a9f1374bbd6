"""The interface between the service and device connections, simulated ones and real ones alike.

A connection calls :class:`mirror_server.service.devices.DeviceService` with what devices do, and the service sends
commands to devices through a :class:`DeviceBackend`. No side holds a lock of its own while it calls the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol

from mirror_server.core.instants import Instant
from mirror_server.store.resources import AnnouncedResource


@dataclass(frozen=True, slots=True)
class Registration:
    """What a device says of itself when it registers.

    ``backend`` is the name of the :class:`DeviceBackend` it comes by, which gives a ``device_id`` if it decides that.
    """

    endpoint_name: str
    endpoint_type: str
    queue_mode: bool
    lifetime_seconds: int
    resources: tuple[AnnouncedResource, ...]
    backend: str
    device_id: str | None = None


class Content(NamedTuple):
    """A value on its way: raw payload, its content type, and for how many seconds it is fresh (``None``: not said)."""

    payload: bytes
    content_type: str = "text/plain"
    max_age_seconds: int | None = None


class Observation(NamedTuple):
    """A change notification or an auto-observation of a device.

    A named tuple, like its content, because it is created in half the time of a frozen dataclass. Thousands arrive per
    second.

    Attributes:
        device_id: The device.
        path: The resource.
        content: The value.
        changed_at: When the value changed, by the clock of the device.
        is_unsolicited: Whether the device sent it without an observation. The resource need not be auto-observed.
        is_published: Whether the device sent it with its registration or an update of it.
    """

    device_id: str
    path: str
    content: Content
    changed_at: Instant
    is_unsolicited: bool = False
    is_published: bool = False


@dataclass(frozen=True, slots=True)
class Read:
    """Read a resource; ``accept`` is the content type wished for."""

    path: str
    accept: str | None = None


@dataclass(frozen=True, slots=True)
class Write:
    """Write a resource."""

    path: str
    content: Content


@dataclass(frozen=True, slots=True)
class WriteAttributes:
    """Set notification rules of a resource, as a query string (``pmin=5&pmax=120``)."""

    path: str
    query: str


@dataclass(frozen=True, slots=True)
class Execute:
    """Execute a resource with an argument."""

    path: str
    content: Content


@dataclass(frozen=True, slots=True)
class Observe:
    """Begin to observe a resource; the answer carries its initial value."""

    path: str


@dataclass(frozen=True, slots=True)
class CancelObservation:
    """End the observation of a resource."""

    path: str


DeviceCommand = Read | Write | WriteAttributes | Execute | Observe | CancelObservation


class Outcome(Enum):
    """How a device answered, as (status, error category) of the async response. Source: wire.md 5."""

    DONE = (200, None)
    METHOD_NOT_ALLOWED = (400, "METHOD_NOT_ALLOWED")
    BAD_VALUE = (400, "BAD_VALUE")
    REJECTED = (400, "REJECTED")
    NOT_FOUND = (404, "RESOURCE_NOT_FOUND")
    PRECONDITION_FAILED = (412, "PRECONDITION_FAILED")
    TOO_LARGE = (413, "TOO_LARGE")
    UNSUPPORTED_CONTENT_TYPE = (415, "UNSUPPORTED_CONTENT_TYPE")
    UNAVAILABLE = (503, "NOT_CONNECTED")
    """The connection was lost before the device answered; an idempotent command may be tried again."""
    NO_ANSWER = (504, "TIMEOUT")
    """The device did not answer, however often it was asked; an idempotent command may be tried again."""
    NOT_SENT = (503, None)
    """Nothing reached the device, which is not reachable until it makes contact: this was no attempt."""

    @property
    def is_of_device(self) -> bool:
        """Whether the device itself answered."""
        return self not in _WITHOUT_RESPONSE


_WITHOUT_RESPONSE = frozenset({Outcome.UNAVAILABLE, Outcome.NO_ANSWER, Outcome.NOT_SENT})


@dataclass(frozen=True, slots=True)
class DeviceResponse:
    """A device's answer to one command; ``content`` for a read and an observe that were done."""

    outcome: Outcome
    content: Content | None = None
    responded_at: Instant | None = None
    """The device's time of the value, when it differs from the time of arrival."""
    parts: tuple[tuple[str, Content], ...] | None = None
    """Of an object instance that was read whole: its resources by their paths; ``None`` for one resource."""


@dataclass(frozen=True, slots=True)
class ConnectionStatus:
    """How a device is connected, as its backend knows it; ``None`` where that has no such thing, or was not told.

    Attributes:
        protocol: By what messages go, as ``coap``, or ``coaps`` with DTLS.
        lwm2m_version: The version of LwM2M the device registered with, as ``1.1``.
        binding: What it said of its transport: ``U``, or ``UQ`` in queue mode.
        address: Address and port its messages come from, ``192.0.2.1:40000`` or ``[2001:db8::1]:40000``.
    """

    protocol: str
    lwm2m_version: str | None = None
    binding: str | None = None
    address: str | None = None


SplitInstance = Callable[[str, Content], Sequence[tuple[str, Content]]]
"""Gives the values of resources that stand in the payload of an object instance, by their paths.

Raises ValueError, with the reason, where it cannot be read.
"""


class DeviceBackend(Protocol):
    """A kind of device connection: the way to the devices that come by it. All may be called on any thread."""

    @property
    def name(self) -> str:
        """As the directory has it of each device that registered by it."""

    @property
    def split_instance(self) -> SplitInstance | None:
        """How an object instance is taken apart; ``None`` where devices read and write single resources only."""

    def has(self, device_id: str) -> bool:
        """Whether the device is connected here; looked up for each command."""

    def is_reachable(self, device_id: str) -> bool:
        """Whether a command sent now would arrive; false for a device that sleeps or is gone."""

    def send(self, device_id: str, command: DeviceCommand, response: Callable[[DeviceResponse], None]) -> None:
        """Send a command; ``answer`` is called at most once, now or later, on any thread."""

    def cancel(
        self, device_id: str, command: DeviceCommand, cancelled: Callable[[bool], None], *, also_sent: bool
    ) -> None:
        """Do not send a command whose time is over, so that the next one need not wait for it.

        Args:
            device_id: The device.
            command: The object that was given to :meth:`send`; if something else is in flight by now, that goes on.
            cancelled: Called once, on any thread, with false if nothing of the command was sent, nor will be.
            also_sent: Whether to stop to wait for the response to a command that was sent, too.
        """

    def describe(self, device_id: str) -> ConnectionStatus | None:
        """How a device is connected; ``None`` for one that is not connected here."""


class NotRegistered(Exception):
    """The device is not registered here (any more); it has to make a full registration."""


class NameTaken(Exception):
    """A device of another backend has the endpoint name."""
