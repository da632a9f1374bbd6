"""A typed client for a device state mirror.

>>> from mirror_sdk import MirrorClient
>>> client = MirrorClient("https://mirror.example.com", "an access key")
>>> client
<MirrorClient https://mirror.example.com>
>>> client.close()
"""

from mirror_sdk._async_channels import AsyncEvents, AsyncWatch
from mirror_sdk._async_client import AsyncMirrorClient
from mirror_sdk._channels import Watch
from mirror_sdk._client import MirrorClient
from mirror_sdk.async_device_request import AsyncDeviceRequest
from mirror_sdk.bench import Bench
from mirror_sdk.device import DesiredValue, DeviceList, DeviceObject, ReportedValue, Resource
from mirror_sdk.device_request import DeviceRequest
from mirror_sdk.errors import (
    AccessDenied,
    APIError,
    AuthenticationError,
    BadRequest,
    ChannelGone,
    CompatibilityWarning,
    ConfigError,
    Conflict,
    ConnectionFailed,
    DeviceRequestFailed,
    DeviceUnavailable,
    GapWarning,
    LimitExceeded,
    MirrorError,
    NotFound,
    RequestExpired,
    ResourceNotFound,
    ServerError,
    SnapshotWarning,
    UnexpectedAnswer,
    ValueRefused,
    WaitTimeout,
    WriteRejected,
)
from mirror_sdk.events import Event, EventKind
from mirror_sdk.explanation import Explanation
from mirror_sdk.object_table import ResourceDeclaration, ResourceType, load_object_definitions, register_object
from mirror_sdk.progress import show_progress
from mirror_sdk.status import ClientStatus
from mirror_sdk.values import Value, ValueKind
from mirror_sdk.webhook import CallbackInbox, WebhookReceiver
from mirror_sdk.wire.device_object import DesiredStatus
from mirror_sdk.wire.directory import Device
from mirror_sdk.wire.subscriptions import PresubscriptionRule

__all__ = [
    "APIError",
    "AccessDenied",
    "AsyncDeviceRequest",
    "AsyncEvents",
    "AsyncMirrorClient",
    "AsyncWatch",
    "AuthenticationError",
    "BadRequest",
    "Bench",
    "CallbackInbox",
    "ChannelGone",
    "ClientStatus",
    "CompatibilityWarning",
    "ConfigError",
    "Conflict",
    "ConnectionFailed",
    "DesiredStatus",
    "DesiredValue",
    "Device",
    "DeviceList",
    "DeviceObject",
    "DeviceRequest",
    "DeviceRequestFailed",
    "DeviceUnavailable",
    "Event",
    "EventKind",
    "Explanation",
    "GapWarning",
    "LimitExceeded",
    "MirrorClient",
    "MirrorError",
    "NotFound",
    "PresubscriptionRule",
    "ReportedValue",
    "RequestExpired",
    "Resource",
    "ResourceDeclaration",
    "ResourceNotFound",
    "ResourceType",
    "ServerError",
    "SnapshotWarning",
    "UnexpectedAnswer",
    "Value",
    "ValueKind",
    "ValueRefused",
    "WaitTimeout",
    "Watch",
    "WebhookReceiver",
    "WriteRejected",
    "load_object_definitions",
    "register_object",
    "show_progress",
]
