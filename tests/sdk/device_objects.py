"""Device objects and events of a service, for tests without one."""

import base64
from datetime import UTC, datetime, timedelta

from mirror_sdk import Event, EventKind
from mirror_sdk.device import DeviceObject
from mirror_sdk.values import decode
from mirror_sdk.wire import device_object as wire

SNAPSHOT_AT = datetime(2026, 11, 20, 12, 37, 55, 576000, tzinfo=UTC)
NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)


def at(minutes):
    return NOW + timedelta(minutes=minutes)


def observation(value, minutes=0.0, path="/3303/0/5700", device_id="d1", **more):
    decoded = decode(value.encode(), "text/plain", path)
    fields = {"seq": 1, "changed_at": at(minutes), "received_at": at(minutes), **more}
    return Event(kind=EventKind.OBSERVATION, device_id=device_id, path=path, value=decoded, **fields)


def resource(
    path,
    reported=None,
    desired=None,
    *,
    content_type="text/plain",
    status=0,
    subscribed=False,
    reported_at=SNAPSHOT_AT,
    desired_at=SNAPSHOT_AT + timedelta(seconds=1),
    requested_at=SNAPSHOT_AT,
):
    def value(raw):
        return base64.b64encode(raw).decode()

    body = {"resource_path": path, "subscribed": subscribed, "reported": {}, "desired": {}}
    if reported is not None:
        expires_at = None if reported_at is None else reported_at + timedelta(seconds=60)
        times = {"reported_at": reported_at, "expires_at": expires_at}
        body["reported"] = {"value": value(reported), "content_type": content_type, **times}
    if desired is not None:
        times = {"desired_at": desired_at, "requested_at": requested_at}
        body["desired"] = {"value": value(desired), "status": status, **times}
    return body


def device(*resources, device_id="015f00", endpoint_name="sensor-1", **members):
    body = {"device_id": device_id, "endpoint_name": endpoint_name, "created_at": SNAPSHOT_AT, "resources": resources}
    return DeviceObject.from_wire(wire.DeviceObjectBody.model_validate(body | members))
