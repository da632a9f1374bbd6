"""The requests table, with one row per device request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import StrEnum

import pandas as pd
import pyarrow as pa

from mirror_sdk._protocol.accepted_request import AcceptedRequest, UnacceptedRequest, require_requests
from mirror_sdk._protocol.device_request import fetch_responses
from mirror_sdk.arrow_tables.columns import (
    CATEGORY,
    INSTANT,
    TableColumn,
    Words,
    documented,
    schema_of,
    table_metadata,
    value_columns,
)
from mirror_sdk.errors import failure_reason
from mirror_sdk.events import instant_of
from mirror_sdk.frames.columns import build
from mirror_sdk.values import NO_VALUE, Value
from mirror_sdk.wire.notifications import AsyncResponse


class RequestStatus(StrEnum):
    """The progress of a request.

    ``QUEUED`` means that the client has not sent the request yet. ``UNKNOWN`` means that the client does not know
    whether the service accepted it.
    """

    QUEUED = "queued"
    PENDING = "pending"
    SUCCESS = "success"
    FAILURE = "failure"
    UNKNOWN = "unknown"


REQUESTS_COLUMNS = (
    TableColumn("async_id", pa.string(), "id of the request and its response"),
    TableColumn("device_id", CATEGORY, "the device of the request"),
    TableColumn("endpoint_name", CATEGORY, "endpoint name of the device; only for writes of a plan"),
    TableColumn("path", CATEGORY, "the resource path"),
    TableColumn("method", Words(["GET", "PUT", "POST"]), "GET for a read, PUT for a write, POST for an execute"),
    TableColumn("requested_at", INSTANT, "when the request was made, as in the state table"),
    TableColumn("accepted_at", INSTANT, "when the service accepted the request; equal to ``requested_at``"),
    TableColumn("finished_at", INSTANT, "when the request ended"),
    TableColumn("expires_at", INSTANT, "when the request stops waiting for the device"),
    TableColumn(
        "status",
        Words([status.value for status in RequestStatus], ordered=True),
        "status of the request; the category order is queued < pending < success < failure < unknown",
    ),
    TableColumn("category", CATEGORY, "why the request failed, in a word"),
    TableColumn("reason", CATEGORY, "the category as a sentence, with the next step"),
    TableColumn("latency", pa.duration("ms"), "time from sending the request until the client received the response"),
    TableColumn("requested_num", pa.float64(), "the number to write"),
    TableColumn("requested_text", pa.string(), "the text to write"),
    TableColumn("requested_bool", pa.bool_(), "the boolean to write"),
    TableColumn("value_num", pa.float64(), "the number in the response"),
    TableColumn("value_text", pa.string(), "the text in the response"),
    TableColumn("value_bool", pa.bool_(), "the boolean in the response"),
)
"""The columns of the requests table."""

REQUESTS_SCHEMA = schema_of(REQUESTS_COLUMNS)
"""The schema of the requests table."""


@documented(REQUESTS_COLUMNS)
def requests_frame(
    requests: Iterable[AcceptedRequest | UnacceptedRequest], *, tz: str | None = None, server: str = ""
) -> pd.DataFrame:
    """Return the requests table: one row per device request, in the order of the requests, with their current results.

    If some requests have no response yet, the function first reads the notification log once for all of them, like
    :meth:`mirror_sdk.DeviceRequest.done`. If the client is closed or asynchronous, the function reads nothing and uses
    the responses received so far. With an asynchronous client, use ``await client.requests.frame(requests)`` instead.

    Args:
        requests: The results of ``client.requests.begin_read()``, ``begin_write()`` and ``begin_execute()``, and
            requests that were not submitted.
        tz: The time zone of the time columns, such as ``Europe/Berlin``; UTC by default.
        server: The address of the service.

    Returns:
        A DataFrame with the columns of :data:`REQUESTS_SCHEMA`, even if it has no rows:

        {columns}

        If the service rejected a write with ``if_match`` because another client wrote first, ``value_num``,
        ``value_text`` and ``value_bool`` contain the current desired value.

        All times come from the clock of the service, so you can compare them with those of other tables. They are
        missing for requests that the service has not accepted, and for resumed requests. A service without the
        extension ``requests`` sends only ``finished_at``, and the other times are NA. ``latency`` is the time until the
        client reads the response, by a monotonic clock of the client. Resumed requests have no ``latency``.

        ``attrs["mirror"]`` contains ``taken_at`` (the newest of these times), ``devices`` (the number of devices),
        ``complete`` (whether all requests have ended) and ``server``.

    Raises:
        MirrorError: The log could not be read, and a retry would not help.
        InvalidValue: ``tz`` is not a time zone.
        TypeError: ``requests`` is a single request, or contains other objects.
    """
    rows = require_requests(requests)
    fetch_responses(rows)
    return cached_requests_frame(rows, tz=tz, server=server)


def cached_requests_frame(
    rows: Sequence[AcceptedRequest | UnacceptedRequest],
    *,
    tz: str | None = None,
    server: str = "",
    names: Sequence[str | None] | None = None,
) -> pd.DataFrame:
    """Return the requests table from the log entries read so far, without sending a request.

    Args:
        rows: The requests.
        tz: The time zone of the time columns.
        server: The address of the service.
        names: The endpoint name of the device of each request, if it is known.

    Raises:
        InvalidValue: ``tz`` is not a time zone.
    """
    accepted = [request.accepted_at if isinstance(request, AcceptedRequest) else None for request in rows]
    finished = [_finished_at(request) for request in rows]
    columns: dict[str, Sequence[object]] = {
        "async_id": [request.async_id for request in rows],
        "device_id": [request.device_id for request in rows],
        "endpoint_name": [None] * len(rows) if names is None else names,
        "path": [request.path for request in rows],
        "method": [request.method for request in rows],
        "requested_at": accepted,
        "accepted_at": accepted,
        "finished_at": finished,
        "expires_at": [request.expires_at if isinstance(request, AcceptedRequest) else None for request in rows],
        "status": [request_status(request).value for request in rows],
        "category": [_category(request) for request in rows],
        "reason": [_reason(request) for request in rows],
        "latency": [request.latency if isinstance(request, AcceptedRequest) else None for request in rows],
    }
    columns |= value_columns("requested", [request.requested_value or NO_VALUE for request in rows])
    columns |= value_columns("value", [_value(request) for request in rows])
    complete = all(_response(request) is not None or _category(request) is not None for request in rows)
    taken_at = max((instant for instant in (*accepted, *finished) if instant is not None), default=None)
    metadata = table_metadata(columns["device_id"], taken_at, complete=complete, server=server)
    return build(columns, REQUESTS_SCHEMA, tz=tz, **metadata)


def request_status(request: AcceptedRequest | UnacceptedRequest) -> RequestStatus:
    """Return the status of a request according to the log entries that the client has read."""
    if isinstance(request, UnacceptedRequest):
        if request.rejection_reason is not None:
            return RequestStatus.FAILURE
        return RequestStatus.UNKNOWN if request.is_unknown else RequestStatus.QUEUED
    if request.response is None:
        return RequestStatus.PENDING
    return RequestStatus.SUCCESS if request.read_failure(request.response) is None else RequestStatus.FAILURE


def _response(request: AcceptedRequest | UnacceptedRequest) -> AsyncResponse | None:
    return request.response if isinstance(request, AcceptedRequest) else None


def _category(request: AcceptedRequest | UnacceptedRequest) -> str | None:
    if isinstance(request, UnacceptedRequest):
        return request.rejection_reason
    return request.response.error if request.response else None


def _reason(request: AcceptedRequest | UnacceptedRequest) -> str | None:
    if isinstance(request, UnacceptedRequest):
        return request.rejection_message
    category = _category(request)
    return None if category is None else failure_reason(category, request.method)


def _finished_at(request: AcceptedRequest | UnacceptedRequest) -> datetime | None:
    response = _response(request)
    return None if response is None else instant_of(response.timestamp)


def _value(request: AcceptedRequest | UnacceptedRequest) -> Value:
    if isinstance(request, UnacceptedRequest):
        return request.found or NO_VALUE
    if request.response is None:
        return NO_VALUE
    return NO_VALUE if request.read_failure(request.response) is not None else request.read_value(request.response)
