"""Makes the JSON of the interface of rows of the core. Source: wire.md 1, 4, 6 and 8."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

import orjson

from mirror_sdk.wire.model import Kind
from mirror_sdk.wire.snapshot import COLUMNS, Part
from mirror_server.core.instants import Instant
from mirror_server.core.messages import encode
from mirror_server.store.devices import DeviceRow
from mirror_server.store.logs import WebhookRow
from mirror_server.store.resources import AnnouncedResource, ResourceRow

if TYPE_CHECKING:
    from mirror_server.service.devices import DirectoryEntry

_EPOCH_IN_UTC = datetime(1970, 1, 1)
_MILLISECOND = timedelta(milliseconds=1)
_LAST_AT: Instant = (datetime(9999, 12, 31, 23, 59, 59, 999_000) - _EPOCH_IN_UTC) // _MILLISECOND


def timestamp(instant: Instant) -> str:
    """RFC 3339 in UTC with milliseconds and ``Z``; what comes after the year 9999, which ends it, is its last instant.

    Lifetimes and freshness may be told in up to 2**32 seconds, and no such instant can be written.
    """
    # A moment without a zone is written in little more than half the time: a device object has dozens of them.
    return (_EPOCH_IN_UTC + min(instant, _LAST_AT) * _MILLISECOND).isoformat("T", "milliseconds") + "Z"


def device_content(device: DeviceRow, resources: Sequence[ResourceRow], app_id: str | None) -> bytes:
    """What E1 tells an application of a device, whenever it is asked.

    Why a write failed is told to the application that placed it, and to no other. Source: specification 3.1 and 7.
    """
    content = {
        "device_id": device.device_id,
        "endpoint_name": device.endpoint_name,
        "updated_at": timestamp(device.updated_at),
    }
    return orjson.dumps(content | resources_content(resources, app_id))


def device_object(content: bytes, now: Instant) -> bytes:
    """The body of E1: what it tells of the device, and when it was told."""
    head = orjson.dumps({"object": "device-echo", "created_at": timestamp(now)})
    return head[:-1] + b"," + content[1:]


def resources_content(resources: Sequence[ResourceRow], app_id: str | None) -> dict[str, Any]:
    """The members of E1 that are about resources."""
    told: dict[str, Any] = {}
    _put_newest(told, "last_reported_at", (row.reported_at for row in resources))
    _put_newest(told, "last_desired_at", (row.desired_at for row in resources))
    told["resources"] = [resource(row, app_id) for row in resources]
    return told


def _put_newest(content: dict[str, Any], name: str, instants: Iterable[Instant | None]) -> None:
    newest = max((instant for instant in instants if instant is not None), default=None)
    if newest is not None:
        content[name] = timestamp(newest)


def resource(row: ResourceRow, app_id: str | None) -> dict[str, Any]:
    """A resource as E1 tells an application of it."""
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
    """What there is of some members, each given as the place in the row, the name, and how its value is written."""
    told: dict[str, Any] = {}
    # A comprehension takes a tenth longer, of what is done for each resource of a fleet.
    for place, name, write in members:
        value = resource[place]
        if value is not None:
            told[name] = write(value) if write else value
    return told


def _members_of(part: Part) -> _Members:
    write: dict[Kind, Callable[[Any], Any]] = {"bytes": encode, "instant": timestamp}
    return [
        (ResourceRow._fields.index(column.name), column.member, write.get(column.kind))
        for column in COLUMNS
        if column.part == part
    ]


_REPORTED, _DESIRED = _members_of("reported"), _members_of("desired")


def device(found: DirectoryEntry) -> dict[str, Any]:
    """A device of the directory, with the members that extensions have of it."""
    row = found.device
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
    return members | found.members


def endpoint_resource(resource: AnnouncedResource) -> dict[str, Any]:
    """A resource as ``GET /v2/endpoints/{id}`` lists it."""
    return {
        "uri": resource.path,
        "obs": resource.observable,
        "rt": resource.resource_type,
        "type": resource.content_type,
    }


def access_key(key_id: str, scopes: Iterable[str]) -> dict[str, Any]:
    """An access key without its secret."""
    return {"object": "api-key", "id": key_id, "scopes": sorted(scopes)}


def callback_channel(row: WebhookRow, backlog: int) -> dict[str, Any]:
    """A webhook and how its delivery stands."""
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
