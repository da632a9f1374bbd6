"""Conversion of rows of the core to the JSON of the interface. Source: wire.md 1, 4, 6 and 8."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

import orjson

from mirror_sdk.wire.model import Kind
from mirror_sdk.wire.snapshot import COLUMNS, Part
from mirror_server.core.messages import encode
from mirror_server.core.timestamps import Instant
from mirror_server.store.devices import DeviceRow
from mirror_server.store.logs import WebhookRow
from mirror_server.store.resources import AnnouncedResource, ResourceRow

if TYPE_CHECKING:
    from mirror_server.service.devices import DirectoryEntry

_EPOCH_IN_UTC = datetime(1970, 1, 1)
_MILLISECOND = timedelta(milliseconds=1)
_LAST_AT: Instant = (datetime(9999, 12, 31, 23, 59, 59, 999_000) - _EPOCH_IN_UTC) // _MILLISECOND


def timestamp(instant: Instant) -> str:
    """Format a time as RFC 3339 in UTC with milliseconds and ``Z``.

    RFC 3339 ends with the year 9999. A later time is formatted as the last millisecond of that year. Such times occur
    because a lifetime or a max-age can be up to 2**32 seconds.
    """
    # Formatting a naive datetime takes little more than half the time, and a device object has dozens of timestamps.
    return (_EPOCH_IN_UTC + min(instant, _LAST_AT) * _MILLISECOND).isoformat("T", "milliseconds") + "Z"


def device_content(device: DeviceRow, resources: Sequence[ResourceRow], app_id: str | None) -> bytes:
    """Encode the part of the device object (E1) that does not depend on the time of the request.

    The error category of a failed write is included only for the application that requested the write. Source:
    specification 3.1 and 7.
    """
    content = {
        "device_id": device.device_id,
        "endpoint_name": device.endpoint_name,
        "updated_at": timestamp(device.updated_at),
    }
    return orjson.dumps(content | resources_content(resources, app_id))


def device_object(content: bytes, now: Instant) -> bytes:
    """Return the body of E1, which consists of the encoded content and the time of the response."""
    head = orjson.dumps({"object": "device-echo", "created_at": timestamp(now)})
    # The parts are joined as bytes, because the content is cached and encoding it again would be slow.
    return head[:-1] + b"," + content[1:]


def resources_content(resources: Sequence[ResourceRow], app_id: str | None) -> dict[str, Any]:
    """Return those members of the device object (E1) that describe its resources."""
    content: dict[str, Any] = {}
    _put_newest(content, "last_reported_at", (row.reported_at for row in resources))
    _put_newest(content, "last_desired_at", (row.desired_at for row in resources))
    content["resources"] = [resource(row, app_id) for row in resources]
    return content


def _put_newest(content: dict[str, Any], name: str, instants: Iterable[Instant | None]) -> None:
    newest = max((instant for instant in instants if instant is not None), default=None)
    if newest is not None:
        content[name] = timestamp(newest)


def resource(row: ResourceRow, app_id: str | None) -> dict[str, Any]:
    """Return a resource of the device object (E1), with the members that this application may see."""
    return {
        "resource_path": row.path,
        "subscribed": None if row.subscribed is None else bool(row.subscribed),
        **_subscribed_since(row),
        "reported": _reported_members(row),
        "desired": _desired_members(row, app_id),
    }


def _subscribed_since(resource: ResourceRow) -> dict[str, Any]:
    if not resource.subscribed or resource.subscribed_at is None:
        return {}
    return {"subscribed_at": timestamp(resource.subscribed_at)}


def _reported_members(resource: ResourceRow) -> dict[str, Any]:
    if resource.reported_value is None or resource.reported_at is None:
        return {}
    return _members(resource, _REPORTED)


def _desired_members(resource: ResourceRow, app_id: str | None) -> dict[str, Any]:
    if resource.desired_value is None or resource.desired_at is None or resource.requested_at is None:
        return {}
    desired = _members(resource, _DESIRED)
    if app_id is None or app_id != resource.desired_app_id:
        desired.pop("category", None)
    return desired


_Members: TypeAlias = Sequence[tuple[int, str, Callable[[Any], Any] | None]]


def _members(resource: ResourceRow, members: _Members) -> dict[str, Any]:
    """Return the members that have a value.

    Each member is described by its index in the row, its name and its encoder.
    """
    content: dict[str, Any] = {}
    # A comprehension would be 10 percent slower, and this code runs for each resource of a fleet.
    for index, name, encode_value in members:
        value = resource[index]
        if value is not None:
            content[name] = encode_value(value) if encode_value else value
    return content


def _members_of(part: Part) -> _Members:
    encoders: dict[Kind, Callable[[Any], Any]] = {"bytes": encode, "instant": timestamp}
    return [
        (ResourceRow._fields.index(column.name), column.member, encoders.get(column.kind))
        for column in COLUMNS
        if column.part == part
    ]


_REPORTED, _DESIRED = _members_of("reported"), _members_of("desired")


def device(entry: DirectoryEntry) -> dict[str, Any]:
    """Return a device of the directory as JSON, with the members that extensions add."""
    row = entry.device
    members: dict[str, Any] = {
        "object": "device",
        "id": row.device_id,
        "name": row.endpoint_name,
        "endpoint_name": row.endpoint_name,
        "endpoint_type": row.endpoint_type,
        "state": "registered" if row.registered else "deregistered",
        "created_at": timestamp(row.created_at),
        "updated_at": timestamp(row.updated_at),
        "etag": timestamp(row.updated_at),
        "bootstrapped_timestamp": timestamp(row.created_at),
        "custom_attributes": {},
        "queue_mode": bool(row.queue_mode),
        "last_contact_at": timestamp(row.last_contact_at),
    }
    return members | entry.members


def endpoint_resource(resource: AnnouncedResource) -> dict[str, Any]:
    """Return a resource as JSON for the list of ``GET /v2/endpoints/{id}``."""
    return {
        "uri": resource.path,
        "obs": resource.observable,
        "rt": resource.resource_type,
        "type": resource.content_type,
    }


def access_key(key_id: str, scopes: Iterable[str]) -> dict[str, Any]:
    """Return an access key as JSON, without its secret."""
    return {"object": "api-key", "id": key_id, "scopes": sorted(scopes)}


def callback_channel(row: WebhookRow, backlog: int) -> dict[str, Any]:
    """Return a webhook as JSON, with the state of its delivery."""
    channel: dict[str, Any] = {
        "delivery_mechanism": "CALLBACK",
        "url": orjson.loads(row.registration)["url"],
        "backlog": backlog,
        "failures": row.failures,
    }
    if row.last_error is not None:
        channel["last_error"] = row.last_error
    for name, instant in [("last_success_at", row.last_success_at), ("next_attempt_at", row.next_attempt_at)]:
        if instant is not None:
            channel[name] = timestamp(instant)
    return channel
