"""Device objects as a service tells them, for tests without one."""

import base64
from datetime import UTC, datetime, timedelta

from mirror_sdk.device import DeviceObject
from mirror_sdk.wire import device_object as wire

TAKEN_AT = datetime(2026, 11, 20, 12, 37, 55, 576000, tzinfo=UTC)


def resource(path, reported=None, desired=None, *, content_type="text/plain", status=0, subscribed=False):
    def value(raw):
        return base64.b64encode(raw).decode()

    body = {"resource_path": path, "subscribed": subscribed, "reported": {}, "desired": {}}
    if reported is not None:
        body["reported"] = {
            "value": value(reported),
            "content_type": content_type,
            "reported_at": TAKEN_AT,
            "expires_at": TAKEN_AT + timedelta(seconds=60),
        }
    if desired is not None:
        later = TAKEN_AT + timedelta(seconds=1)
        body["desired"] = {"value": value(desired), "status": status, "desired_at": later, "requested_at": TAKEN_AT}
    return body


def device(*resources, device_id="015f00", endpoint_name="sensor-1", **members):
    body = {"device_id": device_id, "endpoint_name": endpoint_name, "created_at": TAKEN_AT, "resources": resources}
    return DeviceObject.from_wire(wire.DeviceObject.model_validate(body | members))
