"""A typed client for a device state mirror.

>>> from mirror_sdk import MirrorClient
>>> client = MirrorClient("https://mirror.example.com", "an-access-key")
>>> client
<MirrorClient https://mirror.example.com>
>>> client.close()

In a web application
--------------------

A client has a pool of connections, so an application has one client, open for as long as the application runs. A device
is named by its id or its endpoint name; what comes back goes out by ``to_dict()``, which any JSON encoder takes as it
is (``to_json()`` is the text of it). ``from_env()`` reads ``API_HOST`` and ``API_KEY``.

FastAPI, with the asynchronous client:

>>> from contextlib import asynccontextmanager
>>> from fastapi import FastAPI, Request
>>> from fastapi.responses import JSONResponse
>>> from mirror_sdk import AsyncMirrorClient, MirrorError, NotFound
>>> @asynccontextmanager
... async def lifespan(app):
...     async with AsyncMirrorClient.from_env() as app.state.mirror:
...         yield
>>> app = FastAPI(lifespan=lifespan)
>>> @app.get("/devices/{name}")
... async def show(name: str, request: Request) -> dict:
...     device = await request.app.state.mirror.get_device(name)
...     return device.to_dict()
>>> @app.put("/devices/{name}/dimmer/{percent}", status_code=204)
... async def dim(name: str, percent: int, request: Request) -> None:
...     await request.app.state.mirror.write_value(name, "/3311/0/5851", percent)
>>> @app.exception_handler(MirrorError)
... async def tell(request: Request, error: MirrorError) -> JSONResponse:
...     if isinstance(error, NotFound):
...         return JSONResponse({"detail": error.message}, status_code=404)
...     if isinstance(error, ValueError):  # what was asked for cannot be sent
...         return JSONResponse({"detail": str(error)}, status_code=400)
...     return JSONResponse({"detail": type(error).__name__}, status_code=502)

>>> import asyncio, httpx
>>> async def use():
...     web = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost")
...     async with app.router.lifespan_context(app), web:
...         print((await web.put("/devices/light-01/dimmer/40")).status_code)
...         found = (await web.get("/devices/light-01")).json()
...         print(found["resources"]["/3311/0/5851"]["desired"]["value"])
...         print((await web.get("/devices/ligth-01")).json()["detail"])
...         print((await web.put("/devices/light-01/dimmer/400")).json()["detail"])
>>> asyncio.run(use())
204
40
no device has the id or endpoint name 'ligth-01'; close to it: light-01, station-01
/3311/0/5851 (Light Control · Dimmer, integer) takes a whole number from 0 to 100, not 400; give a number in this range

Flask, with the synchronous client, which all threads of a worker share:

>>> from flask import Flask
>>> from mirror_sdk import MirrorClient, MirrorError, NotFound
>>> mirror = MirrorClient.from_env()
>>> app = Flask("dimmer")
>>> @app.get("/devices/<name>")
... def show(name):
...     return mirror.get_device(name).to_dict()
>>> @app.put("/devices/<name>/dimmer/<int:percent>")
... def dim(name, percent):
...     mirror.write_value(name, "/3311/0/5851", percent)
...     return "", 204
>>> @app.errorhandler(MirrorError)
... def tell(error):
...     if isinstance(error, NotFound):
...         return {"detail": error.message}, 404
...     if isinstance(error, ValueError):  # what was asked for cannot be sent
...         return {"detail": str(error)}, 400
...     return {"detail": type(error).__name__}, 502

>>> web = app.test_client()
>>> web.put("/devices/light-01/dimmer/30").status_code
204
>>> web.get("/devices/light-01").json["resources"]["/3311/0/5851"]["desired"]["value"]
30
>>> [web.get("/devices/ligth-01").status_code, web.put("/devices/light-01/dimmer/400").status_code]
[404, 400]
>>> mirror.close()

With ``gunicorn --preload`` the client is made before the workers are forked. That is safe: after a fork each process
has connections of its own.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mirror_sdk._async_channels import AsyncEvents, AsyncWatch
    from mirror_sdk._async_client import AsyncMirrorClient
    from mirror_sdk._channels import Events, Watch
    from mirror_sdk._client import MirrorClient
    from mirror_sdk.async_bench import AsyncBench
    from mirror_sdk.async_device_request import AsyncDeviceRequest
    from mirror_sdk.bench import Bench
    from mirror_sdk.device import DesiredValue, DeviceList, DeviceObject, ReportedValue, Resource
    from mirror_sdk.device_request import DeviceRequest
    from mirror_sdk.errors import (
        AccessDenied,
        AmbiguousName,
        APIError,
        AuthenticationError,
        BadRequest,
        CallTimeout,
        ChannelGone,
        ClientClosed,
        CompatibilityWarning,
        ConfigError,
        Conflict,
        ConnectionFailed,
        DeviceRequestFailed,
        DeviceUnavailable,
        GapWarning,
        LimitExceeded,
        MirrorError,
        NoSuchResource,
        NotFound,
        NotSubscribedWarning,
        PreconditionFailed,
        RecordingDamaged,
        RequestExpired,
        ResourceNotFound,
        ServerError,
        SnapshotWarning,
        UnexpectedAnswer,
        UnknownDevice,
        UnknownResource,
        ValueRefused,
        WaitTimeout,
        WriteRejected,
    )
    from mirror_sdk.events import Event, EventKind
    from mirror_sdk.explanation import Explanation
    from mirror_sdk.naming import DeviceLike
    from mirror_sdk.object_table import ResourceDeclaration, ResourceType, load_object_definitions, register_object

    # These are in no __all__: with what they need, pandas, not every program has been installed.
    from mirror_sdk.plan import AsyncPlan as AsyncPlan
    from mirror_sdk.plan import Plan as Plan
    from mirror_sdk.progress import show_progress
    from mirror_sdk.status import ClientStatus
    from mirror_sdk.values import Value, ValueKind, parse_value
    from mirror_sdk.webhook import CallbackInbox, WebhookReceiver
    from mirror_sdk.wire.device_object import DesiredStatus
    from mirror_sdk.wire.directory import Device
    from mirror_sdk.wire.subscriptions import PresubscriptionRule, SubscriptionState

    __version__: str

__all__ = [
    "APIError",
    "AccessDenied",
    "AmbiguousName",
    "AsyncBench",
    "AsyncDeviceRequest",
    "AsyncEvents",
    "AsyncMirrorClient",
    "AsyncWatch",
    "AuthenticationError",
    "BadRequest",
    "Bench",
    "CallTimeout",
    "CallbackInbox",
    "ChannelGone",
    "ClientClosed",
    "ClientStatus",
    "CompatibilityWarning",
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
    "DeviceUnavailable",
    "Event",
    "EventKind",
    "Events",
    "Explanation",
    "GapWarning",
    "LimitExceeded",
    "MirrorClient",
    "MirrorError",
    "NoSuchResource",
    "NotFound",
    "NotSubscribedWarning",
    "PreconditionFailed",
    "PresubscriptionRule",
    "RecordingDamaged",
    "ReportedValue",
    "RequestExpired",
    "Resource",
    "ResourceDeclaration",
    "ResourceNotFound",
    "ResourceType",
    "ServerError",
    "SnapshotWarning",
    "SubscriptionState",
    "UnexpectedAnswer",
    "UnknownDevice",
    "UnknownResource",
    "Value",
    "ValueKind",
    "ValueRefused",
    "WaitTimeout",
    "Watch",
    "WebhookReceiver",
    "WriteRejected",
    "load_object_definitions",
    "parse_value",
    "register_object",
    "show_progress",
]

# Loaded when they are first asked for: a program that uses one client does not wait for all there is.
_NAMES = {
    "mirror_sdk._async_channels": ["AsyncEvents", "AsyncWatch"],
    "mirror_sdk._async_client": ["AsyncMirrorClient"],
    "mirror_sdk._channels": ["Events", "Watch"],
    "mirror_sdk._client": ["MirrorClient"],
    "mirror_sdk.async_device_request": ["AsyncDeviceRequest"],
    "mirror_sdk.async_bench": ["AsyncBench"],
    "mirror_sdk.bench": ["Bench"],
    "mirror_sdk.device": ["DesiredValue", "DeviceList", "DeviceObject", "ReportedValue", "Resource"],
    "mirror_sdk.device_request": ["DeviceRequest"],
    "mirror_sdk.errors": [
        "AccessDenied",
        "AmbiguousName",
        "APIError",
        "AuthenticationError",
        "BadRequest",
        "ChannelGone",
        "CallTimeout",
        "ClientClosed",
        "CompatibilityWarning",
        "ConfigError",
        "Conflict",
        "ConnectionFailed",
        "DeviceRequestFailed",
        "DeviceUnavailable",
        "GapWarning",
        "LimitExceeded",
        "MirrorError",
        "NoSuchResource",
        "NotFound",
        "NotSubscribedWarning",
        "PreconditionFailed",
        "RecordingDamaged",
        "RequestExpired",
        "ResourceNotFound",
        "ServerError",
        "SnapshotWarning",
        "UnexpectedAnswer",
        "UnknownDevice",
        "UnknownResource",
        "ValueRefused",
        "WaitTimeout",
        "WriteRejected",
    ],
    "mirror_sdk.events": ["Event", "EventKind"],
    "mirror_sdk.explanation": ["Explanation"],
    "mirror_sdk.naming": ["DeviceLike"],
    "mirror_sdk.object_table": ["ResourceDeclaration", "ResourceType", "load_object_definitions", "register_object"],
    "mirror_sdk.plan": ["AsyncPlan", "Plan"],
    "mirror_sdk.progress": ["show_progress"],
    "mirror_sdk.status": ["ClientStatus"],
    "mirror_sdk.values": ["Value", "ValueKind", "parse_value"],
    "mirror_sdk.webhook": ["CallbackInbox", "WebhookReceiver"],
    "mirror_sdk.wire.device_object": ["DesiredStatus"],
    "mirror_sdk.wire.directory": ["Device"],
    "mirror_sdk.wire.subscriptions": ["PresubscriptionRule", "SubscriptionState"],
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names}

if not TYPE_CHECKING:  # which would believe that there are names of any spelling

    def __getattr__(name: str) -> object:
        if name == "__version__":
            found = _version()
        elif name in _HOMES:
            found = getattr(import_module(_HOMES[name]), name)
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=sys.modules[__name__])
        globals()[name] = found
        return found


def _version() -> str:
    # Loaded only when it is asked for: it takes as long as the rest of this module.
    from importlib import metadata

    try:
        return metadata.version("device-state-mirror")
    except metadata.PackageNotFoundError:
        # The bare sources, on the path of a program: lower than any release.
        return "0+unknown"


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
