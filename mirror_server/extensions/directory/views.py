"""The views for saved queries and device events. Source: wire.md 9."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from flask import Blueprint, Response

from mirror_sdk.wire.device_events import EVENT_ID_PATTERN, DeviceEvent, DeviceEventPage
from mirror_sdk.wire.device_queries import (
    MAX_QUERIES,
    DeviceQuery,
    DeviceQueryBody,
    DeviceQueryPage,
    DeviceQueryUpdate,
)
from mirror_server.core.errors import ApiError
from mirror_server.extensions.directory.echoed_fields import read_echoed, reject_if_match, require_unchanged
from mirror_server.extensions.directory.filters import (
    DeviceFilters,
    Fields,
    filter_parameters,
    read_filters,
    read_moment,
    read_truth,
)
from mirror_server.extensions.directory.service import DirectoryService
from mirror_server.extensions.directory.settings import DirectorySettings
from mirror_server.extensions.directory.store.device_events import KINDS, DeviceEventRow
from mirror_server.extensions.directory.store.device_queries import DeviceQueryRow
from mirror_server.extensions.openapi_parameters import list_parameters
from mirror_server.service.keys import Scope
from mirror_server.views.description import TEXT, ResponseSpec, described, json_of
from mirror_server.views.requests import PAGING, query_paging, requires, services
from mirror_server.views.responses import empty_response, json_response, when_page_read, when_stored
from mirror_server.views.serialize import timestamp

_EVENT_ID = re.compile(EVENT_ID_PATTERN)
_NONE = -1


def _read_event_id(_name: str, text: str) -> int:
    # As for devices, a filter by an id that does not exist matches nothing, and is not an error.
    return int(text, 16) if _EVENT_ID.fullmatch(text) else _NONE


def _read_event_type(_name: str, text: str) -> int:
    return KINDS.index(text) if text in KINDS else _NONE


def _read_words(_name: str, text: str) -> int:
    return _read_event_type(_name, _KINDS_BY_WORDS.get(text, ""))


_WORDS = {
    "registration": "Device registered",
    "reg_update": "Device updated its registration",
    "deregistration": "Device deregistered",
    "expired": "Registration of the device expired",
}
_KINDS_BY_WORDS = {words: kind for kind, words in _WORDS.items()}
_OF_QUERIES = Fields(
    columns={
        "id": "query_id",
        "name": "name",
        "query": "query",
        "created_at": "created_at",
        "updated_at": "updated_at",
        "etag": "updated_at",
    },
    readers=dict.fromkeys(("created_at", "updated_at", "etag"), read_moment),
    unsupported=("description",),
)
_OF_EVENTS = Fields(
    columns={
        "id": "e.revision",
        "device_id": "e.device_id",
        "event_type": "e.kind",
        "date_time": "e.at",
        "description": "e.kind",
        "state_change": "e.state_change",
    },
    readers={
        "id": _read_event_id,
        "event_type": _read_event_type,
        "date_time": read_moment,
        "description": _read_words,
        "state_change": read_truth,
    },
)

_QUERY_LIST = (*list_parameters("queries", "query"), *filter_parameters("queries", "name%3DLights", _OF_QUERIES))
_QUERY = json_of(DeviceQuery, "lights that are registered")
_QUERY_UPDATE = json_of(DeviceQueryUpdate, "another name", "a complete saved query, as it was read")
_CHANGED_QUERY = ResponseSpec(200, "The query as it is now.", _QUERY)
_EVENT_LIST = (
    *list_parameters("events", "event", TEXT | {"pattern": EVENT_ID_PATTERN}),
    *filter_parameters("events", "event_type%3Dexpired", _OF_EVENTS),
)
_EVENT_PAGE = ResponseSpec(200, "A page.", json_of(DeviceEventPage, "a page"))
_ONE_EVENT = ResponseSpec(200, "The event.", json_of(DeviceEvent, "registered", "expired"))

routes = Blueprint("directory", __name__)


@routes.get("/v3/device-queries")
@requires(Scope.READ, query=None)
@described(
    "Directory", ResponseSpec(200, "A page.", json_of(DeviceQueryPage, "with the total count")), parameters=_QUERY_LIST
)
def list_device_queries() -> Response:
    """List the saved filters of the directory, page by page.

    All applications share the saved filters. The parameters for paging and filtering are the same as in the request
    ``GET /v3/devices``.
    """
    paging = query_paging()
    conditions = read_filters(paging.filters, _OF_QUERIES, own=PAGING)
    return when_page_read(paging, conditions, MAX_QUERIES, services().part(DirectoryService).queries, _query)


@routes.post("/v3/device-queries")
@requires(Scope.WRITE)
@described(
    "Directory",
    ResponseSpec(201, "The filter is saved.", _QUERY),
    body=json_of(DeviceQueryBody, "lights that are registered"),
)
def post_device_query() -> Response:
    """Save a filter of the directory.

    ``query`` has the format of ``filter`` in ``GET /v3/devices``, and is validated in the same way. To use a saved
    filter, read it and pass it as ``filter``. Names are unique. At most :data:`MAX_QUERIES` filters can be saved.
    """
    body = read_echoed(DeviceQueryBody, unsupported=("description",))
    _check_query(body.query)
    stored = services().part(DirectoryService).save_query(body.name, body.query)
    return when_stored(stored, lambda row: json_response(_query(row), 201))


@routes.get("/v3/device-queries/<query_id>")
@requires(Scope.READ)
@described("Directory", ResponseSpec(200, "The query.", _QUERY))
def get_device_query(query_id: str) -> Response:
    """Get a saved filter of the directory."""
    return json_response(_query(services().part(DirectoryService).query(query_id)))


@routes.put("/v3/device-queries/<query_id>")
@requires(Scope.WRITE)
@described("Directory", _CHANGED_QUERY, body=_QUERY_UPDATE)
def put_device_query(query_id: str) -> Response:
    """Change a saved filter.

    Absent members do not change. Read-only members can be sent with their current value.
    """
    return _change(query_id)


@routes.patch("/v3/device-queries/<query_id>")
@requires(Scope.WRITE)
@described("Directory", _CHANGED_QUERY, body=_QUERY_UPDATE)
def patch_device_query(query_id: str) -> Response:
    """Change a saved filter, same as PUT."""
    return _change(query_id)


@routes.delete("/v3/device-queries/<query_id>")
@requires(Scope.WRITE)
@described("Directory", ResponseSpec(204, "The filter is deleted."))
def delete_device_query(query_id: str) -> Response:
    """Delete a saved filter."""
    return when_stored(services().part(DirectoryService).delete_query(query_id), lambda _: empty_response())


@routes.get("/v3/device-events")
@requires(Scope.READ, query=None)
@described("Directory", _EVENT_PAGE, parameters=_EVENT_LIST)
def list_device_events() -> Response:
    """List the starts, updates and ends of registrations, page by page.

    The oldest events come first; ``order=DESC`` starts with the newest. Filters have the same form as in ``GET
    /v3/devices``. ``event_type`` is ``registration``, ``reg_update``, ``deregistration`` or ``expired``; any other word
    matches nothing. By default, events are stored for 30 days.
    """
    return _events()


@routes.get("/v3/device-events/<event_id>")
@requires(Scope.READ)
@described("Directory", _ONE_EVENT)
def get_device_event(event_id: str) -> Response:
    """Get a device event."""
    return _event(event_id)


@routes.get("/v3/devicelog")
@requires(Scope.READ, query=None)
@described("Directory", _EVENT_PAGE, parameters=_EVENT_LIST)
def list_device_log() -> Response:
    """List device events by the older path of ``GET /v3/device-events``."""
    return _events()


@routes.get("/v3/devicelog/<event_id>")
@requires(Scope.READ)
@described("Directory", _ONE_EVENT)
def get_device_log_entry(event_id: str) -> Response:
    """Get a device event by the older path of ``GET /v3/device-events/{event_id}``."""
    return _event(event_id)


def _events() -> Response:
    paging = query_paging()
    conditions = read_filters(paging.filters, _OF_EVENTS, own=PAGING)
    after = None if paging.after is None else _event_number("after", paging.after)
    server = services()
    rows, events = server.settings.of(DirectorySettings).max_device_events, server.part(DirectoryService).events
    return when_page_read(paging, conditions, rows, events, _event_content, after=after)


def _event(event_id: str) -> Response:
    row = services().part(DirectoryService).event(_read_event_id("id", event_id))
    if row is None:
        message = f"no device event with the id {event_id!r}; GET /v3/device-events lists the stored events"
        raise ApiError(404, message)
    return json_response(_event_content(row))


def _event_number(name: str, text: str) -> int:
    number = _read_event_id(name, text)
    if number == _NONE:
        raise ApiError.of_field(
            name, f"{text!r} is not the id of a device event; send the id of the last one of a page"
        )
    return number


def _check_query(query: str) -> None:
    """Check that the directory supports a query.

    Raises:
        ApiError: The query is invalid (400).
    """
    try:
        read_filters([("filter", query)], services().part(DeviceFilters).fields)
    except ApiError as api_error:
        raise ApiError.of_field("query", api_error.message) from None


def _change(query_id: str) -> Response:
    reject_if_match()
    sent = read_echoed(DeviceQueryUpdate, unsupported=("description",)).model_dump(exclude_unset=True)
    if sent.get("query") is not None:
        _check_query(sent["query"])
    stored = services().part(DirectoryService).change_query(query_id, lambda row: _changed(row, sent))
    return when_stored(stored, lambda row: json_response(_query(row)))


def _changed(row: DeviceQueryRow, sent: Mapping[str, Any]) -> DeviceQueryRow:
    """Return the changed query.

    Raises:
        ApiError: A read-only member differs from the current value (400).
    """
    others = {name: value for name, value in sent.items() if name not in {"name", "query"}}
    require_unchanged(others, _query(row), {"id": "the id of a query cannot change"})
    name, query = sent.get("name"), sent.get("query")
    return replace(row, name=row.name if name is None else name, query=row.query if query is None else query)


def _query(row: DeviceQueryRow) -> dict[str, Any]:
    return {
        "object": "device-query",
        "id": row.query_id,
        "name": row.name,
        "query": row.query,
        "created_at": timestamp(row.created_at),
        "updated_at": timestamp(row.updated_at),
        "etag": timestamp(row.updated_at),
    }


def _event_content(row: DeviceEventRow) -> dict[str, Any]:
    kind, at = KINDS[row.kind], timestamp(row.at)
    return {
        "object": "device-event",
        "id": f"{row.revision:032x}",
        "device_id": row.device_id,
        "date_time": at,
        "created_at": at,
        "etag": at,
        "event_type": kind,
        "event_type_description": "INFO",
        "description": _WORDS[kind],
        "state_change": bool(row.state_change),
        "changes": {},
        "data": {"endpoint_name": row.endpoint_name},
    }
