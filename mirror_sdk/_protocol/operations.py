"""The requests of the interface and the readers of their responses. This module performs no I/O.

A client sends the HTTP request that an :class:`Operation` describes, and passes the response to its ``finish``.
"""

from __future__ import annotations

import json
import math
import operator
import re
from base64 import b64encode
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias, TypeGuard, TypeVar
from urllib.parse import quote, urlencode

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from mirror_sdk._arguments import closest, text, type_name
from mirror_sdk._formatting import visible_line
from mirror_sdk._protocol.operation_base import (
    CHECK_ADDRESS,
    HTTPResponse,
    Operation,
    first_fault,
    read_error_body,
    read_json,
)
from mirror_sdk._protocol.resource_states import resources_of
from mirror_sdk.errors import InvalidValue, PreconditionFailed, UnexpectedResponse, UnknownQuery, api_error
from mirror_sdk.resource import Resource
from mirror_sdk.wire import routes
from mirror_sdk.wire.channel import CallbackRegistration
from mirror_sdk.wire.device_events import DeviceEvent, DeviceEventPage
from mirror_sdk.wire.device_object import DeviceObjectBody
from mirror_sdk.wire.device_queries import DeviceQuery, DeviceQueryBody, DeviceQueryPage, DeviceQueryUpdate
from mirror_sdk.wire.device_requests import (
    ASYNC_ID_PATTERN,
    AcknowledgementBody,
    DesiredChanged,
    DeviceRequestBody,
    Method,
    WaitingRequest,
    WaitingRequestPage,
)
from mirror_sdk.wire.directory import (
    FILTER_OPERATORS,
    MAX_LIMIT,
    MIN_LIMIT,
    Device,
    DeviceConnection,
    DeviceContacts,
    DevicePage,
    DeviceUpdate,
    EndpointResource,
)
from mirror_sdk.wire.errors import PATH_NOT_FOUND, ErrorBody
from mirror_sdk.wire.health import OK, SERVICE, Health
from mirror_sdk.wire.log_entries import Gap
from mirror_sdk.wire.model import Timestamp, write_timestamp
from mirror_sdk.wire.notifications import AsyncResponse
from mirror_sdk.wire.paths import parse_path
from mirror_sdk.wire.subscriptions import (
    PRESUBSCRIPTION_RULES,
    SUBSCRIPTION_ENDED,
    PresubscriptionRule,
    SubscriptionState,
)

M = TypeVar("M")
ModelT = TypeVar("ModelT", bound=BaseModel)
Listed: TypeAlias = Device | DeviceEvent | DeviceQuery | WaitingRequest
"""An item of one of the service's lists."""
E_co = TypeVar("E_co", bound=Listed, covariant=True)
RuleLike: TypeAlias = PresubscriptionRule | Mapping[str, object]
"""A presubscription rule, or a mapping of its members."""

QueryLike: TypeAlias = str | Mapping[str, object]
"""A filter of the directory: a query string, or conditions as in the argument ``filters=``."""

DEVICES_AT_A_TIME = 100
"""The maximum number of device ids in the conditions of one request."""
_NOT_FOUND = frozenset({404})
_PRECONDITION_FAILED = frozenset({412})
_REQUEST_ID = re.compile(r"[0-9a-f]{32}")
# Built when they are first used, because building them would slow down every import.
_RESOURCES = TypeAdapter(list[EndpointResource], config=ConfigDict(defer_build=True))
_INSTANT: TypeAdapter[datetime] = TypeAdapter(Timestamp, config=ConfigDict(defer_build=True))


@dataclass(frozen=True, slots=True)
class Poll:
    """The response to a poll of the notification log.

    Attributes:
        cursor: The reader's new position.
        message: The entries.
        gap: The entries that are missing before the entries of this response.
        served_at: A time of the service's clock. All entries that the service received before this time are in the log
            up to ``cursor``. Entries of the same millisecond may come later. For a full message, it is the time of the
            last entry. It is ``None`` if the service does not send it.
    """

    cursor: int
    message: Mapping[str, Any]
    gap: Gap | None
    served_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class RuleList:
    """The presubscription rules of an application and their tag, which is ``None`` if the service sends no tag."""

    rules: list[PresubscriptionRule]
    tag: str | None


@dataclass(frozen=True, slots=True)
class Accepted:
    """The service's confirmation of a device request. Times are by the service's clock, or ``None`` if it sends none.

    Attributes:
        at: The time at which the service accepted the request. For a repeated async-id, it is the time of the first
        request.
        expires_at: The time until which the request may wait for the device.
        response: The device's response, if the client requested to wait for it and it arrived in time.
    """

    at: datetime | None
    expires_at: datetime | None
    response: AsyncResponse | None = None


# Devices


def get_device_object(device_id: str) -> Operation[DeviceObjectBody]:
    """Return the operation that requests the device object of a device (E1)."""
    return _get_of_device(routes.DEVICE_OBJECT, device_id, DeviceObjectBody, "device_id")


def read_device_object(device_id: str, convert: Callable[[DeviceObjectBody], M]) -> Operation[M]:
    """Return the operation that requests a device object (E1) and converts it while the response is read.

    Without the conversion, thousands of objects would live until the event loop processes them. Python's garbage
    collector would then run many times, and each run stops all threads.
    """
    complete = get_device_object(device_id)
    return Operation(complete.method, complete.path, lambda response: convert(complete.read(response)))


def conditions(filters: Mapping[str, object] | None, **plain: object) -> dict[str, object]:
    """Return a mapping of all conditions for the directory that are not ``None``."""
    return {name: value for name, value in plain.items() if value is not None} | dict(filters or {})


def list_devices(
    filters: Mapping[str, object], *, limit: int | None, after: str | None = None, query: str | None = None
) -> Operation[DevicePage]:
    """Return the operation that requests one page of the directory.

    Args:
        filters: The conditions. Each key is a field with or without an operator (``state``, ``created_at__gte``). The
            value is a string, a datetime with a time zone, or a list of these for ``in`` and ``nin``.
        limit: How many more devices to request. ``None`` requests all.
        after: The last device id of the previous page.
        query: A saved filter that devices also have to match.

    Raises:
        ValueError: A time has no time zone.
    """
    sent = filter_texts(filters)

    def check(page: DevicePage) -> None:
        for field in ("id", "endpoint_name", "endpoint_type", "state"):
            require_matches(sent, field, [getattr(device, field) for device in page.data])

    return _list_page(routes.DEVICES, DevicePage, sent, limit=limit, after=after, filter=query, check=check)


def filter_texts(filters: Mapping[str, object]) -> dict[str, str]:
    """Convert conditions on the directory to query parameters.

    Raises:
        ValueError: A time has no time zone, several values are passed for an operator that takes one, or one of several
            values contains a comma.
    """
    for name, value in filters.items():
        field, _, operator = _filter_name(name).rpartition("__")
        if not _is_several(value):
            continue
        if operator not in {"in", "nin"}:
            raise ValueError(
                f"filter {name} takes one value, got {len(value)}; to match any of several values, use {field}__in"
            )
        single = f"{field}__{'eq' if operator == 'in' else 'neq'}"
        for item in value:
            if "," in _filter_text(name, item):
                raise ValueError(
                    f"filter {name}: {item!r} contains a comma, which separates values in this filter; send a separate"
                    f" request with {single}={item!r}"
                )
    return {_filter_name(name): _filter_text(name, value) for name, value in filters.items()}


def list_waiting_requests(device_id: str | None, *, after: str | None = None) -> Operation[WaitingRequestPage]:
    """Return the operation that requests one page of the application's device requests without a response."""
    if device_id is None:
        return _list_page(routes.WAITING_REQUESTS, WaitingRequestPage, after=after)

    def check(page: WaitingRequestPage) -> None:
        for request in page.data:
            _require_device(device_id, request.device_id)

    return _list_page(of_device(routes.DEVICE_REQUESTS, device_id), WaitingRequestPage, after=after, check=check)


class ListPage(Protocol[E_co]):
    """One page of a list of the service."""

    @property
    def data(self) -> Sequence[E_co]: ...
    @property
    def has_more(self) -> bool: ...


class Pages:
    """A check of the pages of one list, which detects a service that returns the same page again and again."""

    def __init__(self) -> None:
        self._count = 0
        self._bounds: set[str] = set()

    def next_after(self, page: ListPage[Listed]) -> str | None:
        """Return the id after which the next page begins, or ``None`` after the last page.

        Raises:
            UnexpectedResponse: An earlier page had the same first or last id, or the page is empty although it is not
                the last one.
        """
        self._count += 1
        ids = [entry.async_response_id if isinstance(entry, WaitingRequest) else entry.id for entry in page.data]
        bounds = {*ids[:1], *ids[-1:]}
        if again := sorted(bounds & self._bounds):
            raise UnexpectedResponse(
                f"page {self._count} of the list repeats {visible_line(again[0])} of an earlier page; the service"
                " seems to ignore after="
            )
        if page.has_more and not ids:
            raise UnexpectedResponse(
                f"page {self._count} of the list is empty but announces more entries; {CHECK_ADDRESS}"
            )
        self._bounds |= bounds
        return ids[-1] if page.has_more else None


def get_directory_device(device_id: str) -> Operation[Device]:
    """Return the operation that requests a device's entry in the directory."""
    return _get_of_device(routes.DEVICE, device_id, Device, "id")


def put_device(device_id: str, changes: Mapping[str, object]) -> Operation[Device]:
    """Return the operation that describes a device in the directory. Fields that are not passed stay unchanged.

    Raises:
        ValueError: A value is not valid and cannot be sent. The message contains the reason.
    """
    operation = get_directory_device(device_id)
    return Operation("PUT", operation.path, operation.read, json=checked_body(DeviceUpdate, changes))


def list_device_queries(*, name: str | None = None, after: str | None = None) -> Operation[DeviceQueryPage]:
    """Return the operation that requests one page of the saved filters of the directory."""
    return _list_page(routes.DEVICE_QUERIES, DeviceQueryPage, after=after, name__eq=name)


def find_device_query(name: str) -> Operation[DeviceQuery]:
    """Return the operation that requests the saved filter with this name.

    Raises:
        TypeError: The name is not a string.
    """
    listing = list_device_queries(name=text("query", name))

    def read(response: HTTPResponse) -> DeviceQuery:
        for query in listing.read(response).data:
            if query.name == name:
                return query
        named = visible_line(repr(name))
        message = f"no saved query is named {named}; client.devices.queries.list() returns all saved queries"
        raise UnknownQuery(404, ErrorBody(code=404, type="not_found", message=message))

    return Operation(listing.method, listing.path, read, params=listing.params)


def post_device_query(name: str, query: QueryLike) -> Operation[DeviceQuery]:
    """Return the operation that saves a filter of the directory.

    Raises:
        ValueError: A value is not valid and cannot be sent. The message contains the reason.
    """
    body = checked_body(DeviceQueryBody, {"name": name, "query": query_text(query)})
    return Operation("POST", routes.DEVICE_QUERIES, read_json(DeviceQuery.model_validate_json), json=body)


def put_device_query(query_id: str, *, name: str | None, query: QueryLike | None) -> Operation[DeviceQuery]:
    """Return the operation that changes a saved filter. ``None`` leaves a field unchanged.

    Raises:
        ValueError: A value is not valid and cannot be sent. The message contains the reason.
    """
    body = checked_body(DeviceQueryUpdate, {"name": name, "query": None if query is None else query_text(query)})
    return Operation("PUT", _of_query(query_id), read_json(DeviceQuery.model_validate_json), json=body)


def delete_device_query(query_id: str) -> Operation[None]:
    """Return the operation that deletes a saved filter."""
    return Operation("DELETE", _of_query(query_id), nothing)


def query_text(query: QueryLike) -> str:
    """Return the query string of a filter to save, from a query string or from conditions as in :func:`list_devices`.

    Raises:
        TypeError: ``query`` is neither a string nor a mapping.
        ValueError: A time has no time zone, or several values are passed for an operator that takes one.
    """
    if isinstance(query, Mapping):
        return urlencode(filter_texts(query), safe=",:")
    return text("query", query)


def list_device_events(
    filters: Mapping[str, object], *, limit: int | None, after: str | None = None
) -> Operation[DeviceEventPage]:
    """Return the operation that requests one page of the registration events of devices, newest first.

    Args:
        filters: The conditions, as in :func:`list_devices`.
        limit: How many more events to request. ``None`` requests all.
        after: The last id of the previous page.

    Raises:
        ValueError: A time has no time zone.
    """
    sent = filter_texts(filters)

    def check(page: DeviceEventPage) -> None:
        for field in ("device_id", "event_type"):
            require_matches(sent, field, [getattr(event, field) for event in page.data])

    return _list_page(routes.DEVICE_EVENTS, DeviceEventPage, sent, limit=limit, after=after, order="DESC", check=check)


def event_filters(
    device_ids: Sequence[str] | None,
    begin: datetime | None,
    end: datetime | None,
    event_types: Collection[str] | None,
) -> list[dict[str, object]]:
    """Return the conditions on device events, one set for each request, because many devices need several requests.

    Raises:
        TypeError: A string was passed instead of a list of event types.
    """
    if isinstance(event_types, str):
        raise TypeError(f"event_types={event_types!r} must be a list of str; write [{event_types!r}]")
    # The end is exclusive, as for a history. The times of events are whole milliseconds.
    last = None if end is None else end - timedelta(milliseconds=1)
    same = conditions(None, date_time__gte=begin, date_time__lte=last, event_type__in=event_types and [*event_types])
    if device_ids is None:
        return [same]
    starts = range(0, len(device_ids), DEVICES_AT_A_TIME)
    return [same | {"device_id__in": device_ids[start : start + DEVICES_AT_A_TIME]} for start in starts]


def newest(events: Iterable[DeviceEvent], limit: int | None) -> list[DeviceEvent]:
    """Return the newest events, at most ``limit`` of them, in the order in which they happened."""
    return sorted(events, key=lambda event: event.id, reverse=True)[:limit][::-1]


def get_device_connection(device_id: str) -> Operation[DeviceConnection]:
    """Return the operation that requests how a device is connected."""
    return _get_of_device(routes.DEVICE_CONNECTION, device_id, DeviceConnection, "device_id")


def get_device_contacts(device_id: str) -> Operation[DeviceContacts]:
    """Return the operation that requests the latest contacts of a device.

    The service only knows the contacts that the application was notified of.
    """
    return _get_of_device(routes.DEVICE_CONTACTS, device_id, DeviceContacts, "device_id")


def list_resources(device_id: str) -> Operation[list[EndpointResource]]:
    """Return the operation that lists the current resources of a device."""
    return Operation("GET", of_device(routes.ENDPOINT_RESOURCES, device_id), read_json(_RESOURCES.validate_json))


def submit_device_request(
    device_id: str,
    async_id: str,
    *,
    method: Method,
    path: str,
    payload: bytes | None = None,
    content_type: str | None = None,
    accept: str | None = None,
    expiry_seconds: int | None = None,
    if_match: int | None = None,
    wait_seconds: int = 0,
) -> Operation[Accepted]:
    """Return the operation that submits a device request (E2). It is safe to repeat, because of its async-id.

    With ``if_match``, the service accepts the request only if the desired value has this revision. With
    ``wait_seconds``, the service may delay its 202 for this time, and include the device's response. A service without
    this option sends the 202 at once (RFC 7240).

    Raises:
        ValueError: An argument is not valid and cannot be sent. The message contains its name.
    """
    parse_path(text("path", path))
    if not re.fullmatch(ASYNC_ID_PATTERN, text("async_id", async_id), re.ASCII):
        raise ValueError(f"async_id {async_id!r} must be 1 to 64 letters, digits, '_' or '-'")
    body = {
        "method": method,
        "uri": path,
        "payload-b64": None if payload is None else b64encode(payload).decode(),
        "content-type": content_type,
        "accept": accept,
        "expiry_seconds": expiry_seconds,
    }
    return Operation(
        "POST",
        of_device(routes.DEVICE_REQUESTS, device_id),
        partial(_read_accepted, async_id),
        params={"async-id": async_id},
        headers=({} if if_match is None else {"If-Match": f'"{if_match}"'})
        | ({routes.PREFER_HEADER: f"wait={wait_seconds}"} if wait_seconds else {}),
        # The body of this error contains the current resource, which the usual reader of errors ignores.
        also_reads=_PRECONDITION_FAILED,
        json=checked_body(DeviceRequestBody, body),
        # With the same async-id it is one request, no matter how many times it is sent.
        is_repeatable=True,
        outlasts_loss=wait_seconds > 0,
    )


def acknowledge_failed_write(device_id: str, path: str, *, by: str | None, revision: int | None) -> Operation[None]:
    """Return the operation that acknowledges the failed write of a resource.

    It is an extension of the specification.
    """
    body = {"resource_path": path, "by": by, "revision": revision}
    # A second acknowledgement has no effect.
    return Operation(
        "POST",
        of_device(routes.ACKNOWLEDGEMENTS, device_id),
        nothing,
        json=checked_body(AcknowledgementBody, body),
        is_repeatable=True,
    )


# Subscriptions


def get_presubscriptions() -> Operation[RuleList]:
    """Return the operation that requests the rules of this access key."""
    return Operation("GET", routes.PRESUBSCRIPTIONS, _read_rules)


def put_presubscriptions(rules: Iterable[RuleLike], *, apply_now: bool, tag: str | None = None) -> Operation[None]:
    """Return the operation that replaces all rules (E3). With a tag, they must not have changed since it was read.

    Raises:
        TypeError: A single rule was passed instead of a list.
        ValueError: A rule is not valid and cannot be sent. The message contains the reason.
    """
    return Operation(
        "PUT",
        routes.PRESUBSCRIPTIONS,
        nothing,
        params={"apply": "now"} if apply_now else {},
        headers={} if tag is None else {"If-Match": tag},
        json=[rule.to_wire() for rule in checked_rules(rules)],
    )


def checked_rules(rules: Iterable[RuleLike]) -> list[PresubscriptionRule]:
    """Return the rules in a user's input after checking them.

    Raises:
        TypeError: A single rule was passed instead of a list.
        ValueError: A rule is not valid and cannot be sent. The message contains the reason.
    """
    # These types are iterable, too.
    if isinstance(rules, PresubscriptionRule | Mapping | str):
        raise TypeError(f"rules must be a list of rules, not {type_name(rules)}; write [rule] for a single one")
    listed = list(rules)
    found = _checked(PRESUBSCRIPTION_RULES.validate_python, listed, "rule ")
    for index, rule in enumerate(found):
        # A rule from the service may have members of a later version. In a mapping, an unknown name is a mistake.
        if isinstance(listed[index], Mapping) and rule.model_extra:
            (name, *_) = rule.model_extra
            raise InvalidValue(f"rule {index} has no member {name!r}; {closest(name, type(rule).model_fields)}")
    return found


def delete_presubscriptions() -> Operation[None]:
    """Return the operation that removes all rules."""
    return Operation("DELETE", routes.PRESUBSCRIPTIONS, nothing)


def put_subscription(device_id: str, path: str) -> Operation[None]:
    """Return the operation that subscribes to one resource."""
    return Operation("PUT", of_resource(routes.SUBSCRIPTION, device_id, path), nothing)


def get_subscription_state(device_id: str, path: str) -> Operation[SubscriptionState]:
    """Return the operation that requests the state of the subscription to a resource."""
    route = of_resource(routes.SUBSCRIPTION, device_id, path)
    return Operation("GET", route, _read_subscription, also_reads=_NOT_FOUND)


def delete_subscription(device_id: str, path: str) -> Operation[None]:
    """Return the operation that ends the subscription to one resource."""
    return Operation("DELETE", of_resource(routes.SUBSCRIPTION, device_id, path), nothing)


def list_subscriptions(device_id: str) -> Operation[list[str]]:
    """Return the operation that requests the subscribed paths of a device."""
    route = of_device(routes.DEVICE_SUBSCRIPTIONS, device_id)
    return Operation("GET", route, _read_uri_list, also_reads=_NOT_FOUND)


def delete_subscriptions(device_id: str) -> Operation[None]:
    """Return the operation that ends all subscriptions to a device."""
    return Operation("DELETE", of_device(routes.DEVICE_SUBSCRIPTIONS, device_id), nothing)


# Notification channel, service


def poll_log(
    after: int | None, *, hold_seconds: float, within_seconds: float = math.inf, max_retries: int | None = 0
) -> Operation[Poll]:
    """Return the operation that reads the log after a position. ``None`` requests the position of the log's end.

    The hold time is rounded up, because the wire uses whole seconds. The sender does not retry a poll, because its
    reader polls again by itself.
    """
    hold = min(math.ceil(hold_seconds), routes.MAX_HOLD_SECONDS)
    params: dict[str, str | int] = {"after": "latest" if after is None else after, "hold": hold}
    return Operation(
        "GET",
        routes.PULL,
        partial(_read_poll, after),
        params=params,
        hold_seconds=hold,
        within_seconds=within_seconds,
        max_retries=max_retries,
    )


def put_callback(url: str, headers: Mapping[str, str], *, with_seq: bool) -> Operation[None]:
    """Return the operation that registers a webhook, with all optional members in its messages.

    ``with_seq`` also requests the numbers of the entries, which are an extension of the specification.

    Raises:
        ValueError: The URL or the headers cannot be registered.
    """
    registration = _checked(
        CallbackRegistration.model_validate,
        {
            "url": url,
            "headers": dict(headers),
            "serialization": {
                "type": "v2",
                "cfg": {
                    "include_timestamp": True,
                    "include_uid": True,
                    "include_original_ep": True,
                    "deregistrations_as_object": True,
                    **({"include_seq": True} if with_seq else {}),
                },
            },
        },
    )
    return Operation("PUT", routes.CALLBACK, nothing, json=registration.to_wire())


def get_callback() -> Operation[CallbackRegistration | None]:
    """Return the operation that requests the webhook of this access key, with the result ``None`` if there is none."""
    read = read_json(CallbackRegistration.model_validate_json)
    return Operation(
        "GET", routes.CALLBACK, lambda response: None if _is_none(response) else read(response), also_reads=_NOT_FOUND
    )


def delete_callback() -> Operation[bool]:
    """Return the operation that removes the webhook. The result is whether there was one."""
    return Operation("DELETE", routes.CALLBACK, lambda response: not _is_none(response), also_reads=_NOT_FOUND)


def delete_poll_channel() -> Operation[None]:
    """Return the operation that deletes the long-polling channel and ends all open polls."""
    return Operation("DELETE", routes.PULL, nothing)


def get_health() -> Operation[bool]:
    """Return the operation that checks whether a healthy mirror responds."""
    return Operation("GET", routes.HEALTH, _read_health, max_retries=0)


# Building


def _get_of_device(route: str, device_id: str, model: type[ModelT], id_field: str) -> Operation[ModelT]:
    """Return the operation that requests one device, and checks that the response belongs to this device."""

    def read(response: HTTPResponse) -> ModelT:
        found = read_json(model.model_validate_json)(response)
        _require_device(device_id, getattr(found, id_field))
        return found

    return Operation("GET", of_device(route, device_id), read)


def _list_page(
    route: str,
    model: type[ModelT],
    filters: Mapping[str, str] = MappingProxyType({}),
    *,
    limit: int | None = None,
    check: Callable[[ModelT], None] | None = None,
    **params: str | None,
) -> Operation[ModelT]:
    """Return the operation for one page of a list. ``limit`` is how many more items to request, ``None`` for all."""

    def read(response: HTTPResponse) -> ModelT:
        page = read_json(model.model_validate_json)(response)
        if check is not None:
            check(page)
        return page

    size = MAX_LIMIT if limit is None else min(max(limit, MIN_LIMIT), MAX_LIMIT)
    sent = {name: value for name, value in params.items() if value is not None}
    return Operation("GET", route, read, params={**filters, "limit": size, **sent})


def of_device(route: str, device_id: str) -> str:
    # Dot segments are removed from a path (RFC 3986, 5.2.4), so the request would be sent to another route.
    if text("device_id", device_id) in {"", ".", ".."}:
        raise InvalidValue(f"{device_id!r} is not a device id; client.devices.list() returns the existing ones")
    return route.format(device_id=quote(device_id, safe=""))


def _of_query(query_id: str) -> str:
    return routes.DEVICE_QUERY.format(query_id=quote(query_id, safe=""))


def of_resource(route: str, device_id: str, path: str) -> str:
    parse_path(text("path", path))
    return of_device(route.replace("{path}", path), device_id)


def _filter_name(name: str) -> str:
    return name if name.rpartition("__")[2] in FILTER_OPERATORS else f"{name}__eq"


def _filter_text(name: str, value: object) -> str:
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError(f"filter {name}: the time has no zone; pass one, like datetime(2026, 1, 1, tzinfo=UTC)")
        return write_timestamp(value)
    if _is_several(value):
        return ",".join(_filter_text(name, item) for item in value)
    return str(value)


def _is_several(value: object) -> TypeGuard[Collection[object]]:
    return isinstance(value, Sequence | set | frozenset) and not isinstance(value, str)


def checked_body(model: type[BaseModel], members: Mapping[str, object]) -> Any:
    """Return the members that are not ``None`` as valid JSON."""
    body = {name: value for name, value in members.items() if value is not None}
    return _checked(model.model_validate, body).model_dump(mode="json", by_alias=True, exclude_unset=True)


def _checked(validate: Callable[[object], M], value: object, prefix: str = "") -> M:
    try:
        return validate(value)
    except ValidationError as exc:
        raise InvalidValue(f"{prefix}{first_fault(exc)}") from exc


# Reading


def nothing(_: HTTPResponse) -> None:
    return None


def _read_health(response: HTTPResponse) -> bool:
    health = read_json(Health.model_validate_json)(response)
    # Other services also report "ok". An early mirror does not send its name, but sends an id for each request.
    is_mirror = health.service == SERVICE or (
        health.service is None and _REQUEST_ID.fullmatch(response.headers.get(routes.REQUEST_ID_HEADER, "")) is not None
    )
    return is_mirror and health.status == OK


def _read_rules(response: HTTPResponse) -> RuleList:
    tag = response.headers.get("ETag", "")
    # A tag that is not valid in a header cannot be sent back.
    is_tag = tag.isascii() and tag.isprintable() and tag.strip() != ""
    return RuleList(read_json(PRESUBSCRIPTION_RULES.validate_json)(response), tag if is_tag else None)


def _read_subscription(response: HTTPResponse) -> SubscriptionState:
    if _is_none(response):
        is_ended = read_error_body(response).reason == SUBSCRIPTION_ENDED
        return SubscriptionState.ENDED if is_ended else SubscriptionState.NONE
    try:
        return SubscriptionState(response.headers.get(routes.SUBSCRIPTION_HEADER, ""))
    except ValueError:  # the service sends no state, or one of a later version
        return SubscriptionState.ASKED


def _is_none(response: HTTPResponse) -> bool:
    """Return whether a 404 means that the requested object does not exist.

    Raises:
        NotFound: The 404 means that the path is wrong, or it was not sent by the service.
    """
    if response.status_code != 404:
        return False
    try:
        body = ErrorBody.model_validate_json(response.content)
    except ValidationError:
        body = None
    if body is None or body.reason == PATH_NOT_FOUND:
        raise api_error(404, read_error_body(response))
    return True


def _read_uri_list(response: HTTPResponse) -> list[str]:
    if _is_none(response):
        return []
    try:
        paths = response.content.decode().split()
        for path in paths:
            parse_path(path)
    except ValueError as exc:
        raise UnexpectedResponse(
            f"the response is not a list of resource paths: {visible_line(str(exc))}; {CHECK_ADDRESS}"
        ) from exc
    return paths


def require_matches(filters: Mapping[str, str], field: str, found: Iterable[str | None]) -> None:
    """Check that a response contains only devices that were requested.

    Args:
        filters: The conditions in the request.
        field: The field of the directory, such as ``id``.
        found: The value of the field for each device in the response, or ``None`` if a device has no value.

    Raises:
        UnexpectedResponse: A device does not meet a condition. The message contains the condition and the value.
    """
    values = [value for value in found if value is not None]
    for name, requested in filters.items():
        filtered_field, _, operator_name = name.rpartition("__")
        meets = _MEETS.get(operator_name)
        if filtered_field != field or meets is None:
            continue
        expected = frozenset(requested.split(",")) if operator_name == "in" else requested
        for value in values:
            if not meets(value, expected):
                raise UnexpectedResponse(
                    f"requested devices with {name}={_quoted(requested)}, but the response has one with {field}"
                    f" {_quoted(value)}; the service seems to ignore this filter"
                )


_MEETS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq,
    "in": lambda value, expected: value in expected,
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}


def _require_device(requested: str | None, found: str) -> None:
    if found != requested:
        raise UnexpectedResponse(
            f"requested device {_quoted(requested)}, but the response is about {_quoted(found)}; {CHECK_ADDRESS}"
        )


def _quoted(text: object) -> str:
    return visible_line(repr(text))


def _read_accepted(async_id: str, response: HTTPResponse) -> Accepted:
    if response.status_code in _PRECONDITION_FAILED:
        error = PreconditionFailed(response.status_code, read_error_body(response))
        error.resource = _read_current(response)
        raise error
    # The body of the response may be empty.
    body = _read_object(response.content) if response.content.strip() else {}
    named = body.get("async-response-id", async_id)
    if named != async_id:
        raise UnexpectedResponse(
            f"submitted request {async_id!r}, but the response is about {_quoted(named)}; list its requests with"
            " client.requests.list() before you send it again"
        )
    return Accepted(
        at=read_instant(response.headers.get(routes.REQUESTED_AT_HEADER)),
        expires_at=read_instant(response.headers.get(routes.EXPIRES_AT_HEADER)),
        response=_read_async_response(async_id, body.get("async-response")),
    )


def _read_async_response(async_id: str, body: object) -> AsyncResponse | None:
    """Return the response that arrived with a 202, or ``None`` if it is unusable. The log then also contains it."""
    try:
        response = AsyncResponse.model_validate(body)
    except ValidationError:
        return None
    return response if response.id == async_id else None


def _read_current(response: HTTPResponse) -> Resource | None:
    """Return the resource for which a write was rejected, or ``None`` if the service does not send it."""
    try:
        state = DesiredChanged.model_validate_json(response.content).resource
    except ValidationError:
        return None
    return resources_of([state])[state.resource_path]


def read_instant(header: str | None) -> datetime | None:
    try:
        return _INSTANT.validate_python(header).astimezone(UTC)
    except (ValidationError, OverflowError):  # the time is optional, and the request itself succeeded
        return None


def _read_poll(after: int | None, response: HTTPResponse) -> Poll:
    cursor = response.headers.get(routes.CURSOR_HEADER, "")
    if not cursor.isdecimal():
        raise UnexpectedResponse(
            f"the response to a poll has no {routes.CURSOR_HEADER}, so this service has no notification log;"
            f" {CHECK_ADDRESS}, or use a webhook"
        )
    if len(cursor) > routes.MAX_SEQ_DIGITS:
        raise UnexpectedResponse(
            f"the response to a poll ends at entry {cursor[: routes.MAX_SEQ_DIGITS]}..., which has too many digits"
        )
    if after is not None and int(cursor) < after:
        raise UnexpectedResponse(
            f"requested log entries after {after}, but the response ends at {cursor}, which no mirror sends;"
            f" {CHECK_ADDRESS}"
        )
    message = _read_object(response.content) if response.status_code != 204 else {}
    return Poll(
        int(cursor),
        message,
        read_gap(response.headers.get(routes.GAP_HEADER)),
        served_at=read_instant(response.headers.get(routes.TIME_HEADER)),
    )


def _read_object(content: bytes) -> Mapping[str, Any]:
    try:
        message = json.loads(content)
    except (ValueError, RecursionError) as exc:
        raise UnexpectedResponse(f"the response is not JSON: {exc}; {CHECK_ADDRESS}") from exc
    if not isinstance(message, dict):
        raise UnexpectedResponse(f"the response is a {type(message).__name__}, not a JSON object; {CHECK_ADDRESS}")
    return message


def read_gap(header: str | None) -> Gap | None:
    if header is None:
        return None
    number = rf"\s*(\d{{1,{routes.MAX_SEQ_DIGITS}}})\s*"
    numbers = re.fullmatch(f"{number}-{number}", header)
    # A header that cannot be read still means that entries are missing.
    return Gap(int(numbers[1]), int(numbers[2])) if numbers else Gap(None, None)
