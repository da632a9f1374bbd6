"""The parameters of the interface. Source: wire.md 0-7, 9, 10."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mirror_sdk.wire import device_events, device_queries, directory
from mirror_sdk.wire.device_events import EVENT_ID_PATTERN
from mirror_sdk.wire.device_requests import ASYNC_ID_PATTERN, MAX_EXPIRY_SECONDS, MAX_RETRIES, MAX_WAIT_SECONDS
from mirror_sdk.wire.directory import DEFAULT_LIMIT, INCLUDED, MAX_LIMIT, MIN_LIMIT
from mirror_sdk.wire.history import MAX_DEVICES, MAX_ROWS
from mirror_sdk.wire.older_calls import NOTIFICATION_RULES, NUMBER_PATTERN
from mirror_sdk.wire.paths import PATH_PATTERN, TEXT_PATTERN
from mirror_sdk.wire.routes import DEFAULT_HOLD_SECONDS, MAX_HOLD_SECONDS
from mirror_sdk.wire.snapshot import (
    COMPRESSIONS,
    DEFAULT_DEVICES_PER_RANGE,
    MAX_DEVICES_PER_RANGE,
    MAX_PATTERNS,
    MAX_RANGES,
)
from mirror_server.description.parts import Parameter, Schema, header, query, whole_number, words

_TEXT: Schema = {"type": "string"}
_INSTANT: Schema = {"type": "string", "format": "date-time"}
# `True` and `False` are accepted too, but client generators make constants of the words, which would clash.
_FLAG = words("true", "false")
_OPERATORS = {
    "eq": "equal to this",
    "neq": "other than this",
    "in": "one of these, separated by commas",
    "nin": "none of these, separated by commas",
    "gte": "this or above",
    "lte": "this or below",
    "gt": "above this",
    "lt": "below this",
}
_OWN_OPERATORS = {"gt", "lt"}

OF_PATHS = {
    "file": Parameter(name="file", place="path", meaning="The file's name.", schema=_TEXT | {"minLength": 1}),
    "device_id": Parameter(name="device_id", place="path", meaning="The device's id.", schema=_TEXT | {"minLength": 1}),
    "query_id": Parameter(name="query_id", place="path", meaning="The query's id.", schema=_TEXT | {"minLength": 1}),
    "event_id": Parameter(name="event_id", place="path", meaning="The event's id.", schema=_TEXT | {"minLength": 1}),
    "path": Parameter(
        name="path",
        place="path",
        meaning="A resource path without its first slash; the other slashes stand as they are: `3303/0/5700`.",
        schema=_TEXT | {"pattern": PATH_PATTERN.replace("(?:/", "(?:(?:^|/)", 1)},
    ),
}


_SCHEMAS = {
    **dict.fromkeys(("created_at", "updated_at", "bootstrapped_timestamp", "etag", "date_time"), _INSTANT),
    "state": words(*directory.STATES),
    "state_change": _FLAG,
}


def _filter(field: str, operator: str, what: str) -> Parameter:
    schema = _SCHEMAS.get(field, _TEXT)
    if operator in {"in", "nin"}:
        # Times and states in a list are checked too, one by one.
        schema = {"type": "array", "items": schema, "minItems": 1}
    meaning = f"Only {what} whose `{field}` is {_OPERATORS[operator]}."
    return query(f"{field}__{operator}", meaning, schema, is_extension=operator in _OWN_OPERATORS)


def _list_of(what: str, one: str, example: str, fields: Sequence[str]) -> tuple[Parameter, ...]:
    """The parameters of a list: which page of it, and what it is filtered by."""
    return (
        query("limit", f"How many {what} at most.", whole_number(MIN_LIMIT, MAX_LIMIT, DEFAULT_LIMIT)),
        query("after", f"The id of the last {one} of the page before.", _TEXT),
        query("order", "In which order of their ids.", words("ASC", "DESC", default="ASC")),
        query("include", f"With the number of all {what} that match.", words(*INCLUDED)),
        query("filter", f"Filters in one parameter, encoded like a query: `{example}`.", _TEXT),
        *(_filter(field, operator, what) for field in fields for operator in directory.FILTER_OPERATORS),
    )


_PAGING = {"limit", "after", "order", "include"}
DIRECTORY = _list_of("devices", "device", "state%3Dregistered%26endpoint_type%3DLight", directory.FILTER_FIELDS)
QUERIES = _list_of("queries", "query", "name%3DLights", device_queries.FILTER_FIELDS)
DEVICE_EVENTS = tuple(
    replace(parameter, schema=_TEXT | {"pattern": EVENT_ID_PATTERN}) if parameter.name == "after" else parameter
    for parameter in _list_of("events", "event", "event_type%3Dexpired", device_events.FILTER_FIELDS)
)
ENDPOINTS = (query("type", "Only devices that register with this type.", _TEXT),)
_FILTERS = tuple(parameter for parameter in DIRECTORY if parameter.name not in _PAGING)
_PATTERN: Schema = _TEXT | {"pattern": TEXT_PATTERN}
_PATTERNS = query(
    "path",
    "Only resources of this path, or whose path begins with what stands before a `*` at its end; may be given"
    " several times.",
    {"type": "array", "items": _PATTERN, "maxItems": MAX_PATTERNS},
    is_repeated=True,
)
_COMPRESSION = query(
    "compression",
    "How the buffers of an Arrow stream are compressed.",
    words(*COMPRESSIONS, default=COMPRESSIONS[0]),
)
SNAPSHOT = (
    _PATTERNS,
    _COMPRESSION,
    query(
        "as_of",
        "The fleet as it was at this instant, out of the history. Of a reported value it is the device's own time that"
        " counts, so that what came late stands where it belongs. Not with `changed_after`.",
        _INSTANT,
    ),
    query(
        "changed_after",
        "The `revision` of an earlier snapshot: of a device that has not changed since, the answer tells only that it"
        " is there.",
        whole_number(0),
    ),
    *_FILTERS,
)
HISTORY = (
    query(
        "device_id",
        "Only this device; may be given several times. Devices are selected by the directory's filters too.",
        {"type": "array", "items": _TEXT, "maxItems": MAX_DEVICES},
        is_repeated=True,
    ),
    _PATTERNS,
    query("from", "Only what happened then or later, and gaps that ended later; absent, all there is.", _INSTANT),
    query("to", "Only what happened before then, not before `from`.", _INSTANT),
    query(
        "order",
        "In which order of device, path, `changed_at` and `revision`. What has no device or no path comes first, with"
        " `DESC` last.",
        words("ASC", "DESC", default="ASC"),
    ),
    query("limit", "How many rows at most; absent, all.", whole_number(1, MAX_ROWS)),
    query("after", "What the answer before told as `after`, with the same other parameters but `limit`.", _TEXT),
    _COMPRESSION,
    *_FILTERS,
)
RANGES = (
    query(
        "devices_per_range",
        f"How many devices a range is to have. More than {MAX_RANGES} ranges are refused.",
        whole_number(1, MAX_DEVICES_PER_RANGE, DEFAULT_DEVICES_PER_RANGE),
    ),
    *_FILTERS,
)
UNLESS_CHANGED = (
    header("If-None-Match", "The `ETag` of an earlier answer: if nothing has changed since, the answer is 304.", _TEXT),
)
DEVICE_REQUEST = (
    query(
        "async-id",
        "The request's identity, by which its answer is recognised. The same one for the same request within 24 h"
        " queues nothing twice; for another request it is a conflict. Without it the server makes one.",
        _TEXT | {"pattern": ASYNC_ID_PATTERN},
    ),
    query("expiry-seconds", "As `expiry_seconds` in the body.", whole_number(1, MAX_EXPIRY_SECONDS)),
    query(
        "retry",
        "How often it is tried again when the device does not answer. The default is 2 for a device in queue mode, else"
        " 0. For a `POST` it is always 0, because the device may have executed it although its response was lost: with"
        " another number the device may execute it more than once.",
        whole_number(0, MAX_RETRIES),
    ),
    header(
        "If-Match",
        "The `revision` of the desired value that the writer saw, `0` where there was none, or `*` for any: if it is"
        " another by now, because of another write or because the last one has ended, nothing is queued and the answer"
        " is 412. Quotes around it are optional. Only with a write of one resource. A repeated async-id is answered as"
        " the first time.",
        _TEXT | {"pattern": r'^(?:\*|[0-9]{1,19}|(?:W/)?"[0-9]{1,19}")$'},
    ),
    header(
        "Prefer",
        "With `wait=SECONDS` (RFC 7240) the 202 is held back until the request has ended, and tells how; for so long at"
        f" most, and {MAX_WAIT_SECONDS} s. Only with an `async-id` that was not used before; a server that cannot wait"
        " sends its 202 at once.",
        _TEXT,
    ),
)
_ONLY_NO = words("false", default="false")
_NO_ANSWER = query(
    "noResp",
    "With `true` nobody is told how the request ends, and the answer is 204; 409 for a device in queue mode.",
    words("true", "false", default="false"),
)
_NOT_AT_ONCE = query("sync", "Whether to wait for the device: only without.", _ONLY_NO)
_NOT_FROM_CACHE = query("cacheOnly", "Whether the answer is to come from the cache: only when it is read.", _ONLY_NO)
_RULE = {"type": "string", "pattern": NUMBER_PATTERN}
READ_RESOURCE = (
    query(
        "cacheOnly",
        "Have what the mirror holds for the answer, and ask the device for nothing.",
        words("true", "false", default="false"),
    ),
    _NO_ANSWER,
    _NOT_AT_ONCE,
)
EXECUTE_RESOURCE = (_NOT_FROM_CACHE, _NO_ANSWER, _NOT_AT_ONCE)
DELETE_RESOURCE = (_NO_ANSWER, _NOT_AT_ONCE)
WRITE_RESOURCE = (
    *EXECUTE_RESOURCE,
    *(query(name, "A notification rule, in the place of a value.", _RULE) for name in NOTIFICATION_RULES),
)
ENDPOINT_RESOURCES = tuple(
    query(name, "For older programs: it changes nothing, the device is never asked.", _FLAG)
    for name in ("cacheOnly", "noResp")
)
WAITING_REQUESTS = (
    query("limit", "How many requests at most.", whole_number(MIN_LIMIT, MAX_LIMIT, DEFAULT_LIMIT)),
    query("after", "The async-id of the last request of the page before.", _TEXT),
)
UNLESS_CHANGED_MEANWHILE = (
    header(
        "If-Match",
        "The `ETag` of the rules that were read: if they have changed since, nothing is changed and the answer is 412."
        " Without it they are changed in any case.",
        _TEXT,
    ),
)
APPLY = (
    query("apply", "With `now`, devices that are registered now are checked at once.", words("now"), is_extension=True),
)
_POSITION = {"oneOf": [whole_number(0), words("latest")]}
PULL = (
    query(
        "after",
        "Read what follows this number and remove nothing; the reader keeps its own position, and `latest` begins at"
        " the end. Without it the server keeps a position for the key and moves it.",
        _POSITION,
        is_extension=True,
    ),
    query(
        "hold",
        "For how many seconds the poll is held open when there is nothing to tell.",
        whole_number(0, MAX_HOLD_SECONDS, DEFAULT_HOLD_SECONDS),
        is_extension=True,
    ),
    query("noWait", "With `true` the poll is answered at once, as with `hold=0`.", _FLAG),
)
WEBSOCKET = (
    query(
        "after",
        "The position of a reader that keeps its own: the number behind which to begin, or `latest`.",
        _POSITION,
        is_extension=True,
    ),
)
EVENTS = (
    query("after", "Behind which number to begin; at the end of the log by default.", _POSITION),
    header("Last-Event-ID", "The same, as a client sends it that comes back; it goes before `after`.", whole_number(0)),
)
