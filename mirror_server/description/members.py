"""What the members of the models mean, where the model's own docstring does not say it. Source: wire.md 1-8."""

from __future__ import annotations

from mirror_sdk.wire.device_requests import DEFAULT_EXPIRY_SECONDS, DEFAULT_EXPIRY_SECONDS_QUEUE_MODE
from mirror_sdk.wire.errors import ERROR_TYPES
from mirror_server.description.parts import Schema

_KINDS = ", ".join(f"`{kind}` ({code})" for code, kind in ERROR_TYPES.items())

_ANYWHERE = {
    "object": "The kind of this object, always the same word.",
    "device_id": "The device's id.",
    "endpoint_name": "The name the device registers with.",
    "endpoint_type": "The type the device registers with.",
    "queue_mode": "Whether the device sleeps, and takes its requests when it next makes contact; an extension.",
    "has_more": "Whether another page follows.",
    "limit": "How many entries a page has at most.",
    "order": "In which order the entries stand.",
    "ep": "The device's id.",
    "original-ep": "The name the device registers with. A webhook has it of an observation only when it asked for it.",
    "path": "The resource path.",
    "ct": "The content type of the payload.",
    "payload": "The value in base64, empty when there is none.",
    "max-age": "For how many seconds the value is fresh; 0 when the device does not say.",
    "uid": "The identity of this entry, the same when it is sent again; only with `after`, or when it was asked for.",
    "timestamp": "When it happened, in milliseconds since 1970; only with `after`, or when it was asked for.",
    "seq": "The number of this entry in the notification log; only with `after`, or when it was asked for; an"
    " extension.",
    "value": "The device's own value, as text.",
    "observable": "Whether the resource can be subscribed; one that is executable cannot.",
    "auto_observable": "Whether the device sends changes without a subscription; the resource can then be subscribed,"
    " too. Not of one that is executable.",
    "writable": "Whether the resource can be written.",
    "executable": "Whether the resource can be executed.",
    "online": "Whether the device is connected.",
    "answer": "How it answers requests: as it should, with a refusal, or never.",
    "latency_seconds": "How long it takes to answer.",
}
_OF_MODELS = {
    "AsyncResponse": {
        "status": "200 when the device did it, else 400 or above.",
        "payload": "The value that was read, in base64; empty when there is none.",
        "timestamp": "When the request ended, in milliseconds since 1970; only with `after`, or when it was asked for.",
        "ep": "The device's id; only with `seq`; an extension.",
        "original-ep": "The name the device registers with; only with `seq`; an extension.",
        "path": "The resource path that the request was about; only with `seq`; an extension.",
    },
    "BenchAdvance": {"advance_seconds": "How much time is to pass; the clock stops before the year 9999."},
    "BenchClock": {"now": "The time for the server.", "manual": "Whether the clock stands still until it is advanced."},
    "BenchDevice": {
        "id": "The device's id.",
        "registered": "Whether the device is registered.",
        "resources": "What it has now, and its own values.",
    },
    "BenchDeviceAdded": {"id": "The device's id."},
    "BenchDeviceList": {"data": "The devices."},
    "BenchNewDevice": {"resources": "What it has."},
    "CallbackRegistration": {
        "url": "Where notifications are sent to: http or https.",
        "headers": "Headers to send with each message; not those of the connection, such as Host or Content-Length.",
        "serialization": "How notifications are written; by default with no options.",
    },
    "Channel": {
        "delivery_mechanism": "A webhook, or long polling.",
        "url": "Where the webhook leads to.",
        "last_error": "That the last call failed, and where the operator finds why; absent when it did not.",
        "last_success_at": "When a message was last taken.",
        "next_attempt_at": "When the message is sent again; absent when the last call succeeded.",
    },
    "Desired": {
        "value": "The value in base64.",
        "status": "0 pending, 1 success, 2 failure.",
        "status_updated_at": "When the write succeeded or failed; absent while it is pending.",
        "requested_at": "When the write was issued; an extension.",
        "category": (
            "Why the write failed, in one word, as in its async response: only for the key that placed it, absent for"
            " every other; an extension."
        ),
        "acknowledged_at": "When the failed write was acknowledged; absent when it was not; an extension.",
        "acknowledged_by": "Who acknowledged it: a name that was given, or that of an access key; an extension.",
    },
    "AccessKey": {
        "id": "The key's id, which is in its second part, and no secret.",
        "scopes": "What the key may be used for: `read`, `write`, `subscribe` and `admin`; an extension.",
    },
    "DesiredChanged": {"resource": "The resource as it is now, as in the device object."},
    "Device": {
        "id": "The device's id.",
        "name": "What people call it; its `endpoint_name` where nobody gave it another name.",
        "description": "What people say of it; absent where nobody does.",
        "state": "`registered` or `deregistered`.",
        "created_at": "When the device first registered.",
        "updated_at": "The device's last registration event.",
        "etag": "Changes with the device: when it last registered or updated its registration, or something was said of"
        " it.",
        "bootstrapped_timestamp": "The same as `created_at`.",
        "custom_attributes": "What people note of it.",
        "last_contact_at": "When anything last came from the device: a registration, its update or end, a value, an"
        " answer; an extension.",
    },
    "DeviceConnection": {
        "protocol": "`coap`, `coaps` (with DTLS) or `simulated`; absent where the service has no connection of the"
        " device. More may come.",
        "lwm2m_version": "The version of LwM2M that the device registered with; absent where it speaks no LwM2M.",
        "binding": "What the device said of its transport: `U`, or `UQ` in queue mode.",
        "reachable": "Whether a request would reach it now; not so while it sleeps.",
        "lifetime_seconds": "For how long its registration holds without an update.",
        "registration_expires_at": "When that ends, unless it is updated; absent for a device that is not registered.",
        "last_contact_at": "When anything last came from the device.",
        "address": "Address and port its messages come from; only for a key with the scope `admin`.",
    },
    "DeviceContacts": {
        "heard_at": "When values came that the device sent because of a subscription of the application, the newest"
        " last, 50 at most.",
    },
    "DeviceGone": {
        "original-ep": "The name the device registers with; only with `seq`; an extension.",
        "uid": "The identity of this entry, the same when it is sent again; only with `seq`; an extension.",
        "timestamp": "When it happened, in milliseconds since 1970; only with `seq`; an extension.",
    },
    "DeviceObject": {
        "created_at": "When this answer was made.",
        "updated_at": "The device's last registration event.",
        "last_reported_at": "The newest time of a reported value; absent when there is none.",
        "last_desired_at": "The newest time of a desired value; absent when there is none.",
        "resources": "Every resource the device has ever introduced.",
    },
    "DeviceEvent": {
        "date_time": "When it happened.",
        "created_at": "The same as `date_time`.",
        "etag": "The same as `date_time`.",
        "event_type": "`registration`, `reg_update`, `deregistration` or `expired`. More may come.",
        "event_type_description": "Always `INFO`.",
        "description": "What happened, in words.",
        "state_change": "Whether the device was registered afterwards and not before, or the other way round.",
        "changes": "Always empty.",
        "data": "The device's `endpoint_name`.",
        "id": "The event's id: what happened later has a greater one.",
    },
    "DeviceEventPage": {"data": "The events.", "after": "The id the page begins behind, as it was asked for."},
    "DevicePage": {"data": "The devices.", "after": "The id the page begins behind, as it was asked for."},
    "DeviceQuery": {
        "id": "The query's id: one that was saved later has a greater one.",
        "name": "What it is called; no other query has this name.",
        "query": "The filter, as `filter` of `GET /v3/devices` takes it.",
        "created_at": "When it was saved.",
        "updated_at": "When it was last changed.",
        "etag": "Changes with it: the same as `updated_at`.",
    },
    "DeviceQueryBody": {
        "name": "What it is to be called; no other query may have this name.",
        "query": "The filter, as `filter` of `GET /v3/devices` takes it.",
        "id": "Nothing: the service makes it.",
        "created_at": "Nothing: the service tells it.",
        "updated_at": "Nothing: the service tells it.",
        "etag": "Nothing: the service tells it.",
    },
    "DeviceQueryPage": {"data": "The queries.", "after": "The id the page begins behind, as it was asked for."},
    "DeviceQueryUpdate": {
        "name": "What it is to be called; no other query may have this name.",
        "query": "The filter, as `filter` of `GET /v3/devices` takes it.",
        "id": "As it is.",
        "created_at": "As it is.",
        "updated_at": "As it is.",
        "etag": "As it is.",
    },
    "DeviceRange": {
        "after": "The id they follow; absent in the first range.",
        "last": "The id of the last of them; absent in the last range, which takes all that follow.",
        "device_count": "How many there are.",
    },
    "DeviceRanges": {
        "device_count": "How many devices there are in all.",
        "revision": "The number of the mirror's last change.",
        "data": "The ranges, by id.",
    },
    "DeviceRequestAccepted": {
        "async-response-id": "The async-id, by which the answer is recognised.",
        "async-response": "How the request ended, where `Prefer: wait` asked for it and it did in time. It stands in"
        " the notification log too, under the number in `seq`.",
    },
    "DeviceRequestBody": {
        "method": "`GET` reads, `PUT` writes, `POST` executes.",
        "content-type": "The format of the payload; a write without it is `text/plain`.",
        "accept": "The format the answer should have.",
        "payload-b64": "The value to write, or the argument to execute with, in base64.",
        "expiry_seconds": "How long the request may wait for the device:"
        f" {DEFAULT_EXPIRY_SECONDS} by default, and {DEFAULT_EXPIRY_SECONDS_QUEUE_MODE} for a device in queue mode."
        " Then it ends with 429 `REQUEST_EXPIRED` if it was not sent, and with 504 `TIMEOUT` if it was sent and the"
        " device has not responded, so that it is not known whether the device acted.",
    },
    "DeviceUpdate": {
        "name": "What it is to be called; empty, or its `endpoint_name`, for no name of its own.",
        "description": "What is to be said of it; empty for nothing.",
        "custom_attributes": "What is to be noted of it, in the place of all there is. No name begins with a digit.",
        "id": "As it is.",
        "endpoint_name": "As it is: a device names itself.",
        "endpoint_type": "As it is: a device says it itself.",
        "state": "As it is: a device registers and deregisters by itself.",
        "created_at": "As it is.",
        "updated_at": "As it is.",
        "etag": "As it is.",
        "bootstrapped_timestamp": "As it is.",
        "queue_mode": "As it is.",
        "last_contact_at": "As it is.",
    },
    "Endpoint": {
        "name": "The device's id.",
        "type": "The type the device registers with.",
        "status": "Always `ACTIVE`.",
        "q": "Whether the device is in queue mode.",
    },
    "EndpointResource": {
        "uri": "The resource path.",
        "obs": "Whether it can be subscribed.",
        "rt": "Its resource type, empty when the device names none.",
        "type": "Its content type, empty when the device names none.",
    },
    "ErrorBody": {
        "code": "The status of the answer.",
        "type": (
            f"The kind of error, as a word for programs: {_KINDS}; a 400 that names a field is a `validation_error`."
        ),
        "message": "What is wrong and what to do next.",
        "fields": "What is wrong with which field.",
        "request_id": "Identifies the request in the server's log.",
    },
    "FieldError": {
        "name": "The parameter or the member; a member of a member stands behind a dot.",
        "message": "What is wrong with it.",
    },
    "Limits": {
        "transaction-quota": "A number that is never reached: there is no quota.",
        "transaction-count": "How many entries the notification log of this application holds, which goes back a day:"
        " registrations, values of subscribed resources, answers to device requests.",
        "endpoint-quota": "A number that is never reached: there is no quota.",
        "endpoint-count": "How many devices are registered.",
    },
    "NotificationMessage": {
        "async-responses": "Outcomes of the application's device requests.",
        "notifications": "What subscribed resources sent.",
        "registrations": "Devices that registered.",
        "reg-updates": "Devices that updated their registration.",
        "de-registrations": "Devices that deregistered: their ids, or objects with `after` and for a webhook that"
        " asked for these.",
        "registrations-expired": "Devices whose registration expired: as in `de-registrations`.",
    },
    "PresubscriptionRule": {
        "endpoint-name": "The device's id or endpoint name; `*` may stand at its end.",
        "endpoint-type": "The device's type; `*` may stand at its end.",
        "resource-path": "Resource paths; `*` may stand at the end of each.",
    },
    "RegisteredResource": {
        "rt": "Its resource type.",
        "ct": "Its content type.",
        "obs": "Whether it can be subscribed.",
    },
    "RegistrationEvent": {
        "ept": "The type the device registers with.",
        "original-ep": "The name the device registers with.",
        "q": "Whether the device is in queue mode.",
        "timestamp": "When it happened, in milliseconds since 1970.",
        "resources": "What the device has.",
        "ended-subscriptions": "The paths this application had subscribed by themselves, which this registration ended;"
        " absent where there are none; an extension.",
    },
    "Reported": {
        "value": "The value in base64.",
        "content_type": "The format of the value.",
        "reported_at": "When the value was received from the device.",
        "expires_at": "Until when the value is fresh; absent when the device does not say.",
        "origin": "By what the value came: `read`, `subscription` or `auto_observation`; an extension.",
    },
    "ResourceState": {
        "resource_path": "The resource path.",
        "subscribed": "Whether the device accepted a subscription that has not ended; null where that is not known, as"
        " it was at an earlier instant.",
        "subscribed_at": "Since when it is subscribed; absent when it is not; an extension.",
        "reported": "The last value received from the device.",
        "desired": "The last value requested to be written.",
    },
    "Serialization": {
        "type": "The version of the format.",
        "max_chunk_size": "How many notifications a message has at most.",
        "cfg": "What notifications carry besides.",
    },
    "SerializationConfig": {
        "include_timestamp": "With the time of each change.",
        "include_uid": "With the identity of each notification.",
        "include_original_ep": "With the endpoint name beside the device's id.",
        "deregistrations_as_object": 'Devices that left as `{"ep": "<device id>"}` in the place of their id alone.',
        "include_seq": "With the number of each entry in the notification log. An async response then names its device"
        " and resource path, and the object of a device that left its name, `uid` and time, as far as these were asked"
        " for; an extension.",
    },
    "WaitingRequest": {
        "async_response_id": "The async-id, by which the answer is recognised.",
        "method": "`GET` reads, `PUT` writes, `POST` executes.",
        "uri": "The resource path, and the query of notification rules.",
        "placed_at": "When it was accepted.",
        "expires_at": "Until when it may wait for the device.",
    },
    "WaitingRequestPage": {"data": "The requests."},
}


def add_meanings(schemas: dict[str, Schema]) -> None:
    """Describe each member that the description of its model does not name."""
    for model, schema in schemas.items():
        for name, member in schema.get("properties", {}).items():
            meaning = _OF_MODELS.get(model, {}).get(name) or _ANYWHERE.get(name)
            if meaning is not None and f"`{name}`" not in schema.get("description", ""):
                member["description"] = meaning
