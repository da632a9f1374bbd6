"""A typed client for a device state mirror. ``mirror help client`` introduces it.

In this documentation, *the service* is the server that the client is connected to. It can also be a server of another
vendor.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mirror_sdk._async_client import AsyncMirrorClient
    from mirror_sdk._client import MirrorClient
    from mirror_sdk._protocol.async_device_request import AsyncDeviceRequest
    from mirror_sdk._protocol.async_log_consumers import AsyncEvents, AsyncWatch
    from mirror_sdk._protocol.client_status import ClientStatus
    from mirror_sdk._protocol.device_request import DeviceRequest
    from mirror_sdk._protocol.log_consumers import Events, Watch
    from mirror_sdk.conditions import Alarm, Condition
    from mirror_sdk.device import DeviceList, DeviceObject
    from mirror_sdk.device_lookup import DeviceLike, DevicesLike
    from mirror_sdk.errors import (
        AccessDenied,
        AmbiguousName,
        APIError,
        AuthenticationError,
        BadRequest,
        BeforeHistory,
        CallTimeout,
        CassetteDamaged,
        ChannelGone,
        ClientClosed,
        CompatibilityWarning,
        ConditionWarning,
        ConfigError,
        Conflict,
        ConnectionFailed,
        DeviceRequestFailed,
        DeviceRequestRejected,
        DeviceUnavailable,
        EmptyTableWarning,
        ExecuteRejected,
        GapWarning,
        InvalidValue,
        LimitExceeded,
        MirrorError,
        NoHistory,
        NoSuchResource,
        NotFound,
        NotRecorded,
        NotSubscribedWarning,
        PreconditionFailed,
        ReadRejected,
        RecordingDamaged,
        RequestExpired,
        ResourceNotFound,
        ServerError,
        SnapshotWarning,
        UnexpectedResponse,
        UnitWarning,
        UnknownDevice,
        UnknownQuery,
        UnknownResource,
        WaitTimeout,
        WriteRejected,
    )
    from mirror_sdk.events import Event, EventKind
    from mirror_sdk.object_definitions import (
        ResourceDeclaration,
        ResourceType,
        load_object_definitions,
        register_object,
    )

    # These names are not in __all__, because they need pandas, which is optional.
    from mirror_sdk.plan import AsyncPlan as AsyncPlan
    from mirror_sdk.plan import Plan as Plan
    from mirror_sdk.progress import show_progress
    from mirror_sdk.resource import DesiredValue, ReportedValue, Resource
    from mirror_sdk.simulator.async_simulator import AsyncSimulator
    from mirror_sdk.simulator.simulator import Simulator
    from mirror_sdk.value_explanation import Explanation
    from mirror_sdk.values import Value, ValueKind, parse_value, register_decoder, unregister_decoder
    from mirror_sdk.webhook import CallbackInbox, WebhookReceiver
    from mirror_sdk.wire.device_object import DesiredStatus
    from mirror_sdk.wire.directory import Device
    from mirror_sdk.wire.subscriptions import PresubscriptionRule, SubscriptionState

    __version__: str

__all__ = [
    "APIError",
    "AccessDenied",
    "Alarm",
    "AmbiguousName",
    "AsyncDeviceRequest",
    "AsyncEvents",
    "AsyncMirrorClient",
    "AsyncSimulator",
    "AsyncWatch",
    "AuthenticationError",
    "BadRequest",
    "BeforeHistory",
    "CallTimeout",
    "CallbackInbox",
    "CassetteDamaged",
    "ChannelGone",
    "ClientClosed",
    "ClientStatus",
    "CompatibilityWarning",
    "Condition",
    "ConditionWarning",
    "ConfigError",
    "Conflict",
    "ConnectionFailed",
    "DesiredStatus",
    "DesiredValue",
    "Device",
    "DeviceLike",
    "DeviceList",
    "DeviceObject",
    "DeviceRequest",
    "DeviceRequestFailed",
    "DeviceRequestRejected",
    "DeviceUnavailable",
    "DevicesLike",
    "EmptyTableWarning",
    "Event",
    "EventKind",
    "Events",
    "ExecuteRejected",
    "Explanation",
    "GapWarning",
    "InvalidValue",
    "LimitExceeded",
    "MirrorClient",
    "MirrorError",
    "NoHistory",
    "NoSuchResource",
    "NotFound",
    "NotRecorded",
    "NotSubscribedWarning",
    "PreconditionFailed",
    "PresubscriptionRule",
    "ReadRejected",
    "RecordingDamaged",
    "ReportedValue",
    "RequestExpired",
    "Resource",
    "ResourceDeclaration",
    "ResourceNotFound",
    "ResourceType",
    "ServerError",
    "Simulator",
    "SnapshotWarning",
    "SubscriptionState",
    "UnexpectedResponse",
    "UnitWarning",
    "UnknownDevice",
    "UnknownQuery",
    "UnknownResource",
    "Value",
    "ValueKind",
    "WaitTimeout",
    "Watch",
    "WebhookReceiver",
    "WriteRejected",
    "load_object_definitions",
    "parse_value",
    "register_decoder",
    "register_object",
    "show_progress",
    "unregister_decoder",
]

# Each module is imported when one of its names is first used, so that a program loads only the modules it needs. Names
# in __all__ that are missing here are errors and warnings.
_NAMES = {
    "mirror_sdk._protocol.async_log_consumers": ["AsyncEvents", "AsyncWatch"],
    "mirror_sdk._async_client": ["AsyncMirrorClient"],
    "mirror_sdk._protocol.log_consumers": ["Events", "Watch"],
    "mirror_sdk._client": ["MirrorClient"],
    "mirror_sdk._protocol.async_device_request": ["AsyncDeviceRequest"],
    "mirror_sdk.simulator.async_simulator": ["AsyncSimulator"],
    "mirror_sdk.simulator.simulator": ["Simulator"],
    "mirror_sdk.conditions": ["Alarm", "Condition"],
    "mirror_sdk.device": ["DeviceList", "DeviceObject"],
    "mirror_sdk._protocol.device_request": ["DeviceRequest"],
    "mirror_sdk.events": ["Event", "EventKind"],
    "mirror_sdk.value_explanation": ["Explanation"],
    "mirror_sdk.device_lookup": ["DeviceLike", "DevicesLike"],
    "mirror_sdk.object_definitions": [
        "ResourceDeclaration",
        "ResourceType",
        "load_object_definitions",
        "register_object",
    ],
    "mirror_sdk.plan": ["AsyncPlan", "Plan"],
    "mirror_sdk.progress": ["show_progress"],
    "mirror_sdk.resource": ["DesiredValue", "ReportedValue", "Resource"],
    "mirror_sdk._protocol.client_status": ["ClientStatus"],
    "mirror_sdk.values": ["Value", "ValueKind", "parse_value", "register_decoder", "unregister_decoder"],
    "mirror_sdk.webhook": ["CallbackInbox", "WebhookReceiver"],
    "mirror_sdk.wire.device_object": ["DesiredStatus"],
    "mirror_sdk.wire.directory": ["Device"],
    "mirror_sdk.wire.subscriptions": ["PresubscriptionRule", "SubscriptionState"],
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names}

if not TYPE_CHECKING:  # otherwise a type checker would accept any name

    def __getattr__(name: str) -> object:
        if name == "__version__":
            found = _version()
        elif name in _HOMES or name in __all__:
            found = getattr(import_module(_HOMES.get(name, "mirror_sdk.errors")), name)
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=sys.modules[__name__])
        globals()[name] = found
        return found


def _version() -> str:
    # Imported at first use, because this import takes as long as the rest of the module.
    from importlib import metadata

    try:
        return metadata.version("device-state-mirror")
    except metadata.PackageNotFoundError:
        # The package runs from its sources without an installation, so this version is below any release.
        return "0+unknown"


def __dir__() -> list[str]:
    # Completion shows only public names.
    return sorted({*_HOMES, *__all__, "__version__"})
