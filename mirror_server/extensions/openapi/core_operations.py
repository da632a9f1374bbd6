"""The descriptions of the core's operations. An extension describes its operations at its views."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mirror_sdk.wire.access_key import AccessKey
from mirror_sdk.wire.channel import CallbackRegistration, Channel
from mirror_sdk.wire.device_object import DeviceObjectBody
from mirror_sdk.wire.device_requests import (
    ASYNC_ID_PATTERN,
    MAX_EXPIRY_SECONDS,
    MAX_RETRIES,
    DeviceRequestAccepted,
    DeviceRequestBody,
)
from mirror_sdk.wire.directory import Device, DevicePage, EndpointResource
from mirror_sdk.wire.health import OK, SERVICE
from mirror_sdk.wire.notifications import NotificationMessage
from mirror_sdk.wire.presubscription_rules import PresubscriptionRules
from mirror_sdk.wire.routes import (
    CURSOR_HEADER,
    DEFAULT_HOLD_SECONDS,
    GAP_HEADER,
    MAX_HOLD_SECONDS,
    SUBSCRIPTION_HEADER,
    TIME_HEADER,
)
from mirror_server.extensions.openapi_parameters import FLAG, OF_ACCEPTED, POSITION, list_parameters
from mirror_server.views import device_requests, devices, notifications, operation, subscriptions
from mirror_server.views.description import (
    INSTANT,
    TEXT,
    Parameter,
    ResponseSpec,
    described,
    header,
    integer,
    json_of,
    object_like,
    text_of,
    words,
)

_ETAG = header("ETag", "Changes with the content.", is_extension=False)
_UNLESS_CHANGED = header(
    "If-None-Match", "The `ETag` of an earlier response. If nothing has changed since then, the response is 304."
)
_NOT_CHANGED = ResponseSpec(304, "Nothing has changed.", headers=(_ETAG,))
_RESOURCE_LIST_PARAMETERS = tuple(
    Parameter(name, "Accepted for older programs; it has no effect. No request is sent to the device.", FLAG)
    for name in ("cacheOnly", "noResp")
)
_IF_MATCH = header(
    "If-Match",
    "The `ETag` of the rules that you read. If the rules have changed since then, the response is 412 and nothing is"
    " changed. Without this header they are changed unconditionally.",
)
_ASYNC_ID = Parameter(
    "async-id",
    "Identifies the request and its response. Repeating the same request with the same id within 24 h queues it only"
    " once; another request with this id is a conflict. By default the server generates an id.",
    TEXT | {"pattern": ASYNC_ID_PATTERN},
)
_EXPIRY_SECONDS = Parameter("expiry-seconds", "Same as `expiry_seconds` in the body.", integer(1, MAX_EXPIRY_SECONDS))
_RETRY = Parameter(
    "retry",
    "How often the request is sent again if the device does not respond. The default is 2 for a device in queue mode,"
    " else 0. For a `POST` the default is always 0: the device may have executed it although its response was lost, so"
    " with a larger number the device may execute it more than once.",
    integer(0, MAX_RETRIES),
)
_RULES = json_of(PresubscriptionRules, "a device, its type and a pattern", "none")
_SUBSCRIPTION = header(
    SUBSCRIPTION_HEADER,
    "`asked` until the device responds, `active` once it has accepted the subscription, `refused` if it has rejected"
    " it. A rejected subscription is requested again when the device next registers or updates its registration.",
    words("active", "asked", "refused"),
)
_POLL_PARAMETERS = (
    Parameter(
        "after",
        "Return the entries after this number and remove nothing: the reader stores its own position. `latest` starts"
        " at the end of the log. Without this parameter the server stores the position of the key and advances it.",
        POSITION,
        is_extension=True,
    ),
    Parameter(
        "hold",
        "How many seconds the poll stays open if there is nothing to deliver.",
        integer(0, MAX_HOLD_SECONDS, DEFAULT_HOLD_SECONDS),
        is_extension=True,
    ),
    Parameter("noWait", "With `true` the poll responds at once, as with `hold=0`.", FLAG),
)
_POSITION_HEADERS = (
    header(
        CURSOR_HEADER,
        "Number of the last entry in the message. Pass it as `after` in the next poll. Only with `after`.",
        integer(0),
    ),
    header(
        GAP_HEADER,
        "First and last number of the entries that are no longer in the log. Only with `after`.",
        TEXT | {"pattern": "^[0-9]+-[0-9]+$"},
    ),
    header(
        TIME_HEADER,
        "Everything that happened before this time, by the server's clock, is in the log up to the number in"
        " `Mirror-Cursor`. Only with `after`; absent if the process that responds cannot determine it.",
        INSTANT,
    ),
)
_MESSAGE = json_of(
    NotificationMessage,
    "a read or write that the device performed",
    "an observation with all its options",
    "a registration",
)
_REGISTRATION = json_of(CallbackRegistration, "the registration object of the specification", "everything")

OPERATIONS: Mapping[Callable[..., Any], Callable[[Callable[..., Any]], object]] = {
    devices.get_device_object: described(
        "Mirror",
        ResponseSpec(
            200,
            "The device object.",
            json_of(
                DeviceObjectBody,
                "a read value and a write that succeeded",
                "a pending write has no time of a status update",
                "empty values at first registration",
            ),
            headers=(_ETAG,),
        ),
        _NOT_CHANGED,
        parameters=(_UNLESS_CHANGED,),
    ),
    devices.list_devices: described(
        "Directory",
        ResponseSpec(200, "A page.", json_of(DevicePage, "a later page")),
        parameters=list_parameters("devices", "device"),
        selects_devices=True,
    ),
    devices.get_device: described("Directory", ResponseSpec(200, "The device.", json_of(Device, "registered"))),
    devices.list_resources: described(
        "Directory",
        ResponseSpec(200, "The resources.", json_of(EndpointResource, "observable", is_list=True)),
        parameters=_RESOURCE_LIST_PARAMETERS,
    ),
    device_requests.submit_device_request: described(
        "Device requests",
        ResponseSpec(
            202,
            "Accepted, and on disk.",
            json_of(DeviceRequestAccepted, "202"),
            headers=OF_ACCEPTED,
        ),
        parameters=(_ASYNC_ID, _EXPIRY_SECONDS, _RETRY),
        body=json_of(DeviceRequestBody, "read", "write", "execute", "notification rules"),
        errors=(409,),
    ),
    subscriptions.put_presubscriptions: described(
        "Subscriptions",
        ResponseSpec(202, "Accepted, and on disk."),
        ResponseSpec(204, "Accepted, and on disk; for the path without a version."),
        parameters=(_IF_MATCH,),
        body=_RULES,
        errors=(412,),
    ),
    subscriptions.get_presubscriptions: described(
        "Subscriptions",
        ResponseSpec(200, "The rules; an empty list if there are none.", _RULES, headers=(_ETAG,)),
        _NOT_CHANGED,
        parameters=(_UNLESS_CHANGED,),
    ),
    subscriptions.delete_presubscriptions: described(
        "Subscriptions", ResponseSpec(204, "All rules are deleted."), parameters=(_IF_MATCH,), errors=(412,)
    ),
    subscriptions.list_subscriptions: described(
        "Subscriptions",
        ResponseSpec(200, "The paths, one per line.", text_of("text/uri-list", "/3303/0/5700\n/3311/0/5850")),
    ),
    subscriptions.delete_subscriptions: described(
        "Subscriptions", ResponseSpec(204, "This application no longer has any subscription to the device.")
    ),
    subscriptions.put_subscription: described("Subscriptions", ResponseSpec(200, "Subscribed.")),
    subscriptions.get_subscription: described(
        "Subscriptions",
        ResponseSpec(
            200, "This application requested the subscription; the header contains its state.", headers=(_SUBSCRIPTION,)
        ),
    ),
    subscriptions.delete_subscription: described(
        "Subscriptions", ResponseSpec(204, "This application is no longer subscribed to the resource.")
    ),
    notifications.pull: described(
        "Notifications",
        ResponseSpec(200, "A message.", _MESSAGE, headers=_POSITION_HEADERS),
        ResponseSpec(204, "No entry arrived in time.", headers=_POSITION_HEADERS),
        errors=(409, 410, 429),
        parameters=_POLL_PARAMETERS,
    ),
    notifications.delete_poll_channel: described(
        "Notifications", ResponseSpec(204, "The poll channel was deleted, or there was none.")
    ),
    notifications.put_callback: described(
        "Notifications", ResponseSpec(204, "The webhook is registered, and delivery starts."), body=_REGISTRATION
    ),
    notifications.get_callback: described(
        "Notifications", ResponseSpec(200, "The webhook.", _REGISTRATION), errors=(404,)
    ),
    notifications.delete_callback: described(
        "Notifications", ResponseSpec(204, "The webhook is removed."), errors=(404,)
    ),
    notifications.get_channel: described(
        "Notifications",
        ResponseSpec(200, "The channel.", json_of(Channel, "webhook", "webhook that fails", "long poll", "websocket")),
        errors=(404,),
    ),
    operation.get_health: described(
        "Operation",
        ResponseSpec(
            200,
            "The server responds.",
            object_like({"status": OK, "service": SERVICE, "extensions": ["compat", "page"]}),
        ),
        is_extension=True,
    ),
    operation.get_readiness: described(
        "Operation",
        ResponseSpec(200, "The server can store data.", object_like({"status": "ready"})),
        is_extension=True,
    ),
    operation.get_own_access_key: described(
        "Operation", ResponseSpec(200, "The key, without its secret.", json_of(AccessKey, "the key of an application"))
    ),
}
"""The function that describes each view."""

for _view, _describe in OPERATIONS.items():
    _describe(_view)
