"""Every operation of the interface. Source: specification E1-E5; wire.md 0-10."""

from __future__ import annotations

from collections.abc import Mapping

from mirror_sdk.wire import (
    access_key,
    bench,
    channel,
    device_events,
    device_object,
    device_queries,
    device_requests,
    directory,
    notifications,
    older_calls,
    routes,
    snapshot,
)
from mirror_sdk.wire.health import OK, SERVICE
from mirror_sdk.wire.presubscription_rules import PresubscriptionRules
from mirror_server.description import parameters
from mirror_server.description.parts import Answer, Content, Operation
from mirror_server.notifications.outbound import LIMIT_SECONDS
from mirror_server.store.resources import Kind, Part, streamed_columns

_SUBSCRIPTION = f"{routes.DEVICE_SUBSCRIPTIONS}/{{path}}"
_RESOURCE = f"{routes.ENDPOINT_RESOURCES}/{{path}}"
_BENCH_RESOURCE = f"{routes.BENCH_DEVICE}/resources/{{path}}"
_OF_A_POSITION = (routes.CURSOR_HEADER, routes.GAP_HEADER, routes.TIME_HEADER)
_MESSAGE = Content(
    model=notifications.NotificationMessage,
    variants=("a read or write that the device did", "an observation with all its options", "a registration"),
)
_REGISTRATION = Content(
    model=channel.CallbackRegistration, variants=("the registration object of the specification", "everything")
)
_NEW_WEBSOCKET = Content(model=channel.WebsocketChannel, variants=("registered, no socket open",))
_OPEN_WEBSOCKET = Content(model=channel.WebsocketChannel, variants=("an open socket",))
_WAITING = Answer(
    code=200,
    meaning="A page; the values of writes are not shown.",
    content=Content(
        model=device_requests.WaitingRequestPage, variants=("one that waits and one that the device has in hand",)
    ),
)
_ACCEPTED = Answer(
    code=202,
    meaning="Accepted, and on disk.",
    content=Content(model=device_requests.DeviceRequestAccepted, variants=("202",)),
    headers=(routes.REQUESTED_AT_HEADER, routes.EXPIRES_AT_HEADER),
)
_ACCEPTED_OR_ENDED = Answer(
    code=202,
    meaning="Accepted, and on disk; with `Prefer: wait` maybe ended, too.",
    content=Content(model=device_requests.DeviceRequestAccepted, variants=("202", "202 with the answer")),
    headers=(routes.REQUESTED_AT_HEADER, routes.EXPIRES_AT_HEADER, routes.PREFERENCE_APPLIED_HEADER),
)
_NOBODY_IS_TOLD = Answer(code=204, meaning="Accepted with `noResp`, and on disk; nobody is told how it ends.")
_STREAM = (
    "retry: 2000\n\n"
    'id: 41\nevent: notifications\ndata: {"ep":"015f2ab4c6d80000000000010010003f","path":"/3303/0/5700",'
    '"ct":"text/plain","payload":"NDA2","max-age":0,"uid":"8b8df6a6-0f2c-4a39-8a8e-9b7a52a4a0f3",'
    '"timestamp":1614180566644}\n\n'
    ": still here\n\n"
    'id: 57\nevent: gap\ndata: {"first":42,"last":57}\n\n'
)
_SNAPSHOT = (
    '{"object":"device-echo","device_id":"015f2ab4c6d80000000000010010003f","endpoint_name":"sensor-1",'
    '"created_at":"2026-11-20T12:37:55.576Z","updated_at":"2026-11-20T12:00:00.000Z","resources":[]}\n'
    '{"object":"snapshot-end","taken_at":"2026-11-20T12:37:55.576Z","device_count":1,"revision":482113,"seq":57}\n'
)


_TYPES: Mapping[Kind, str] = {
    "word": "string",
    "bytes": "binary",
    "instant": "timestamp[ms, tz=UTC]",
    "integer": "int64",
    "small integer": "int8",
    "flag": "bool",
}
_NOTES = {
    "reported_value": ", the payload as it came",
    "reported_revision": ", as `revision` of a reported value in JSON",
    "reported_origin": ", as `origin` of a reported value in JSON",
    "desired_status": ": 0 pending, 1 success, 2 failure",
    "desired_revision": ", as `revision` of a desired value in JSON",
}


def _streamed(*parts: Part) -> str:
    lines = [f"    - `{name}` {_TYPES[kind]}{_NOTES.get(name, '')}" for name, kind in streamed_columns(*parts).items()]
    return "\n".join(lines)


_ARROW_COLUMNS = f"""\
An Arrow IPC stream, a row a device:

- `device_id` string
- `endpoint_name` string
- `resources` list, null for a device that has not changed after `changed_after`; of each resource, by path:
{_streamed("resource", "reported")}
- `desired` list, of the resources that have a desired value:
    - `resource` int32, the place of its resource in `resources`, from 0
{_streamed("desired")}

`path`, the content types, the origin and `acknowledged_by` are encoded as dictionaries with int32 indices. The last
batch has no rows, and the snapshot's end in its metadata `mirror.end`."""


_HISTORY = (
    '{"object":"history-row","device_id":"015f2ab4c6d80000000000010010003f","endpoint_name":"sensor-1",'
    '"path":"/3303/0/5700","changed_at":"2026-11-20T12:37:50.001Z","received_at":"2026-11-20T12:37:50.214Z",'
    '"what":"reported","origin":"observation","value":"MjEuNQ==","content_type":"text/plain","revision":482109}\n'
    '{"object":"history-cursor","after":"WyJlODZlZDhhMjA3NTczZDFmIiwxLDJd"}\n'
    '{"object":"history-end","taken_at":"2026-11-21T12:37:55.576Z","oldest_at":"2026-10-22T00:00:00.000Z",'
    '"row_count":1,"revision":483113}\n'
)
_HISTORY_COLUMNS = """\
An Arrow IPC stream, a row for each thing that happened, null where something is not known or does not apply:

- `device_id` string, null where it happened to all devices
- `endpoint_name` string
- `path` string, null where it happened to a device as a whole
- `changed_at` timestamp[ms, tz=UTC], by the device's own clock where it told the time; of a gap where it begins
- `received_at` timestamp[ms, tz=UTC], when the service took it in
- `what` string: `reported`, `desired` (a write ended), `registration`, `reg_update`, `deregistration`, `expired`, `gap`
- `origin` string: `read`, `observation`, `auto_observation`, `registration`, `write`
- `value` binary, the payload as it came, or as it was to be written
- `content_type` string
- `status` int8, how a write ended: 1 success, 2 failure
- `category` string, why a write failed; told to the application that placed it alone
- `requested_at` timestamp[ms, tz=UTC], when a write was issued
- `until` timestamp[ms, tz=UTC], where a gap ends
- `revision` int64, the number of the row

Strings are encoded as dictionaries with int32 indices. Each batch has in its metadata `mirror.after` what goes on
behind its rows; the last one has no rows, and the end in its metadata `mirror.end`."""


_NOT_KEPT = ", ".join(f"`{name}`" for name in directory.NOT_KEPT)
_DESCRIBED = (
    Answer(
        code=200,
        meaning="The device as it is now.",
        content=Content(model=directory.Device, variants=("with what people say of it",)),
    ),
)
_DESCRIPTION = Content(
    model=directory.DeviceUpdate, variants=("what people say of it", "nothing any more", "a whole device sent back")
)
_OF_EVENTS = (
    Answer(code=200, meaning="A page.", content=Content(model=device_events.DeviceEventPage, variants=("a page",))),
)
_OF_EVENT = (
    Answer(
        code=200,
        meaning="The event.",
        content=Content(model=device_events.DeviceEvent, variants=("registered", "expired")),
    ),
)
_OF_QUERY = Content(model=device_queries.DeviceQuery, variants=("lights that are registered",))
_QUERY_UPDATE = Content(model=device_queries.DeviceQueryUpdate, variants=("another name", "a whole query sent back"))


def _text(media_type: str, example: str, meaning: str = "") -> Content:
    schema = {"type": "string"} | ({"description": meaning} if meaning else {})
    return Content(media_type=media_type, schema=schema, example=example)


_VALUE = "A value as it is, in the format that `Content-Type` tells."


def _raw(example: str) -> Content:
    """A body that is not looked into: in JSON it may be anything."""
    return Content(media_type="*/*", schema={"description": _VALUE}, example=example)


def _done(meaning: str, code: int = 204) -> tuple[Answer, ...]:
    return (Answer(code=code, meaning=meaning),)


MIRROR: dict[tuple[str, str], Operation] = {
    ("post", routes.ACKNOWLEDGEMENTS): Operation(
        name="acknowledge_failed_write",
        group="Mirror",
        summary="Acknowledge a failed write, so that it does not count as failed any more",
        meaning="The desired value shows when and by whom until the next write. A write that was acknowledged before"
        " stays as it is. The reason `NO_FAILED_WRITE` (409) says that the last write has not failed, or is another one"
        " than that of `revision`.",
        body=Content(
            model=device_requests.AcknowledgementBody, variants=("with the name of the key", "for somebody else")
        ),
        answers=_done("It is acknowledged."),
        errors=(404, 409),
        is_extension=True,
    ),
    ("get", routes.DEVICE_OBJECT): Operation(
        name="get_device_object",
        group="Mirror",
        summary="The device object: the last reported and the last desired value of every resource",
        meaning="It never asks the device. `content_type` and `requested_at` of a desired value, `revision`,"
        " `ETag` and `If-None-Match` are extensions.",
        parameters=parameters.UNLESS_CHANGED,
        answers=(
            Answer(
                code=200,
                meaning="The device object.",
                content=Content(
                    model=device_object.DeviceObject,
                    variants=(
                        "a read value and a write that succeeded",
                        "a pending write has no time of a status update",
                        "empty values at first registration",
                    ),
                ),
                headers=("ETag",),
            ),
            Answer(code=304, meaning="Nothing has changed.", headers=("ETag",)),
        ),
        errors=(404,),
    ),
    ("get", routes.SNAPSHOT): Operation(
        name="get_snapshot",
        group="Mirror",
        summary="Every device object of a selection, all as of one instant",
        meaning="As NDJSON, a device object a line, or as an Arrow IPC stream with a row a device and its resources in"
        " a list, as the header `Accept` asks; NDJSON by default. The last line, or the metadata `mirror.end` of the"
        " last batch, tells how many devices there were: an answer without it has broken off. Devices are selected as"
        " in `GET /v3/devices`; any other parameter is taken for a filter. With `as_of` it comes out of the history:"
        " 404 where none is kept, 400 with `oldest_at` before what is kept, and without `Mirror-Total`; what the"
        " history does not tell, whether a resource was subscribed, for how long its value was fresh and whether a"
        " failed write was acknowledged, is null or left out, and `reported_at` is the time of the change by the"
        " device's clock (`changed_at` of the history), so it is never after `as_of`.",
        parameters=parameters.SNAPSHOT,
        answers=(
            Answer(
                code=200,
                meaning="The device objects, as they are made.",
                content=_text(snapshot.NDJSON, _SNAPSHOT),
                other_content=_text(snapshot.ARROW, "an Arrow IPC stream", _ARROW_COLUMNS),
                headers=(routes.TOTAL_HEADER,),
            ),
        ),
        errors=(404, 406),
        is_extension=True,
    ),
    ("get", routes.HISTORY): Operation(
        name="get_history",
        group="Mirror",
        summary="What happened: every value that was reported, every write that ended, every registration",
        meaning="As NDJSON, a row a line, or as an Arrow IPC stream, as the header `Accept` asks; NDJSON by default. It"
        " shows what was known when the first page was begun. The last line, or the metadata `mirror.end` of the last"
        " batch, tells how many rows there were: an answer without it has broken off, and goes on with the last `after`"
        " it told. Rows without a path, registrations and gaps, come whatever `path` asks for: without them a value"
        " that did not change could not be told from one that could not be heard. How many rows come is known at the"
        " end alone, so there is no `Mirror-Total`. 404 where the operator keeps no history, 400 with `oldest_at` where"
        " an instant lies before what is kept. Any other parameter is taken for a filter, as in `GET /v3/devices`.",
        parameters=parameters.HISTORY,
        answers=(
            Answer(
                code=200,
                meaning="The rows, as they are read.",
                content=_text(snapshot.NDJSON, _HISTORY),
                other_content=_text(snapshot.ARROW, "an Arrow IPC stream", _HISTORY_COLUMNS),
            ),
        ),
        errors=(404, 406),
        is_extension=True,
    ),
    ("get", routes.SNAPSHOT_RANGES): Operation(
        name="get_device_ranges",
        group="Mirror",
        summary="The ids of a selection in ranges, so that it can be taken in parts",
        meaning="A part is taken with `id__gt` and `id__lte`. Ranges leave nothing out: a device that registers later"
        " is in one of them. Each part is a snapshot of its own; all devices as of one instant are in a whole snapshot"
        " alone. Devices are selected as in `GET /v3/devices`; any other parameter is taken for a filter.",
        parameters=parameters.RANGES,
        answers=(
            Answer(
                code=200,
                meaning="The ranges, by id.",
                content=Content(model=snapshot.DeviceRanges, variants=("a fleet in three ranges",)),
            ),
        ),
        is_extension=True,
    ),
    ("get", routes.DEVICES): Operation(
        name="list_devices",
        group="Directory",
        summary="The devices, page by page",
        meaning="A filter is a parameter of its own (`state__eq=registered` or `state=registered`) or stands in"
        " `filter`; of several, all have to hold. Any other parameter is taken for a filter, and refused when there is"
        " none of that name. `custom_attributes__NAME` filters by a custom attribute; a device without it has an empty"
        f" one. Fields that the public API has of its other services ({_NOT_KEPT}) are taken, and empty of every"
        " device.",
        parameters=parameters.DIRECTORY,
        answers=(
            Answer(
                code=200, meaning="A page.", content=Content(model=directory.DevicePage, variants=("a later page",))
            ),
        ),
    ),
    ("get", routes.DEVICE): Operation(
        name="get_device",
        group="Directory",
        summary="A device as the directory lists it",
        answers=(
            Answer(code=200, meaning="The device.", content=Content(model=directory.Device, variants=("registered",))),
        ),
        errors=(404,),
    ),
    ("put", routes.DEVICE): Operation(
        name="put_device",
        group="Directory",
        summary="Say something of a device: a name, a description, custom attributes",
        meaning="What is not given stays. An empty name or description takes away the one that was set; custom"
        " attributes replace all there are. What the device or the service tells may be sent back as it is, and is"
        f" refused when it is another. {_NOT_KEPT} may be there without a value. All applications share what is said.",
        body=_DESCRIPTION,
        answers=_DESCRIBED,
        errors=(404,),
    ),
    ("patch", routes.DEVICE): Operation(
        name="patch_device",
        group="Directory",
        summary="The same as PUT",
        body=_DESCRIPTION,
        answers=_DESCRIBED,
        errors=(404,),
    ),
    ("get", routes.DEVICE_QUERIES): Operation(
        name="list_device_queries",
        group="Directory",
        summary="The saved filters of the directory, page by page",
        meaning="All applications share them. Filters as in `GET /v3/devices`.",
        parameters=parameters.QUERIES,
        answers=(
            Answer(
                code=200,
                meaning="A page.",
                content=Content(model=device_queries.DeviceQueryPage, variants=("with the total count",)),
            ),
        ),
    ),
    ("post", routes.DEVICE_QUERIES): Operation(
        name="post_device_query",
        group="Directory",
        summary="Save a filter of the directory",
        meaning="`query` is what `filter` of `GET /v3/devices` takes, and is checked as that is; to use a saved"
        f" filter, read it and send it there. A name is taken once. {device_queries.MAX_QUERIES} are saved at most.",
        body=Content(model=device_queries.DeviceQueryBody, variants=("lights that are registered",)),
        answers=(Answer(code=201, meaning="It is saved.", content=_OF_QUERY),),
    ),
    ("get", routes.DEVICE_QUERY): Operation(
        name="get_device_query",
        group="Directory",
        summary="A saved filter of the directory",
        answers=(Answer(code=200, meaning="The query.", content=_OF_QUERY),),
        errors=(404,),
    ),
    ("put", routes.DEVICE_QUERY): Operation(
        name="put_device_query",
        group="Directory",
        summary="Change a saved filter",
        meaning="What is not given stays. What the service tells may be sent back as it is.",
        body=_QUERY_UPDATE,
        answers=(Answer(code=200, meaning="The query as it is now.", content=_OF_QUERY),),
        errors=(404,),
    ),
    ("patch", routes.DEVICE_QUERY): Operation(
        name="patch_device_query",
        group="Directory",
        summary="The same as PUT",
        body=_QUERY_UPDATE,
        answers=(Answer(code=200, meaning="The query as it is now.", content=_OF_QUERY),),
        errors=(404,),
    ),
    ("delete", routes.DEVICE_QUERY): Operation(
        name="delete_device_query",
        group="Directory",
        summary="Delete a saved filter",
        answers=_done("It is there no more."),
        errors=(404,),
    ),
    ("get", routes.DEVICE_EVENTS): Operation(
        name="list_device_events",
        group="Directory",
        summary="What became of the registrations of devices, page by page",
        meaning="The oldest first; `order=DESC` begins with what is newest. Filters as in `GET /v3/devices`;"
        " `event_type` is `registration`, `reg_update`, `deregistration` or `expired`, and no other word"
        " matches. It is kept for a while, a month where the operator says nothing else.",
        parameters=parameters.DEVICE_EVENTS,
        answers=_OF_EVENTS,
    ),
    ("get", routes.DEVICE_EVENT): Operation(
        name="get_device_event",
        group="Directory",
        summary="What became of a registration once",
        answers=_OF_EVENT,
        errors=(404,),
    ),
    ("get", routes.DEVICE_LOG): Operation(
        name="list_device_log",
        group="Directory",
        summary="The older path of `GET /v3/device-events`",
        parameters=parameters.DEVICE_EVENTS,
        answers=_OF_EVENTS,
    ),
    ("get", routes.DEVICE_LOG_ENTRY): Operation(
        name="get_device_log_entry",
        group="Directory",
        summary="The older path of `GET /v3/device-events/{event_id}`",
        answers=_OF_EVENT,
        errors=(404,),
    ),
    ("get", routes.DEVICE_CONNECTION): Operation(
        name="get_device_connection",
        group="Directory",
        summary="How a device is connected",
        meaning="By which protocols, whether a request would reach it now, and when it was last heard. Where its"
        " messages come from is told to a key with the scope `admin` only.",
        answers=(
            Answer(
                code=200,
                meaning="The connection.",
                content=Content(
                    model=directory.DeviceConnection,
                    variants=("a device that sleeps, asked for with a key for operators", "simulated"),
                ),
            ),
        ),
        errors=(404,),
        is_extension=True,
    ),
    ("get", routes.DEVICE_CONTACTS): Operation(
        name="get_device_contacts",
        group="Directory",
        summary="When a device was heard lately, as far as this application was told of it",
        meaning="Shortly before its last contact, out of what the application's notification log still holds. Nothing"
        " counts as read by it.",
        answers=(
            Answer(
                code=200,
                meaning="The instants.",
                content=Content(model=directory.DeviceContacts, variants=("four contacts",)),
            ),
        ),
        errors=(404,),
        is_extension=True,
    ),
    ("get", routes.ENDPOINTS): Operation(
        name="list_endpoints",
        group="Directory",
        summary="The registered devices, in one list",
        meaning="An older call: `GET /v3/devices` has pages, filters, and devices that are not registered.",
        parameters=parameters.ENDPOINTS,
        answers=(
            Answer(
                code=200,
                meaning="The devices, by id.",
                content=Content(model=older_calls.Endpoint, variants=("registered", "in queue mode"), many=True),
            ),
        ),
    ),
    ("get", routes.ENDPOINT_RESOURCES): Operation(
        name="list_resources",
        group="Directory",
        summary="The resources a device has now",
        parameters=parameters.ENDPOINT_RESOURCES,
        answers=(
            Answer(
                code=200,
                meaning="The resources.",
                content=Content(model=directory.EndpointResource, variants=("observable",), many=True),
            ),
        ),
        errors=(404,),
    ),
    ("post", routes.DEVICE_REQUESTS): Operation(
        name="place_device_request",
        group="Device requests",
        summary="Have a device read, write or execute a resource",
        meaning="The answer comes later, as an async response on the notification channel, with the same async-id."
        f" At most {device_requests.QUEUE_LIMIT} requests wait for one device. A key needs the scope `read` to read,"
        " and `write` to write or execute. `If-Match` and `Prefer` are extensions.",
        parameters=parameters.DEVICE_REQUEST,
        body=Content(
            model=device_requests.DeviceRequestBody, variants=("read", "write", "execute", "notification rules")
        ),
        answers=(
            _ACCEPTED_OR_ENDED,
            Answer(
                code=412,
                meaning="The desired value is not the one of `If-Match` any more; nothing was queued.",
                content=Content(
                    model=device_requests.DesiredChanged,
                    variants=("written by another application since", "never written"),
                ),
            ),
        ),
        errors=(404, 409, 429),
    ),
    ("get", _RESOURCE): Operation(
        name="read_resource",
        group="Device requests",
        summary="Have a device read a resource, as older programs ask for it",
        meaning="As `POST /v2/device-requests/{device_id}` with `GET`, and an async-id that the server makes. With"
        " `cacheOnly` the answer is the value itself, in the format it has, as long as it is fresh by what the device"
        " said; without a word of the device it is fresh until the next one comes.",
        parameters=parameters.READ_RESOURCE,
        answers=(
            Answer(code=200, meaning="What the mirror holds, with `cacheOnly`.", content=_text("*/*", "21.5", _VALUE)),
            _ACCEPTED,
            _NOBODY_IS_TOLD,
            Answer(code=205, meaning="With `cacheOnly`: the mirror holds no value, or none that is fresh."),
        ),
        errors=(404, 409),
    ),
    ("put", _RESOURCE): Operation(
        name="write_resource",
        group="Device requests",
        summary="Have a device write a resource, as older programs ask for it",
        meaning="As `POST /v2/device-requests/{device_id}` with `PUT`, and an async-id that the server makes. The body"
        " is the value as it is, `text/plain` where no `Content-Type` tells another format; one number, text or boolean"
        " in JSON is written as plain text. Without a body the parameters set notification rules.",
        parameters=parameters.WRITE_RESOURCE,
        body=_raw("1"),
        takes_no_body=True,
        answers=(_ACCEPTED, _NOBODY_IS_TOLD),
        errors=(404, 409),
    ),
    ("post", _RESOURCE): Operation(
        name="execute_resource",
        group="Device requests",
        summary="Have a device execute a resource, as older programs ask for it",
        meaning="As `POST /v2/device-requests/{device_id}` with `POST`, and an async-id that the server makes. The body"
        " is the argument, if there is one.",
        parameters=parameters.EXECUTE_RESOURCE,
        body=_raw("0='1'"),
        takes_no_body=True,
        answers=(_ACCEPTED, _NOBODY_IS_TOLD),
        errors=(404, 409),
    ),
    ("delete", _RESOURCE): Operation(
        name="delete_resource",
        group="Device requests",
        summary="Refused: nothing is deleted of a device",
        parameters=parameters.DELETE_RESOURCE,
        answers=(),
        errors=(404,),
    ),
    ("get", routes.WAITING_REQUESTS): Operation(
        name="list_waiting_requests",
        group="Device requests",
        summary="The requests of this application that have no answer yet, oldest first",
        parameters=parameters.WAITING_REQUESTS,
        answers=(_WAITING,),
        is_extension=True,
    ),
    ("get", routes.DEVICE_REQUESTS): Operation(
        name="list_waiting_requests_of_device",
        group="Device requests",
        summary="The requests of this application for one device that have no answer yet, oldest first",
        parameters=parameters.WAITING_REQUESTS,
        answers=(_WAITING,),
        errors=(404,),
        is_extension=True,
    ),
    ("put", routes.PRESUBSCRIPTIONS): Operation(
        name="put_presubscriptions",
        group="Subscriptions",
        summary="Replace all presubscription rules",
        meaning="They are checked when a device registers or updates its registration; what it refused or left"
        " unanswered is then asked again. With `apply=now` they are applied to the registered devices, too: that they"
        " are to be is on disk with the 202, which waits about a second for it. In a large fleet the rest follows, also"
        " after a restart of the service, unless rules are put or deleted before. `apply` and `If-Match` are"
        " extensions.",
        parameters=(*parameters.APPLY, *parameters.UNLESS_CHANGED_MEANWHILE),
        body=Content(model=PresubscriptionRules, variants=("a device, its type and a pattern", "none")),
        answers=(*_done("Accepted, and on disk.", 202), *_done("The same, for the path without a version.")),
        errors=(412,),
    ),
    ("get", routes.PRESUBSCRIPTIONS): Operation(
        name="get_presubscriptions",
        group="Subscriptions",
        summary="The presubscription rules, as they were put",
        meaning="All that use this key share them. `ETag` and `If-None-Match` are extensions.",
        parameters=parameters.UNLESS_CHANGED,
        answers=(
            Answer(
                code=200,
                meaning="The rules; an empty list when there are none.",
                content=Content(model=PresubscriptionRules, variants=("a device, its type and a pattern", "none")),
                headers=("ETag",),
            ),
            Answer(code=304, meaning="Nothing has changed.", headers=("ETag",)),
        ),
    ),
    ("delete", routes.PRESUBSCRIPTIONS): Operation(
        name="delete_presubscriptions",
        group="Subscriptions",
        summary="Remove all presubscription rules",
        meaning="`If-Match` is an extension.",
        parameters=parameters.UNLESS_CHANGED_MEANWHILE,
        answers=_done("There are no rules any more."),
        errors=(412,),
    ),
    ("get", routes.DEVICE_SUBSCRIPTIONS): Operation(
        name="list_subscriptions",
        group="Subscriptions",
        summary="What this application subscribed of a device",
        answers=(
            Answer(
                code=200,
                meaning="The paths, one a line.",
                content=_text("text/uri-list", "/3303/0/5700\n/3311/0/5850"),
            ),
        ),
        errors=(404,),
    ),
    ("delete", routes.DEVICE_SUBSCRIPTIONS): Operation(
        name="delete_subscriptions",
        group="Subscriptions",
        summary="End all subscriptions of a device",
        answers=_done("This application has no subscription of the device any more."),
        errors=(404,),
    ),
    ("put", _SUBSCRIPTION): Operation(
        name="put_subscription",
        group="Subscriptions",
        summary="Subscribe a resource",
        meaning="The device is asked; it is asked again when it refused or did not answer, by another `PUT`, by rules"
        " with `apply=now`, and when it next registers or updates its registration. Subscriptions are lost when the"
        " device makes a full registration, which names them in the entry of that registration (an extension).",
        answers=_done("Subscribed.", 200),
        errors=(404,),
    ),
    ("get", _SUBSCRIPTION): Operation(
        name="get_subscription",
        group="Subscriptions",
        summary="Whether a resource is subscribed",
        meaning="The `reason` of a 404 is `SUBSCRIPTION_ENDED` where the device's registration ended it, an extension.",
        answers=(
            Answer(
                code=200,
                meaning="This application asked for it; what became of it stands in the header.",
                headers=(routes.SUBSCRIPTION_HEADER,),
            ),
        ),
        errors=(404,),
    ),
    ("delete", _SUBSCRIPTION): Operation(
        name="delete_subscription",
        group="Subscriptions",
        summary="End the subscription of a resource",
        answers=_done("This application does not subscribe it any more."),
        errors=(404,),
    ),
    ("get", routes.PULL): Operation(
        name="pull",
        group="Notifications",
        summary="Wait for the next notification message",
        meaning="A plain poll is the channel of the key: only one at a time, and none beside a webhook or a"
        " websocket channel. Polls with `after` (an extension) are readers with a position of their own, as many as"
        " wanted.",
        parameters=parameters.PULL,
        answers=(
            Answer(code=200, meaning="A message.", content=_MESSAGE, headers=_OF_A_POSITION),
            Answer(code=204, meaning="Nothing came in time.", headers=_OF_A_POSITION),
        ),
        errors=(409, 410, 429),
    ),
    ("delete", routes.PULL): Operation(
        name="delete_poll_channel",
        group="Notifications",
        summary="End the poll channel, and with it the poll that is open",
        answers=_done("There is no poll channel any more; also when there was none."),
    ),
    ("get", routes.EVENTS): Operation(
        name="stream_events",
        group="Notifications",
        summary="The notification log as server-sent events",
        meaning="Each entry is an event: its number is the `id`, the list it belongs to the `event`"
        " (`async-responses`, `notifications`, `registrations`, `reg-updates`, `de-registrations`,"
        " `registrations-expired`), its JSON the `data`. What is gone from the log is an event named `gap` with the"
        " first and the last number that is missing. A comment every 15 seconds shows that the stream lives. A client"
        " that comes back with `Last-Event-ID` misses nothing.",
        parameters=parameters.EVENTS,
        answers=(
            Answer(
                code=200, meaning="A stream that does not end by itself.", content=_text("text/event-stream", _STREAM)
            ),
        ),
        errors=(429,),
        is_extension=True,
    ),
    ("get", routes.CHANNEL): Operation(
        name="get_channel",
        group="Notifications",
        summary="Which channel delivers the notifications, and how a webhook or websocket stands",
        answers=(
            Answer(
                code=200,
                meaning="The channel.",
                content=Content(
                    model=channel.Channel, variants=("webhook", "webhook that fails", "long poll", "websocket")
                ),
            ),
        ),
        errors=(404,),
    ),
    ("put", routes.CALLBACK): Operation(
        name="put_callback",
        group="Notifications",
        summary="Register a webhook, in the place of the one before",
        meaning="The URL is first called with `{}` and the registered headers, and has to answer with 200 or 204."
        " A refusal does not tell why it did not. URL, header names and values have"
        f" {channel.MAX_CALLBACK_CHARACTERS} characters together at most. Where it may lead to is a setting.",
        body=_REGISTRATION,
        answers=_done("Registered; delivery begins."),
    ),
    ("get", routes.CALLBACK): Operation(
        name="get_callback",
        group="Notifications",
        summary="The webhook, as it was put",
        answers=(Answer(code=200, meaning="The webhook.", content=_REGISTRATION),),
        errors=(404,),
    ),
    ("delete", routes.CALLBACK): Operation(
        name="delete_callback",
        group="Notifications",
        summary="Remove the webhook",
        answers=_done("There is no webhook any more."),
        errors=(404,),
    ),
    ("put", routes.WEBSOCKET): Operation(
        name="put_websocket",
        group="Notifications",
        summary="Register a websocket channel, or change how the one there is writes",
        meaning="A body is optional. The socket itself is opened by `GET /v2/notification/websocket-connect`. A key"
        " with a channel of another type is refused.",
        body=Content(model=channel.WebsocketRegistration, variants=("everything",)),
        takes_no_body=True,
        answers=(
            Answer(code=200, meaning="It was there already, and stays.", content=_OPEN_WEBSOCKET),
            Answer(code=201, meaning="It is registered, and waits for its socket.", content=_NEW_WEBSOCKET),
        ),
    ),
    ("get", routes.WEBSOCKET): Operation(
        name="get_websocket",
        group="Notifications",
        summary="Whether the socket of the websocket channel is open, and how many entries wait for it",
        answers=(Answer(code=200, meaning="The channel.", content=_OPEN_WEBSOCKET),),
        errors=(404,),
    ),
    ("delete", routes.WEBSOCKET): Operation(
        name="delete_websocket",
        group="Notifications",
        summary="Remove the websocket channel, and close its socket with the code 1001",
        answers=_done("There is no websocket channel any more."),
        errors=(404,),
    ),
    ("get", routes.WEBSOCKET_CONNECT): Operation(
        name="connect_websocket",
        group="Notifications",
        summary="Open the websocket of the channel",
        meaning="The key stands in `Authorization`, or where a program cannot set that, as a browser cannot, among the"
        " offered protocols: `Sec-WebSocket-Protocol: wss, pelion_<key>`; `wss` is chosen. Each text frame is a"
        " message as a long poll gives it. What the client sends is ignored, and closes the websocket past 64 KiB."
        "\n\nA message counts as delivered when the client has answered the ping that follows it, which libraries do"
        " by themselves, also before the program has read it: a program that closes the websocket takes what its"
        " library still holds first. The next websocket begins behind the last message that was answered for."
        "\n\nA websocket is closed with the code 1001 when another one of the same key is opened, the channel is"
        " deleted or the server stops; with 1008 when the key is missing, wrong, revoked or lacks a scope; with 1011"
        " when there is no channel, the client does not answer pings or the server fails. The reason says more."
        " Unlike with other operations a key that may not, or a channel that is not there, is told after the"
        " handshake, as a client of the public API expects it: by 1008 and 1011 instead of 401, 403 and 404."
        "\n\nWith `after`, an extension, it needs no channel: the reader holds its own position, any number of them"
        " read with one key, and nothing is removed. Each message has `mirror-cursor`, `mirror-gap` and `mirror-time`"
        " beside its entries, as the headers of such a poll tell them, and comes without entries at the beginning and"
        " while nothing happens.",
        parameters=parameters.WEBSOCKET,
        answers=(Answer(code=101, meaning="It is open: from here on websocket is spoken."),),
        errors=(426, 429),
    ),
}

OPERATOR: dict[tuple[str, str], Operation] = {
    ("get", routes.ACCESS_KEY): Operation(
        name="get_own_access_key",
        group="Operation",
        summary="What the access key of this request may be used for",
        answers=(
            Answer(
                code=200,
                meaning="The key, without its secret.",
                content=Content(model=access_key.AccessKey, variants=("one of an application",)),
            ),
        ),
    ),
    ("get", routes.LIMITS): Operation(
        name="get_limits",
        group="Operation",
        summary="The quotas of an application, of which there are none",
        answers=(
            Answer(
                code=200,
                meaning="Quotas and counts.",
                content=Content(model=older_calls.Limits, variants=("no quotas",)),
            ),
        ),
    ),
    ("get", routes.REST_VERSIONS): Operation(
        name="list_rest_versions",
        group="Operation",
        summary="The versions that stand in front of paths",
        answers=(
            Answer(
                code=200,
                meaning="The versions, the newest last.",
                content=Content(
                    schema={"type": "array", "items": {"type": "string"}}, example=list(older_calls.REST_VERSIONS)
                ),
            ),
        ),
    ),
    ("get", routes.HEALTH): Operation(
        name="get_health",
        group="Operation",
        summary="Whether the server answers",
        answers=(
            Answer(
                code=200,
                meaning="It does, and is one of these.",
                content=Content(schema={"type": "object"}, example={"status": OK, "service": SERVICE}),
            ),
        ),
        is_extension=True,
    ),
    ("get", routes.READINESS): Operation(
        name="get_readiness",
        group="Operation",
        summary="Whether the server can store what it is given",
        answers=(
            Answer(
                code=200, meaning="It can.", content=Content(schema={"type": "object"}, example={"status": "ready"})
            ),
        ),
        is_extension=True,
    ),
    ("get", routes.PAGE): Operation(
        name="get_page",
        group="Operation",
        summary="A page for people",
        answers=(Answer(code=200, meaning="The page.", content=_text("text/html", "<!doctype html>")),),
        is_extension=True,
    ),
    ("get", routes.PAGE_FILE): Operation(
        name="get_page_file",
        group="Operation",
        summary="A file of the page",
        answers=(
            Answer(code=200, meaning="A script.", content=_text("text/javascript", "export const LONGEST = 200;")),
        ),
        errors=(404,),
        is_extension=True,
    ),
    ("get", routes.REFERENCE): Operation(
        name="get_reference",
        group="Operation",
        summary="The reference of the Python packages",
        answers=(Answer(code=302, meaning="To its first page."),),
        is_extension=True,
    ),
    ("get", routes.REFERENCE_FILE): Operation(
        name="get_reference_file",
        group="Operation",
        summary="A page of the reference, or what it loads",
        answers=(Answer(code=200, meaning="A page.", content=_text("text/html", "<!doctype html>")),),
        errors=(404,),
        is_extension=True,
    ),
    ("get", routes.METRICS): Operation(
        name="get_metrics",
        group="Operation",
        summary="Metrics for Prometheus",
        answers=(
            Answer(
                code=200,
                meaning="In Prometheus' text format.",
                content=_text("text/plain", "# TYPE mirror_open_polls gauge\nmirror_open_polls 2.0\n"),
            ),
        ),
        is_extension=True,
    ),
    ("get", routes.DESCRIPTION): Operation(
        name="get_description",
        group="Operation",
        summary="This description",
        answers=(
            Answer(
                code=200,
                meaning="An OpenAPI document.",
                content=Content(schema={"type": "object"}, example={"openapi": "3.1.0"}),
            ),
        ),
        is_extension=True,
    ),
}

BENCH: dict[tuple[str, str], Operation] = {
    ("get", routes.BENCH_DEVICES): Operation(
        name="list_simulated_devices",
        group="Bench",
        summary="The simulated devices and their own values",
        answers=(
            Answer(
                code=200,
                meaning="All of them.",
                content=Content(model=bench.BenchDeviceList, variants=("one device",)),
            ),
        ),
        is_extension=True,
    ),
    ("post", routes.BENCH_DEVICES): Operation(
        name="add_simulated_device",
        group="Bench",
        summary="Add a simulated device, which registers at once",
        body=Content(model=bench.BenchNewDevice, variants=("with resources", "a name alone")),
        answers=(
            Answer(
                code=201,
                meaning="It is there.",
                content=Content(model=bench.BenchDeviceAdded, variants=("201",)),
            ),
        ),
        errors=(409,),
        is_extension=True,
    ),
    ("patch", routes.BENCH_DEVICE): Operation(
        name="set_behaviour",
        group="Bench",
        summary="How a simulated device behaves from now on",
        body=Content(model=bench.BenchDevicePatch, variants=("goes offline", "rejects", "takes its time")),
        answers=_done("It does."),
        errors=(404,),
        is_extension=True,
    ),
    ("put", _BENCH_RESOURCE): Operation(
        name="put_simulated_resource",
        group="Bench",
        summary="The device changes its own value, or gets a new resource",
        body=Content(model=bench.BenchResourceBody, variants=("a new value", "a new resource with its flags")),
        answers=_done("It has."),
        errors=(404,),
        is_extension=True,
    ),
    ("delete", _BENCH_RESOURCE): Operation(
        name="delete_simulated_resource",
        group="Bench",
        summary="The device removes a resource; the mirror keeps it",
        answers=_done("It has."),
        errors=(404,),
        is_extension=True,
    ),
    ("post", routes.BENCH_REGISTRATION): Operation(
        name="register",
        group="Bench",
        summary="The device makes a full registration",
        answers=_done("It has."),
        errors=(404,),
        is_extension=True,
    ),
    ("put", routes.BENCH_REGISTRATION): Operation(
        name="update_registration",
        group="Bench",
        summary="The device updates its registration",
        answers=_done("It has."),
        errors=(404,),
        is_extension=True,
    ),
    ("delete", routes.BENCH_REGISTRATION): Operation(
        name="deregister",
        group="Bench",
        summary="The device deregisters",
        answers=_done("It has."),
        errors=(404,),
        is_extension=True,
    ),
    ("get", routes.BENCH_CLOCK): Operation(
        name="get_clock",
        group="Bench",
        summary="What time it is for the server",
        answers=(
            Answer(
                code=200,
                meaning="The clock.",
                content=Content(model=bench.BenchClock, variants=("a clock that can be advanced",)),
            ),
        ),
        is_extension=True,
    ),
    ("post", routes.BENCH_CLOCK): Operation(
        name="advance_clock",
        group="Bench",
        summary="Let time pass, where the clock is manual",
        body=Content(model=bench.BenchAdvance, variants=("an hour",)),
        answers=(
            Answer(
                code=200,
                meaning="The clock afterwards, and all that became due is done.",
                content=Content(model=bench.BenchClock, variants=("a clock that can be advanced",)),
            ),
        ),
        errors=(409,),
        is_extension=True,
    ),
}

OPERATIONS = MIRROR | OPERATOR | BENCH

DELIVERY = Operation(
    name="deliver",
    group="Notifications",
    summary="What the server sends to a webhook",
    meaning="One message at a time, in order, the next after 200 or 204; within"
    f" {LIMIT_SECONDS} seconds. After a failure it is sent"
    " again after 1, 2, 4 ... 120 seconds, and for 24 hours without success at most.",
    body=_MESSAGE,
    answers=(Answer(code=200, meaning="Taken."), Answer(code=204, meaning="Taken.")),
)
