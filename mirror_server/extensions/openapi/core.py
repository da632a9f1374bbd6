"""Describes the operations of the core; those of an extension are described at its views."""

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
from mirror_server.extensions.descriptions import FLAG, OF_ACCEPTED, POSITION, list_parameters
from mirror_server.views import device_requests, devices, notifications, operation, subscriptions
from mirror_server.views.description import (
    INSTANT,
    TEXT,
    Parameter,
    ResponseSpec,
    described,
    header,
    json_of,
    object_like,
    text_of,
    whole_number,
    words,
)

_ETAG = header("ETag", "Changes with the content.", is_extension=False)
_UNLESS_CHANGED = header(
    "If-None-Match", "The `ETag` of an earlier answer: if nothing has changed since, the answer is 304."
)
_NOT_CHANGED = ResponseSpec(304, "Nothing has changed.", headers=(_ETAG,))
_OF_RESOURCES = tuple(
    Parameter(name, "For older programs: it changes nothing, the device is never asked.", FLAG)
    for name in ("cacheOnly", "noResp")
)
_IF_MATCH = header(
    "If-Match",
    "The `ETag` of the rules that were read: if they have changed since, nothing is changed and the answer is 412."
    " Without it they are changed in any case.",
)
_ASYNC_ID = Parameter(
    "async-id",
    "The request's identity, by which its answer is recognised. The same one for the same request within 24 h queues"
    " nothing twice; for another request it is a conflict. Without it the server makes one.",
    TEXT | {"pattern": ASYNC_ID_PATTERN},
)
_EXPIRY_SECONDS = Parameter("expiry-seconds", "As `expiry_seconds` in the body.", whole_number(1, MAX_EXPIRY_SECONDS))
_RETRY = Parameter(
    "retry",
    "How often it is tried again when the device does not answer. The default is 2 for a device in queue mode, else 0."
    " For a `POST` it is always 0, because the device may have executed it although its response was lost: with another"
    " number the device may execute it more than once.",
    whole_number(0, MAX_RETRIES),
)
_RULES = json_of(PresubscriptionRules, "a device, its type and a pattern", "none")
_SUBSCRIPTION = header(
    SUBSCRIPTION_HEADER,
    "`active` once the device accepted the subscription, `asked` until it answers, `refused` when it refused: it is"
    " asked again when it next registers or updates its registration.",
    words("active", "asked", "refused"),
)
_OF_POLLS = (
    Parameter(
        "after",
        "Read what follows this number and remove nothing; the reader keeps its own position, and `latest` begins at"
        " the end. Without it the server keeps a position for the key and moves it.",
        POSITION,
        is_extension=True,
    ),
    Parameter(
        "hold",
        "For how many seconds the poll is held open when there is nothing to tell.",
        whole_number(0, MAX_HOLD_SECONDS, DEFAULT_HOLD_SECONDS),
        is_extension=True,
    ),
    Parameter("noWait", "With `true` the poll is answered at once, as with `hold=0`.", FLAG),
)
_OF_A_POSITION = (
    header(
        CURSOR_HEADER,
        "Number of the last entry in the message; the next poll gives it as `after`. Only with `after`.",
        whole_number(0),
    ),
    header(
        GAP_HEADER,
        "First and last number of entries that are gone from the log. Only with `after`.",
        TEXT | {"pattern": "^[0-9]+-[0-9]+$"},
    ),
    header(
        TIME_HEADER,
        "All that happened before this instant, by this service's clock, stands in the log up to the number in"
        " `Mirror-Cursor`. Only with `after`; absent where the process that answers cannot know.",
        INSTANT,
    ),
)
_MESSAGE = json_of(
    NotificationMessage,
    "a read or write that the device did",
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
        parameters=_OF_RESOURCES,
    ),
    device_requests.place_device_request: described(
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
        ResponseSpec(204, "The same, for the path without a version."),
        parameters=(_IF_MATCH,),
        body=_RULES,
        errors=(412,),
    ),
    subscriptions.get_presubscriptions: described(
        "Subscriptions",
        ResponseSpec(200, "The rules; an empty list when there are none.", _RULES, headers=(_ETAG,)),
        _NOT_CHANGED,
        parameters=(_UNLESS_CHANGED,),
    ),
    subscriptions.delete_presubscriptions: described(
        "Subscriptions", ResponseSpec(204, "There are no rules any more."), parameters=(_IF_MATCH,), errors=(412,)
    ),
    subscriptions.list_subscriptions: described(
        "Subscriptions",
        ResponseSpec(200, "The paths, one a line.", text_of("text/uri-list", "/3303/0/5700\n/3311/0/5850")),
    ),
    subscriptions.delete_subscriptions: described(
        "Subscriptions", ResponseSpec(204, "This application has no subscription of the device any more.")
    ),
    subscriptions.put_subscription: described("Subscriptions", ResponseSpec(200, "Subscribed.")),
    subscriptions.get_subscription: described(
        "Subscriptions",
        ResponseSpec(
            200, "This application asked for it; what became of it stands in the header.", headers=(_SUBSCRIPTION,)
        ),
    ),
    subscriptions.delete_subscription: described(
        "Subscriptions", ResponseSpec(204, "This application does not subscribe it any more.")
    ),
    notifications.pull: described(
        "Notifications",
        ResponseSpec(200, "A message.", _MESSAGE, headers=_OF_A_POSITION),
        ResponseSpec(204, "Nothing came in time.", headers=_OF_A_POSITION),
        errors=(409, 410, 429),
        parameters=_OF_POLLS,
    ),
    notifications.delete_poll_channel: described(
        "Notifications", ResponseSpec(204, "There is no poll channel any more; also when there was none.")
    ),
    notifications.put_callback: described(
        "Notifications", ResponseSpec(204, "Registered; delivery begins."), body=_REGISTRATION
    ),
    notifications.get_callback: described(
        "Notifications", ResponseSpec(200, "The webhook.", _REGISTRATION), errors=(404,)
    ),
    notifications.delete_callback: described(
        "Notifications", ResponseSpec(204, "There is no webhook any more."), errors=(404,)
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
            "It does, and is one of these.",
            object_like({"status": OK, "service": SERVICE, "extensions": ["compat", "page"]}),
        ),
        is_extension=True,
    ),
    operation.get_readiness: described(
        "Operation", ResponseSpec(200, "It can.", object_like({"status": "ready"})), is_extension=True
    ),
    operation.get_own_access_key: described(
        "Operation", ResponseSpec(200, "The key, without its secret.", json_of(AccessKey, "one of an application"))
    ),
}
"""What each view is described with."""

for _view, _describe in OPERATIONS.items():
    _describe(_view)
