"""A typed client for a device state mirror.

>>> from mirror_sdk import MirrorClient
>>> client = MirrorClient.from_env()  # API_HOST and API_KEY
>>> client.read_value("station-01", "/3303/0/5700")  # sends a request to the device, waits for the response
21.5
>>> client.write_value("light-01", "/3311/0/5851", 40)  # returns when the device has accepted the value
>>> light = client.get_device("light-01")  # reads the mirror; no device is involved
>>> light["/3311/0/5851"].value, light["/3311/0/5851"].desired_value  # as last reported, as last desired
(None, 40)

These devices are examples. ``client.devices.list()``, or ``mirror devices`` in a shell, lists yours.

- :class:`MirrorClient` blocks. :class:`AsyncMirrorClient` has the same methods for programs on an event loop, with
  ``aclose`` instead of ``close``.
- Most methods are in groups, which completion on ``client.`` shows: ``client.devices``, ``client.requests``,
  ``client.subscriptions``, ``client.notifications``, ``client.fleet``, ``client.plans``, ``client.cassettes`` and
  ``client.service``.
- ``help(mirror_sdk.MirrorClient)`` is the place to start for a single method. Its docstring states the result and the
  errors. ``Source`` at its end names the section of the interface's specification that defines the behavior. You do
  not need that document to use the client.
- ``mirror help TOPIC`` shows the other chapters of this manual: ``values``, ``tables``, ``snapshots``, ``privacy``,
  ``history``, ``plans``, ``recordings``, ``cassettes``, ``webhooks``, ``widgets``, ``dask``, ``testing``, ``shell``.

Installation
------------

``pip install "device-state-mirror[EXTRA]"`` installs the client and one or more extras; in a clone it is
``pip install ".[EXTRA]"``. The client alone needs none.

- ``frames``: tables for pandas. ``polars``: tables for Polars and Arrow without pandas. ``arrow``: for Arrow alone.
- ``notebook``: ``frames``, JupyterLab and the widgets. ``dask``: fleets larger than memory.
- ``server``: ``mirror-server``. ``history`` adds the history, ``postgresql`` a PostgreSQL database.
- ``lwm2m``: real devices, and ``mirror-device``. ``lwm2m-dtls`` adds DTLS. It is compiled, which needs
  ``apt-get install autoconf automake gcc libc6-dev make python3-dev``.
- ``all``: everything that ``mirror lab`` and its notebooks use.

Reading and writing
-------------------

A device responds to a request later, through the notification log. ``read_value``, ``write_value`` and ``execute`` wait
for the response. ``client.requests.begin_read()``, ``begin_write()`` and ``begin_execute()`` return a handle at once,
whose ``result(timeout)`` waits. If the wait times out, it raises :class:`WaitTimeout`; call ``result`` again to
continue waiting.

>>> request = client.requests.begin_read("light-01", "/3311/0/5851")
>>> request.result(timeout=10).python
40

The mirror stores the value that was reported last, however old it is. It never polls devices: a value arrives with a
read, a write or a subscription, or the device sends it unasked (auto-observation). A response that arrives after its
request timed out still updates the reported value.

``desired_at`` is the time of the write while the write is pending, and afterwards the time of the status update.
``requested_at`` keeps the time of the write.

- ``client.devices.explain(device, path)`` explains in words why a value is what it is, whether the device seems to be
  offline, and what would refresh the value.
- ``client.devices.connection(device)`` returns the protocols by which a device is connected, and whether a request
  would reach it now. An operator's key also gets the address that its messages come from.
- ``client.devices.update("light-01", name="Lamp by the window", attributes={"room": "B12"})`` describes a device.
- ``client.devices.list(attributes={"room": "B12"})`` filters by such attributes. Every method that takes
  devices accepts the devices that it returns.
- ``client.devices.queries.create("lights", filter)`` saves a filter; ``client.devices.list(query="lights")`` uses it.

Subscriptions and events
------------------------

``client.events()`` iterates over events in the order in which they happened; ``client.watch(callback)`` calls a
function for each. After a restart, a program continues with ``client.events(after=events.position)``, without loss or
repetition. If events were lost, a :class:`GapWarning` reports the gap; it is never skipped silently.

>>> from mirror_sdk.frames import events_frame
>>> LEVEL = "/3311/0/5851"
>>> lights = client.devices.list(endpoint_type="Light")
>>> events = client.events(paths=[LEVEL], limit=2 * len(lights))  # starts now
>>> rules = client.subscriptions.rules.add([{"endpoint_type": "Light", "resource_path": [LEVEL]}], apply_now=True)
>>> for device in lights:
...     client.write_value(device, LEVEL, 55)
>>> events_frame(events)[["endpoint_name", "value_num"]]  # the initial levels, and the levels after the writes
  endpoint_name  value_num
0      light-01       40.0
1      light-01       55.0

On an event loop the same program can have many requests in flight. The client runs CPU-bound work in threads:

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

If a device rejected a subscription or did not respond, the service tries again in three cases: the device registers or
updates its registration, rules are set with ``apply_now=True``, or ``client.subscribe`` is called again.
``client.subscriptions.state`` returns the result: ``active``, ``asked`` (no response of the device yet), ``refused``
or ``ended``, or ``none`` without a subscription. When a device registers again (not an update), its subscriptions made
with ``client.subscribe`` end, and the registration event lists them (``event.content.ended_subscriptions``). Rules
apply to the new registration too.

``read_value``, ``write_value`` and ``execute`` get their result as the response to the HTTP request that sends them. It
arrives with the notifications instead if the service does not support that, the device takes longer than a second, or
other calls wait on the same client.

Notifications use long polling. If a proxy cuts long polls, call ``client.notifications.use_websocket()``. It switches
to websockets, or raises an error that states why they are unavailable. Nothing else changes.

``client.devices.events_frame()`` lists when devices registered and deregistered, even while no client was connected.
The service keeps these events for a month unless the operator sets another time.

Timeouts, retries and limits
----------------------------

All errors are :class:`MirrorError`; :mod:`mirror_sdk.errors` begins with a drawing of the error tree.

- ``timeout`` (30 s) limits a call as a whole: all attempts, pages and bodies. Set it for a client or for a call. A call
  that takes longer raises :class:`CallTimeout`.
- If a method waits for a device or an event, its ``timeout`` limits that wait, by default to a minute. After that, the
  request itself continues to wait for the device.
- ``expiry_seconds`` limits how long a request waits for the device: by default two hours, or three days if the device
  is in queue mode. Such a device sleeps between its contacts, and receives its requests at the next contact. Plans set
  other times (``mirror help plans``). At most 20 requests can wait for a device.
- ``max_retries`` (2) limits how often a call is repeated after ``429``, ``502``, ``503``, ``504`` or a lost connection.
  Only idempotent calls are repeated. A write counts as idempotent, because its async-id prevents a second execution.
- If a call that waits for its device loses the connection, or a proxy returns ``502`` or ``504``, it is repeated until
  its timeout.
- A response is limited to 64 MiB after decompression, an error response to 1 MiB, a snapshot to
  ``max_snapshot_bytes``.
- ``client.notifications.status()`` shows whether the service responds, which channel is in use, what is pending, and
  recent anomalies.

Without ``API_HOST`` the client uses ``http://127.0.0.1:8080``, where ``mirror-server demo`` and ``run`` listen. The
client uses the proxy of ``HTTP_PROXY``, ``HTTPS_PROXY`` or ``ALL_PROXY``, except for what ``NO_PROXY`` lists (hosts,
networks, ``*``). The certificates of ``SSL_CERT_FILE`` or ``SSL_CERT_DIR`` replace the usual ones.

Several users of one key
------------------------

A key is an application. Two analysts, two notebooks or two cells with one key share:

- The presubscription rules, which are one list. ``client.subscriptions.rules.add()`` and ``remove()`` leave the rules
  of other users alone; ``replace()`` and ``delete_all()`` do not. A rule that two users rely on is removed when one of
  them removes it.
- Single subscriptions. A user can ``unsubscribe`` one that another user subscribed.
- The notification log. Every user reads all of it, including responses, each from a position of their own (``events``,
  ``watch``, ``record``, event streams).
- Requests and their async-ids. ``client.requests.list()`` lists the requests of all users, and
  ``client.requests.resume()`` resumes any of them. The same async-id for a different request raises :class:`Conflict`.
- The webhook and plain polls (without ``after=``). There is one webhook; a new one replaces it. Plain polls share one
  position: an entry that one of them received is not sent to another.
- Limits: the size of the log, polls, streams and websockets, snapshots in progress, unread responses
  (``mirror-server help operate``).

Positions, snapshots, tables, plans and recordings belong to one user. Shared by all keys are values, the 20 requests
that can wait for a device, the descriptions of devices (``client.devices.update``), and the saved filters of the
directory (``client.devices.queries.create``).

Several processes
-----------------

A client that was made before a fork (``gunicorn --preload``, ``ProcessPoolExecutor``) can be used in the children, each
with connections of its own. Watches, recorders and a webhook stay in the parent. Use an asynchronous client on an event
loop of the child. A client cannot be pickled: make one in each process.

>>> client.close()

In a web application
--------------------

A client has a connection pool, so make one client per application and keep it open while the application runs. Devices
are identified by id or endpoint name. Return objects as ``to_dict()``, which any JSON encoder accepts, or
``to_json()``, which is text. The form of a value is described in ``help(mirror_sdk.Value.to_dict)``. ``from_env()``
reads ``API_HOST`` and ``API_KEY``.

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
... async def handle_error(request: Request, error: MirrorError) -> JSONResponse:
...     if isinstance(error, NotFound):
...         return JSONResponse({"detail": error.message}, status_code=404)
...     if isinstance(error, ValueError):  # the value cannot be sent
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
/3311/0/5851 (Light Control · Dimmer, integer) takes a whole number from 0 to 100, not 400; pass a number in this range

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
... def handle_error(error):
...     if isinstance(error, NotFound):
...         return {"detail": error.message}, 404
...     if isinstance(error, ValueError):  # the value cannot be sent
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
        UnexpectedResponse,
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

# Imported at first use, so that a program waits only for what it uses. Names in __all__ that are missing here are
# errors and warnings.
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

if not TYPE_CHECKING:  # a type checker would accept any name

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
    # Imported at first use: it takes as long as the rest of this module.
    from importlib import metadata

    try:
        return metadata.version("device-state-mirror")
    except metadata.PackageNotFoundError:
        # The sources without an installation: a version below any release.
        return "0+unknown"


def __dir__() -> list[str]:
    # Completion shows only public names.
    return sorted({*_HOMES, *__all__, "__version__"})
