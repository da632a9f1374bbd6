"""Makes the JSON of the interface of the server's rows; the only place that does. Source: wire.md 1, 4, 6, 8 and 9."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import orjson

from mirror_sdk.wire.older_calls import ALWAYS_ACTIVE, NO_QUOTA
from mirror_server.core.commands import Command
from mirror_server.core.events import encode
from mirror_server.core.instants import Instant
from mirror_server.service.connections import DeviceConnection
from mirror_server.service.devices import Described
from mirror_server.service.snapshots import Snapshot
from mirror_server.store.callbacks import CallbackRow
from mirror_server.store.device_events import KINDS, DeviceEventRow
from mirror_server.store.device_queries import DeviceQueryRow
from mirror_server.store.devices import DeviceRow
from mirror_server.store.resources import AnnouncedResource, ResourceRow
from mirror_server.store.snapshots import Page

_INSTANTS_OF_A_ROW = {"changed_at", "received_at", "requested_at", "until"}
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
    return orjson.dumps(content | _resources(resources, app_id))


def device_object(content: bytes, now: Instant) -> bytes:
    """The body of E1: what it tells of the device, and when it was told."""
    head = orjson.dumps({"object": "device-echo", "created_at": timestamp(now)})
    return head[:-1] + b"," + content[1:]


def past_device_object(
    device_id: str, endpoint_name: str, resources: Sequence[ResourceRow], app_id: str, instant: Instant
) -> bytes:
    """The body of E1 as of an earlier instant."""
    told = {"object": "device-echo", "created_at": timestamp(instant), "device_id": device_id}
    return orjson.dumps(told | {"endpoint_name": endpoint_name} | _resources(resources, app_id))


def _resources(resources: Sequence[ResourceRow], app_id: str | None) -> dict[str, Any]:
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
        "reported": _reported(row),
        "desired": _desired(row, app_id),
    }


def _subscribed_since(resource: ResourceRow) -> dict[str, Any]:
    if not resource.subscribed or resource.subscribed_at is None:
        return {}
    return {"subscribed_at": timestamp(resource.subscribed_at)}


def _reported(resource: ResourceRow) -> dict[str, Any]:
    if resource.reported_value is None or resource.reported_at is None:
        return {}
    reported: dict[str, Any] = {
        "value": encode(resource.reported_value),
        "content_type": resource.reported_content_type,
        "reported_at": timestamp(resource.reported_at),
    }
    if resource.reported_expires_at is not None:
        reported["expires_at"] = timestamp(resource.reported_expires_at)
    if resource.reported_origin is not None:
        reported["origin"] = resource.reported_origin
    if resource.reported_revision is not None:
        reported["revision"] = resource.reported_revision
    return reported


def _desired(resource: ResourceRow, app_id: str | None) -> dict[str, Any]:
    if resource.desired_value is None or resource.desired_at is None or resource.requested_at is None:
        return {}
    desired: dict[str, Any] = {
        "value": encode(resource.desired_value),
        "content_type": resource.desired_content_type,
        "status": resource.desired_status,
        "desired_at": timestamp(resource.desired_at),
    }
    if resource.desired_updated_at is not None:
        desired["status_updated_at"] = timestamp(resource.desired_updated_at)
    is_issuer = app_id is not None and app_id == resource.desired_app_id
    if is_issuer and resource.desired_category is not None:
        desired["category"] = resource.desired_category
    desired["requested_at"] = timestamp(resource.requested_at)
    if resource.desired_revision is not None:
        desired["revision"] = resource.desired_revision
    if resource.acknowledged_at is not None:
        desired["acknowledged_at"] = timestamp(resource.acknowledged_at)
        desired["acknowledged_by"] = resource.acknowledged_by
    return desired


def unchanged_device(device: DeviceRow) -> bytes:
    """A device of which a fleet snapshot tells only that it is there."""
    return orjson.dumps({"object": "device-echo-unchanged", "device_id": device.device_id})


def snapshot_end(snapshot: Snapshot) -> bytes:
    """How a fleet snapshot ends."""
    return orjson.dumps(
        {
            "object": "snapshot-end",
            "taken_at": timestamp(snapshot.taken_at),
            "device_count": snapshot.device_count,
            "revision": snapshot.revision,
            "seq": snapshot.seq,
        }
    )


def history_row(row: Mapping[str, Any]) -> bytes:
    """A row of the history; what it does not have is left out."""
    told = {"object": "history-row"} | {name: value for name, value in row.items() if value is not None}
    for name in _INSTANTS_OF_A_ROW & told.keys():
        told[name] = timestamp(told[name])
    if "value" in told:
        told["value"] = encode(told["value"])
    return orjson.dumps(told)


def history_cursor(after: str) -> bytes:
    """What goes on behind the rows of a history so far."""
    return orjson.dumps({"object": "history-cursor", "after": after})


def history_end(*, taken_at: Instant, oldest_at: Instant, row_count: int, revision: int, after: str | None) -> bytes:
    """How a history ends."""
    told = {
        "object": "history-end",
        "taken_at": timestamp(taken_at),
        "oldest_at": timestamp(oldest_at),
        "row_count": row_count,
        "revision": revision,
    }
    return orjson.dumps(told if after is None else told | {"after": after})


def past_snapshot_end(taken_at: Instant, device_count: int) -> bytes:
    """How a fleet snapshot as of an earlier instant ends: nothing goes on from there."""
    return orjson.dumps({"object": "snapshot-end", "taken_at": timestamp(taken_at), "device_count": device_count})


def device_ranges(snapshot: Snapshot, pages: Sequence[Page]) -> bytes:
    """The ranges of a snapshot's devices, from its pages."""
    ranges: list[dict[str, Any]] = [{"last": page.last, "device_count": page.device_count} for page in pages]
    ranges = ranges or [{"device_count": 0}]
    for before, this in pairwise(ranges):
        this["after"] = before["last"]
    # What comes later and follows the last device is in the last range.
    ranges[-1].pop("last", None)
    content = {"object": "device-ranges", "device_count": snapshot.device_count, "revision": snapshot.revision}
    return orjson.dumps(content | {"data": ranges})


def device(found: Described) -> dict[str, Any]:
    """A device of the directory."""
    row, told = found
    description = {} if told.description is None else {"description": told.description}
    return {
        "object": "device",
        "id": row.device_id,
        "name": row.endpoint_name if told.name is None else told.name,
        **description,
        "endpoint_name": row.endpoint_name,
        "endpoint_type": row.endpoint_type,
        "state": "registered" if row.registered else "deregistered",
        "created_at": timestamp(row.created_at),
        "updated_at": timestamp(row.updated_at),
        "etag": timestamp(max(row.updated_at, told.updated_at or 0)),
        "bootstrapped_timestamp": timestamp(row.created_at),
        "custom_attributes": told.attributes,
        "queue_mode": bool(row.queue_mode),
        "last_contact_at": timestamp(row.last_contact_at),
    }


def device_query(row: DeviceQueryRow) -> dict[str, Any]:
    """A saved query."""
    return {
        "object": "device-query",
        "id": row.query_id,
        "name": row.name,
        "query": row.query,
        "created_at": timestamp(row.created_at),
        "updated_at": timestamp(row.updated_at),
        "etag": timestamp(row.updated_at),
    }


WORDS_OF_EVENTS = {
    "registration": "Device registered",
    "reg_update": "Device updated its registration",
    "deregistration": "Device deregistered",
    "expired": "Registration of the device expired",
}
"""What the description of each kind of device event is."""


def device_event(row: DeviceEventRow) -> dict[str, Any]:
    """What became of a registration."""
    kind, at = KINDS[row.kind], timestamp(row.at)
    return {
        "object": "device-event",
        "id": f"{row.revision:032x}",
        "device_id": row.device_id,
        "date_time": at,
        "created_at": at,
        "etag": at,
        "event_type": kind,
        "event_type_description": "INFO",
        "description": WORDS_OF_EVENTS[kind],
        "state_change": bool(row.state_change),
        "changes": {},
        "data": {"endpoint_name": row.endpoint_name},
    }


def device_connection(found: DeviceConnection, *, with_address: bool) -> dict[str, Any]:
    """How a device is connected, as far as that is known; its address where asked for."""
    told: dict[str, Any] = {"object": "device-connection", "device_id": found.device.device_id}
    if found.connection is not None:
        members = asdict(found.connection)
        if not with_address:
            del members["address"]
        told |= {name: value for name, value in members.items() if value is not None}
    told |= {"reachable": found.is_reachable, "lifetime_seconds": found.device.lifetime_seconds}
    if found.device.registered:
        told["registration_expires_at"] = timestamp(found.device.registration_expires_at)
    return told | {"last_contact_at": timestamp(found.device.last_contact_at)}


def device_contacts(device_id: str, heard_at: Sequence[Instant]) -> dict[str, Any]:
    """When a device was heard lately."""
    return {"object": "device-contacts", "device_id": device_id, "heard_at": [timestamp(at) for at in heard_at]}


def endpoint(device: DeviceRow) -> dict[str, Any]:
    """A registered device as ``GET /v2/endpoints`` lists it."""
    return {
        "name": device.device_id,
        "type": device.endpoint_type,
        "status": ALWAYS_ACTIVE,
        "q": bool(device.queue_mode),
    }


def limits(transactions: int, endpoints: int) -> dict[str, Any]:
    """What an application may, and how far it has come."""
    return {
        "transaction-quota": NO_QUOTA,
        "transaction-count": transactions,
        "endpoint-quota": NO_QUOTA,
        "endpoint-count": endpoints,
    }


def endpoint_resource(resource: AnnouncedResource) -> dict[str, Any]:
    """A resource as ``GET /v2/endpoints/{id}`` lists it."""
    return {
        "uri": resource.path,
        "obs": resource.observable,
        "rt": resource.resource_type,
        "type": resource.content_type,
    }


def waiting_request(command: Command, *, with_device: bool) -> dict[str, Any]:
    """A device request that waits; never what it writes."""
    request = command.request
    return {
        "object": "device-request",
        "async_response_id": command.async_id,
        "device_id": command.device_id,
        "method": request.method,
        "uri": request.path if request.query is None else f"{request.path}?{request.query}",
        "state": "with_device" if with_device else "waiting",
        "placed_at": timestamp(command.requested_at),
        "expires_at": timestamp(command.expires_at),
        "attempts": command.attempts,
    }


def access_key(key_id: str, scopes: Iterable[str]) -> dict[str, Any]:
    """An access key without its secret."""
    return {"object": "api-key", "id": key_id, "scopes": sorted(scopes)}


def callback_channel(row: CallbackRow, backlog: int) -> dict[str, Any]:
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
