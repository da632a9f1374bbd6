"""A typed client for a device state mirror.

>>> from mirror_sdk import MirrorClient
>>> client = MirrorClient.from_env()  # API_HOST and API_KEY
>>> client.read_value("station-01", "/3303/0/5700")  # asks the device, waits for its answer
21.5
>>> client.write_value("light-01", "/3311/0/5851", 40)  # returns when the device has taken it
>>> light = client.get_device("light-01")  # asks the mirror alone, no device
>>> light["/3311/0/5851"].value, light["/3311/0/5851"].desired_value  # as last reported, as last desired
(None, 40)

These devices are examples: ``client.devices.list()``, or ``mirror devices`` in a shell, shows those there are. Most
methods are in groups, which completion on ``client.`` shows: ``client.devices``, ``client.requests``,
``client.subscriptions``, ``client.notifications``, ``client.fleet``, ``client.plans``, ``client.cassettes`` and
``client.service``.
:class:`MirrorClient` blocks; :class:`AsyncMirrorClient` has the same methods for a program on an event loop, with
``aclose`` for ``close``. Each method says what it gives, what it raises and where the interface defines it:
``help(mirror_sdk.MirrorClient)`` is the place to begin. What belongs together is told in the modules, as
``mirror help TOPIC`` shows them: ``values``, ``tables``, ``snapshots``, ``privacy``, ``history``, ``plans``,
``recordings``, ``cassettes``, ``webhooks``, ``widgets``, ``dask``, ``testing``, ``shell``.

Asking devices
--------------

A request to a device is answered later, through the notification log. ``read_value``, ``write_value`` and ``execute``
wait for that. ``client.requests.begin_read()``, ``begin_write()`` and ``begin_execute()`` return at once with a handle,
whose ``result(timeout)`` waits: a wait that ends too early is a :class:`WaitTimeout`, and the same handle may be asked
again.

>>> request = client.requests.begin_read("light-01", "/3311/0/5851")
>>> request.result(timeout=10).python
40

What the mirror holds is what was reported last, whenever that was. It never asks a device on its own: a value comes
with a read, a write, a subscription or an auto-observation. ``client.devices.explain(device, path)`` says in words why
a value is what it is, whether the device seems cut off, and what would refresh it. While a write is pending,
``desired_at`` is the time of issue; afterwards it is the time of the status update, and ``requested_at`` keeps the time
of issue. What a device answers too late still shows as the reported value. ``client.devices.connection(device)`` tells
how a device is connected: by which protocols, whether a request would reach it now, and for operators from where its
messages come.

``client.devices.update("light-01", name="Lamp by the window", attributes={"room": "B12"})`` describes a device, and
``client.devices.list(attributes={"room": "B12"})`` finds it by that. A filter can be saved with
``client.devices.queries.create("lights", filter)`` and used with ``client.devices.list(query="lights")``. The devices
found can be passed wherever a method takes devices.

Subscriptions and events
------------------------

``client.events()`` iterates over what happens, in the order in which it happened; ``client.watch(callback)`` calls
back. A program that stops goes on with ``client.events(after=events.position)``, without loss or repetition. What was
lost is told (:class:`GapWarning`), never skipped.

>>> from mirror_sdk.frames import events_frame
>>> LEVEL = "/3311/0/5851"
>>> lights = client.devices.list(endpoint_type="Light")
>>> events = client.events(paths=[LEVEL], limit=2 * len(lights))  # from here on
>>> rules = client.subscriptions.rules.add([{"endpoint_type": "Light", "resource_path": [LEVEL]}], apply_now=True)
>>> for device in lights:
...     client.write_value(device, LEVEL, 55)
>>> events_frame(events)[["endpoint_name", "value_num"]]  # the levels before, and what the lights then told
  endpoint_name  value_num
0      light-01       40.0
1      light-01       55.0

The same on an event loop, where many requests may be under way at once. Whatever takes long is done beside the loop:

>>> import asyncio
>>> from mirror_sdk import AsyncMirrorClient
>>> async def dim(percent):
...     async with AsyncMirrorClient.from_env() as client:
...         lights = await client.devices.list(endpoint_type="Light")
...         async with client.events(paths=[LEVEL], limit=len(lights)) as events:
...             await asyncio.gather(*(client.write_value(device, LEVEL, percent) for device in lights))
...             return events_frame([event async for event in events])
>>> asyncio.run(dim(60))["value_num"].tolist()  # in a notebook: await dim(60)
[60.0]

A device that refused a subscription or did not answer is asked again: when it registers or updates its registration, by
rules that are put with ``apply_now=True``, by another ``client.subscribe``. ``client.subscriptions.state`` tells what
became of it: ``active``, ``asked``, ``refused``, or ``ended``. A full registration ends single subscriptions, which its
event names (``event.content.ended_subscriptions``); rules hold for the next one too.

The answer to a read, a write or an execution that is waited for comes with its request, in one way to the service and
back, or with the notifications: where the service does not do that, the device takes longer than a second, or others
wait with the same client. Notifications come by long polling. Where a proxy cuts that,
``client.notifications.use_websocket()`` has them come by websockets, or says why there is none to be had; all else
stays as it is.

When devices registered and left, ``client.devices.events_frame()`` tells whoever did not listen then, for a month where
the operator chose nothing else.

Limits and failures
-------------------

All errors are :class:`MirrorError`; :mod:`mirror_sdk.errors` begins with a drawing of them. A call ends: ``timeout``
(30 s; of the client, and of each call) limits it as a whole, with all attempts, pages and bodies, and what takes longer
is a :class:`CallTimeout`. Where a device or an event is waited for, ``timeout`` is that wait, a minute by default; a
request that nobody waits for any more still waits for its device, where no ``expiry_seconds`` is given for two hours,
or three days in queue mode, and 20 may. ``max_retries`` (2) is how often a call is tried again after ``429``, ``502``,
``503``, ``504`` and lost connections, if it means the same twice; a write does, by its async-id. What waits for its
device with the request open is tried for as long as the call lasts, where it is lost on the way or a proxy tells so
(``502``, ``504``). An answer may have 64 MiB after decompression, a refusal 1 MiB, a snapshot ``max_snapshot_bytes``.
``client.notifications.status()`` tells whether the service answers, which channel is used, what waits and what was odd.

Without ``API_HOST`` a client asks ``http://127.0.0.1:8080``, where ``mirror-server demo`` and ``run`` listen. The proxy
that ``HTTP_PROXY``, ``HTTPS_PROXY`` or ``ALL_PROXY`` names is used, except for what ``NO_PROXY`` lists (hosts,
networks, ``*``); the certificates of ``SSL_CERT_FILE`` or ``SSL_CERT_DIR`` are trusted in the place of the usual ones.

Several users of one key
------------------------

A key is an application. Two analysts, two notebooks or two cells with one key share

- the presubscription rules, which are one list: ``client.subscriptions.rules.add()`` and ``remove()`` leave the rules
  of others, ``replace()`` and ``delete_all()`` do not. A rule that two rely on goes when one of them removes it;
- single subscriptions: what one of them subscribed another can ``unsubscribe``;
- the notification log: everybody reads all of it, answers too, each from a position of their own (``events``,
  ``watch``, ``record``, event streams);
- requests and their async-ids: ``client.requests.list()`` lists those of all, ``client.requests.resume()`` takes one
  up; the same async-id for another request is a :class:`Conflict`;
- the webhook and plain polls: there is one webhook, and the next one replaces it. Plain polls have one position, and
  what one of them took no other gets;
- limits: the size of the log, polls, streams and websockets, snapshots under way, answers not read
  (``mirror-server help operate``).

Each has alone its positions, snapshots, tables, plans and recordings. Values, the 20 requests that may wait for a
device, what is said of devices (``client.devices.update``) and the saved filters of the directory
(``client.devices.queries.create``) are those of all keys.

Several processes
-----------------

A client that is made before a fork (``gunicorn --preload``, ``ProcessPoolExecutor``) may be used in the children, each
with connections of its own. Watches, recorders and a webhook stay with the parent; an asynchronous client is used on an
event loop of the child's own. A client cannot be pickled: make one in each process.

>>> client.close()

In a web application
--------------------

A client has a pool of connections, so an application has one client, open for as long as the application runs. A device
is named by its id or its endpoint name; what comes back goes out by ``to_dict()``, which any JSON encoder takes as it
is (``to_json()`` is the text of it, ``help(mirror_sdk.Value.to_dict)`` has the form of a value). ``from_env()`` reads
``API_HOST`` and ``API_KEY``.

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
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mirror_sdk._async_client import AsyncMirrorClient
    from mirror_sdk._client import MirrorClient
    from mirror_sdk._protocol.async_channels import AsyncEvents, AsyncWatch
    from mirror_sdk._protocol.async_device_request import AsyncDeviceRequest
    from mirror_sdk._protocol.channels import Events, Watch
    from mirror_sdk._protocol.device_request import DeviceRequest
    from mirror_sdk._protocol.status import ClientStatus
    from mirror_sdk.device import DeviceList, DeviceObject
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
        ConfigError,
        Conflict,
        ConnectionFailed,
        DeviceRequestFailed,
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
        UnexpectedAnswer,
        UnitWarning,
        UnknownDevice,
        UnknownQuery,
        UnknownResource,
        WaitTimeout,
        WriteRejected,
    )
    from mirror_sdk.events import Event, EventKind
    from mirror_sdk.explanation import Explanation
    from mirror_sdk.naming import DeviceLike, DevicesLike
    from mirror_sdk.object_table import ResourceDeclaration, ResourceType, load_object_definitions, register_object

    # These are in no __all__: with what they need, pandas, not every program has been installed.
    from mirror_sdk.plan import AsyncPlan as AsyncPlan
    from mirror_sdk.plan import Plan as Plan
    from mirror_sdk.progress import show_progress
    from mirror_sdk.resource import DesiredValue, ReportedValue, Resource
    from mirror_sdk.simulator.async_simulator import AsyncSimulator
    from mirror_sdk.simulator.simulator import Simulator
    from mirror_sdk.values import Value, ValueKind, parse_value, register_decoder, unregister_decoder
    from mirror_sdk.webhook import CallbackInbox, WebhookReceiver
    from mirror_sdk.wire.device_object import DesiredStatus
    from mirror_sdk.wire.directory import Device
    from mirror_sdk.wire.subscriptions import PresubscriptionRule, SubscriptionState

    __version__: str

__all__ = [
    "APIError",
    "AccessDenied",
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
    "UnexpectedAnswer",
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

# Loaded when they are first asked for: a program that uses one client does not wait for all there is. What stands in
# __all__ and not in here is an error or a warning.
_NAMES = {
    "mirror_sdk._protocol.async_channels": ["AsyncEvents", "AsyncWatch"],
    "mirror_sdk._async_client": ["AsyncMirrorClient"],
    "mirror_sdk._protocol.channels": ["Events", "Watch"],
    "mirror_sdk._client": ["MirrorClient"],
    "mirror_sdk._protocol.async_device_request": ["AsyncDeviceRequest"],
    "mirror_sdk.simulator.async_simulator": ["AsyncSimulator"],
    "mirror_sdk.simulator.simulator": ["Simulator"],
    "mirror_sdk.device": ["DeviceList", "DeviceObject"],
    "mirror_sdk._protocol.device_request": ["DeviceRequest"],
    "mirror_sdk.events": ["Event", "EventKind"],
    "mirror_sdk.explanation": ["Explanation"],
    "mirror_sdk.naming": ["DeviceLike", "DevicesLike"],
    "mirror_sdk.object_table": ["ResourceDeclaration", "ResourceType", "load_object_definitions", "register_object"],
    "mirror_sdk.plan": ["AsyncPlan", "Plan"],
    "mirror_sdk.progress": ["show_progress"],
    "mirror_sdk.resource": ["DesiredValue", "ReportedValue", "Resource"],
    "mirror_sdk._protocol.status": ["ClientStatus"],
    "mirror_sdk.values": ["Value", "ValueKind", "parse_value", "register_decoder", "unregister_decoder"],
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
        elif name in _HOMES or name in __all__:
            found = getattr(import_module(_HOMES.get(name, "mirror_sdk.errors")), name)
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
    # The public names alone, which is what a completion shows: no helper of this module, no module that was imported.
    return sorted({*_HOMES, *__all__, "__version__"})
