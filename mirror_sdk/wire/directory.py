"""The models of the device directory. Source: wire.md 6."""

from __future__ import annotations

import re
from datetime import datetime
from html import escape
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from mirror_sdk._formatting import CARD, TimePrecision, html_table, time_precision, time_text, visible
from mirror_sdk.wire.model import EntryPage, Timestamp, WireModel

FILTER_FIELDS = (
    "id",
    "name",
    "description",
    "endpoint_name",
    "endpoint_type",
    "state",
    "created_at",
    "updated_at",
    "bootstrapped_timestamp",
    "etag",
)
FILTER_OPERATORS = ("eq", "neq", "in", "nin", "gte", "lte", "gt", "lt")
ATTRIBUTE_FILTER = "custom_attributes"
"""The prefix of filters by attribute, such as ``custom_attributes__room`` for the attribute ``room``."""
UNSUPPORTED_FIELDS = (
    "account_id",
    "auto_update",
    "bootstrap_expiration_date",
    "ca_id",
    "connector_expiration_date",
    "deployed_state",
    "deployment",
    "device_class",
    "device_execution_mode",
    "device_key",
    "enrolment_list_timestamp",
    "firmware_checksum",
    "groups",
    "host_gateway",
    "manifest",
    "manifest_timestamp",
    "mechanism",
    "mechanism_url",
    "serial_number",
    "vendor_id",
)
"""Members that only devices of the public API have, because they concern services that a mirror does not provide."""
STATES = ("registered", "deregistered", "unenrolled", "cloud_enrolling", "bootstrapped")
"""The states of the public API. A device of a mirror has one of the first two."""
INCLUDED = ("total_count", "totalCount")
"""The values of the parameter ``include``, in the spellings of the public API and of its client library."""
DEFAULT_LIMIT = 50
MIN_LIMIT = 2
MAX_LIMIT = 1000
MAX_NAME_CHARACTERS = 128
MAX_DESCRIPTION_CHARACTERS = 2000
MAX_ATTRIBUTES = 5
MAX_ATTRIBUTE_CHARACTERS = 128


class Device(WireModel):
    """A device in the directory.

    Attributes:
        id: The id of the device.
        name: A name that users can set. By default, it is the ``endpoint_name``.
        description: A description that users can set. Absent if they have not set one.
        endpoint_name: The name with which the device registers.
        endpoint_type: The type with which the device registers.
        state: The state of the device: ``registered`` or ``deregistered``.
        created_at: The time at which the device first registered.
        updated_at: The time of the last registration, registration update or deregistration.
        etag: A version string of this entry. It changes whenever the device registers or updates its registration, and
            whenever one of the attributes changes.
        bootstrapped_timestamp: The same time as ``created_at``.
        custom_attributes: The attributes that users have set.
        queue_mode: Whether the device sleeps between contacts, and receives its requests at the next contact. An
            extension of the specification.
        last_contact_at: The time at which the device last sent anything, such as a registration, a value or a response.
            Absent if the service does not know this time. An extension of the specification.
    """

    object: Literal["device"] = "device"
    id: str
    name: str | None = None
    description: str | None = None
    endpoint_name: str
    endpoint_type: str | None = None
    state: str
    created_at: Timestamp
    updated_at: Timestamp
    etag: str | None = None
    bootstrapped_timestamp: Timestamp | None = None
    custom_attributes: dict[str, Any] = {}
    queue_mode: bool = False
    last_contact_at: Timestamp | None = None

    def __repr__(self) -> str:
        """Return a short description of the device in one line. ``model_dump()`` returns all members."""
        queue_mode = " queue_mode" if self.queue_mode else ""
        return (
            f"<Device {visible(self.id)} endpoint_name={self.endpoint_name!r} endpoint_type={self.endpoint_type!r}"
            f" {visible(self.state)}{queue_mode}>"
        )

    __str__ = __repr__

    def _repr_html_(self) -> str:
        precision = time_precision([self.created_at, self.updated_at, self.last_contact_at])
        fields = [
            ("device id", self.id),
            ("name", self.name or ""),
            ("description", self.description or ""),
            ("type", self.endpoint_type or ""),
            ("state", self.state),
            ("queue mode", "yes" if self.queue_mode else "no"),
            ("created at (UTC)", time_text(self.created_at, precision)),
            ("last registration event (UTC)", time_text(self.updated_at, precision)),
            ("last contact (UTC)", _time_or_nothing(self.last_contact_at, precision)),
            *self.custom_attributes.items(),
        ]
        rows = ((_cell(name), _cell(value)) for name, value in fields if value != "")
        return f"<div {CARD}><strong>{_cell(self.endpoint_name)}</strong>{html_table(_COLUMNS, rows)}</div>"


_COLUMNS = ("field", "value")
_MAX_CELL_LENGTH = 200


def _cell(value: object) -> str:
    text = str(value)
    return escape(visible(text if len(text) <= _MAX_CELL_LENGTH else f"{text[: _MAX_CELL_LENGTH - 1]}…"))


def check_printable(text: str) -> str:
    """Return a string if all of its characters are printable.

    Raises:
        ValueError: The string contains a character that is not printable.
    """
    if not text.isprintable():
        raise ValueError("has characters that cannot be shown; use only printable characters")
    return text


def _check_text(text: str) -> str:
    if "\0" in text:
        raise ValueError("contains the character U+0000; remove the character")
    return text


def _check_attribute_name(name: str) -> str:
    # By the rules of the public API, a filter cannot contain an attribute whose name begins with a digit.
    if not re.fullmatch(_ATTRIBUTE_NAME, name):
        raise ValueError(f"{name!r} is not a valid attribute name; start with a letter, and use printable characters")
    return name


PRINTABLE = {"pattern": r"^[^\x00-\x1f\x7f-\xa0]*$"}
_TEXT = {"pattern": r"^[^\x00]*$"}
_Attribute = Annotated[
    str, Field(max_length=MAX_ATTRIBUTE_CHARACTERS, json_schema_extra=_TEXT), AfterValidator(_check_text)
]
_ATTRIBUTE_NAME = r"^[^0-9\x00-\x1f\x7f-\xa0][^\x00-\x1f\x7f-\xa0]*$"
_AttributeName = Annotated[
    str,
    Field(min_length=1, max_length=MAX_ATTRIBUTE_CHARACTERS, json_schema_extra={"pattern": _ATTRIBUTE_NAME}),
    AfterValidator(_check_attribute_name),
]


class DeviceUpdate(WireModel):
    """The changes to make to a device in the directory. Omitted members stay unchanged.

    An empty ``name`` or ``description`` resets it. ``custom_attributes`` replaces all attributes. A program may send
    the whole device back, because the server accepts read-only members if their values are unchanged.

    Attributes:
        id: Read-only.
        endpoint_name: Read-only, because the device sets it.
        endpoint_type: Read-only, because the device sets it.
        state: Read-only, because it changes when the device registers or deregisters.
        created_at: Read-only.
        updated_at: Read-only.
        etag: Read-only.
        bootstrapped_timestamp: Read-only.
        queue_mode: Read-only.
        last_contact_at: Read-only.
    """

    name: (
        Annotated[
            str, Field(max_length=MAX_NAME_CHARACTERS, json_schema_extra=PRINTABLE), AfterValidator(check_printable)
        ]
        | None
    ) = None
    description: (
        Annotated[
            str, Field(max_length=MAX_DESCRIPTION_CHARACTERS, json_schema_extra=_TEXT), AfterValidator(_check_text)
        ]
        | None
    ) = None
    custom_attributes: Annotated[dict[_AttributeName, _Attribute], Field(max_length=MAX_ATTRIBUTES)] | None = None
    object: Literal["device"] | None = None
    id: str | None = None
    endpoint_name: str | None = None
    endpoint_type: str | None = None
    state: str | None = None
    created_at: str | None = None
    updated_at: str | None = None
    etag: str | None = None
    bootstrapped_timestamp: str | None = None
    queue_mode: bool | None = None
    last_contact_at: str | None = None


class DevicePage(EntryPage):
    """One page of the directory. It contains ``total_count`` only if that was requested."""

    data: list[Device]
    total_count: int | None = None


class DeviceConnection(WireModel):
    """The connection between the service and a device. An extension of the specification.

    Attributes:
        device_id: The id of the device.
        protocol: The protocol: ``coap``, ``coaps`` (with DTLS) or ``simulated``. More protocols may be added. Absent if
            the service has no connection to the device.
        lwm2m_version: The version of LwM2M with which the device registered, such as ``1.1``. Absent for other
            protocols.
        binding: The binding with which the device registered: ``U``, or ``UQ`` in queue mode.
        reachable: Whether a request would reach the device now. It is false while the device sleeps.
        lifetime_seconds: The time in seconds after which the registration ends without an update.
        registration_expires_at: The time at which the registration ends unless the device updates it. Absent for a
            device that is not registered.
        last_contact_at: The time at which the device last sent anything.
        address: The address and port from which the device sends. Only a key with the scope ``admin`` receives it.
    """

    object: Literal["device-connection"] = "device-connection"
    device_id: str
    protocol: str | None = None
    lwm2m_version: str | None = None
    binding: str | None = None
    reachable: bool
    lifetime_seconds: int
    registration_expires_at: Timestamp | None = None
    last_contact_at: Timestamp
    address: str | None = None

    @property
    def way(self) -> str:
        """The protocols, such as ``LwM2M 1.1 over CoAP with DTLS``, or an empty string if they are unknown."""
        if self.protocol is None:
            return ""
        carrier = _CARRIERS.get(self.protocol)
        if carrier is None:
            return visible(self.protocol)
        return f"LwM2M {visible(self.lwm2m_version or '')}".rstrip() + f" over {carrier}"

    def rows(self) -> list[tuple[str, str]]:
        """Return the known properties of the connection as pairs of strings, each with a name and a value."""
        precision = time_precision([self.registration_expires_at, self.last_contact_at])
        known = [
            ("protocol", self.way),
            ("binding", self.binding or ""),
            ("can be reached", "now" if self.reachable else "not now"),
            ("lifetime", f"{self.lifetime_seconds} s"),
            ("registered until (UTC)", _time_or_nothing(self.registration_expires_at, precision)),
            ("last contact (UTC)", time_text(self.last_contact_at, precision)),
            ("address", self.address or ""),
        ]
        return [(name, visible(text)) for name, text in known if text]

    def __repr__(self) -> str:
        """Return a short description of the connection in one line. ``rows()`` returns all properties."""
        reachable = "reachable" if self.reachable else "not reachable now"
        way = f"{self.way}, " if self.way else ""
        return f"<DeviceConnection {way}{reachable}, last contact {time_text(self.last_contact_at)}>"

    __str__ = __repr__

    def _repr_html_(self) -> str:
        return f"<div {CARD}>{html_table(_COLUMNS, ((_cell(name), _cell(text)) for name, text in self.rows()))}</div>"


_CARRIERS = {"coap": "CoAP", "coaps": "CoAP with DTLS"}


def _time_or_nothing(at: datetime | None, precision: TimePrecision) -> str:
    return "" if at is None else time_text(at, precision)


class DeviceContacts(WireModel):
    """The most recent contacts of a device, according to the notification log of the application.

    An extension of the specification.

    ``heard_at`` contains the times of the values that the device sent because of a subscription of the application,
    newest last. It contains only values shortly before the last contact of the device.

    Attributes:
        device_id: The id of the device.
    """

    object: Literal["device-contacts"] = "device-contacts"
    device_id: str
    heard_at: list[Timestamp]


class EndpointResource(WireModel):
    """A resource of a device as ``GET /v2/endpoints/{id}`` lists it.

    Attributes:
        uri: The resource path.
        obs: Whether applications can subscribe to the resource.
        rt: The resource type. It is empty if the device does not send it.
        type: The content type of the resource. It is empty if the device does not send it.
    """

    uri: str
    obs: bool
    rt: str = ""
    type: str = ""
