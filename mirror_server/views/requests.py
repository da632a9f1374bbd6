"""Parsing of requests: the application, the body as a model, and the query as validated values. Source: wire.md 0."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from secrets import token_hex
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import orjson
from flask import current_app, g, request
from pydantic import BaseModel, ValidationError
from werkzeug.exceptions import RequestEntityTooLarge

from mirror_sdk.wire.directory import DEFAULT_LIMIT, INCLUDED, MAX_LIMIT, MIN_LIMIT
from mirror_sdk.wire.legacy_calls import FLAGS
from mirror_sdk.wire.model import location_and_fault
from mirror_sdk.wire.paths import parse_path
from mirror_sdk.wire.routes import REQUEST_ID_HEADER
from mirror_server.core.errors import ApiError
from mirror_server.service.keys import Scope
from mirror_server.store.conditions import Condition

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

    from mirror_server.server import Services

M = TypeVar("M", bound=BaseModel)
View = TypeVar("View", bound=Callable[..., Any])

SERVICES = "mirror"
"""The key of the :class:`~mirror_server.server.Services` in the ``extensions`` of the Flask app."""

CALLER = "mirror.caller"
"""The key in the WSGI environment for the :class:`Caller` of a request that another process forwarded."""

_REQUEST_ID = "mirror.request_id"
_REQUEST_ID_VARIABLE = f"HTTP_{REQUEST_ID_HEADER.upper().replace('-', '_')}"
_CLIENT_REQUEST_ID = re.compile(r"[0-9a-f]{32}")
_LOG_DETAILS = "mirror.log_details"
# A large body can contain many errors. The first errors are enough to find the cause.
_MOST_FIELDS = 20
_LONGEST_NAME = 100
# Validating a megabyte of empty lists or unknown members would delay all other requests for half a second.
_MOST_CONTAINERS = 20_000
_MOST_MEMBERS = 1000
# Numbers of up to 18 digits fit into the 64 bits of a database column.
_INTEGER = re.compile(r"-?[0-9]{1,18}\Z", re.ASCII)
PAGING = ("limit", "after", "order", "include")
"""The parameters that every list supports. All other parameters of a list are filters."""
ORDERS = ("ASC", "DESC")


class Caller(Protocol):
    """The application of a forwarded request, which was authenticated by the process that forwarded the request."""

    process_id: str
    """The id of the process that forwarded the request."""

    app_id: str
    scopes: Sequence[str]
    secret_hash: str
    """The hash of the key's secret, in hexadecimal digits."""


class LeaderOnly(NamedTuple):
    """The options of a view that only the leader can serve if several processes serve the database.

    Attributes:
        unless: The name of a query parameter. Any process can serve requests that have this parameter.
        is_poll: Whether a request can stay open for as long as a poll.
    """

    unless: str | None
    is_poll: bool


def leader_only(*, unless: str | None = None, is_poll: bool = False) -> Callable[[View], View]:
    """Return a decorator for a view that only the leader serves, because it needs the devices or the open requests.

    See :class:`LeaderOnly` for the arguments.
    """

    def mark(view: View) -> View:
        view.__dict__["leader_only"] = LeaderOnly(unless, is_poll)
        return view

    return mark


def requires(*scopes: Scope, query: Collection[str] | None = ()) -> Callable[[View], View]:
    """Return a decorator for a view that requires a key with one of these scopes. Without scopes, no key is needed.

    ``query`` contains the names of the view's query parameters. If the view needs a key, all other parameters are
    rejected. With ``None``, the view checks the parameters itself.
    """

    def mark(view: View) -> View:
        view.__dict__["required_scopes"] = frozenset(scopes)
        view.__dict__["known_query"] = query
        return view

    return mark


def without_head(view: View) -> View:
    """Disable HEAD for a view whose GET consumes data or starts long work.

    HEAD would do the same and discard the result.
    """
    view.__dict__["without_head"] = True
    return view


def require_scope(key_scopes: frozenset[Scope], *scopes: Scope) -> None:
    """Check that a key has one of the scopes.

    Raises:
        ApiError: The key has none of the scopes (403).
    """
    if key_scopes.isdisjoint(scopes):
        required = sorted(scopes)
        # The new key needs the current scopes too. For example, a key with only the scope admin could no longer read.
        options = [" ".join(f"--scope {scope}" for scope in Scope if scope in {*key_scopes, one}) for one in required]
        commands = " or ".join(f"'mirror-server keys create NAME {option}'" for option in options)
        raise ApiError(403, f"this key lacks the scope {' or '.join(required)}; create a key with {commands}")


def check_query(names: Collection[str] | None) -> None:
    """Reject unknown query parameters. Otherwise the server would silently ignore a misspelled parameter.

    Raises:
        ApiError: A parameter is unknown (400).
    """
    if names is None:
        return
    for name in request.args:
        if name not in names:
            cure = f"supported: {', '.join(names)}" if names else "this operation has none, so remove the parameter"
            raise ApiError.of_field(name[:_LONGEST_NAME], f"unknown parameter; {cure}")


def app_id() -> str:
    """Return the id of the application that sent this request."""
    identity: str = g.app_id
    return identity


def forwarded_by() -> str | None:
    """Return the id of the process that forwarded this request, or ``None`` if no process forwarded it."""
    caller: Caller | None = request.environ.get(CALLER)
    return None if caller is None else caller.process_id


def services() -> Services:
    """Return the services of this server."""
    server: Services = current_app.extensions[SERVICES]
    return server


def request_id(environ: WSGIEnvironment) -> str:
    """Return the id of the request: the id that the client sent if it is valid, and otherwise a generated id."""
    if _REQUEST_ID not in environ:
        client_id = environ.get(_REQUEST_ID_VARIABLE, "")
        environ[_REQUEST_ID] = client_id if _CLIENT_REQUEST_ID.fullmatch(client_id) else token_hex(16)
    identity: str = environ[_REQUEST_ID]
    return identity


def add_log_details(environ: WSGIEnvironment, **details: str) -> None:
    """Add details to the log line of a request. Never add secrets or values."""
    # The details are not in flask.g, which no longer exists when a deferred response is sent.
    environ.setdefault(_LOG_DETAILS, {}).update(details)


def log_details(environ: WSGIEnvironment) -> dict[str, str]:
    """Return the details for the log line of a request."""
    details: dict[str, str] = environ.get(_LOG_DETAILS, {})
    return details


def read_body(model: type[M], *, malformed_reason: str | None = None) -> M:
    """Return the body of the request as a strictly validated model. See :func:`read_json` and :func:`check_body`.

    Raises:
        ApiError: The content type is not JSON (415), the body is not JSON, or the body does not match the model (400).
    """
    return check_body(model, read_json(malformed_reason=malformed_reason))


def read_json(*, malformed_reason: str | None = None) -> Any:
    """Return the JSON value in the body of the request.

    Args:
        malformed_reason: The ``reason`` of the error if the body is not JSON.

    Raises:
        ApiError: The content type is not JSON (415), or the body is not JSON (400).
    """
    if request.content_type and request.mimetype != "application/json":
        message = f"the body must be application/json, not {request.mimetype}; set the header Content-Type"
        raise ApiError(415, message)
    data = read_raw_body()
    if not data.strip():
        raise ApiError(400, "the body is empty; send JSON", reason=malformed_reason)
    if data.count(b"{") + data.count(b"[") > _MOST_CONTAINERS:
        message = f"the body has more than {_MOST_CONTAINERS} objects and lists; split it into several requests"
        raise ApiError(400, message, reason=malformed_reason)
    try:
        content = orjson.loads(data)
        # If a member is repeated, orjson would silently drop all its values except one.
        json.loads(data, object_pairs_hook=_unique)
    except RecursionError:
        raise ApiError(
            400, "the body is nested too deeply; /openapi.json describes its members", reason=malformed_reason
        ) from None
    except orjson.JSONDecodeError as error:
        message = f"the body is not JSON: {error}; send one JSON value in UTF-8"
        raise ApiError(400, message, reason=malformed_reason) from None
    return content


def check_body(model: type[M], content: Any) -> M:
    """Validate a JSON value strictly and return it as a model.

    Raises:
        ApiError: The value does not match the model (400).
    """
    try:
        return model.model_validate(content, strict=True, extra="forbid", by_alias=True, by_name=False)
    except ValidationError as error:
        raise _api_error_of(error) from None


def read_raw_body() -> bytes:
    """Return the body of the request unchanged. It is empty if the request has no body.

    Raises:
        ApiError: The body is compressed (415).
        RequestEntityTooLarge: The body is larger than the limit (413).
    """
    encoding = request.headers.get("Content-Encoding", "identity")
    if encoding.lower() != "identity":
        message = f"Content-Encoding {encoding[:_LONGEST_NAME]!r} is not supported; send the body uncompressed"
        raise ApiError(415, message)
    data = request.get_data()
    limit = request.max_content_length
    # Werkzeug silently truncates a body of unknown length at the limit.
    is_at_limit = request.content_length is None and limit is not None and len(data) >= limit
    if is_at_limit and request.environ["wsgi.input"].read(1):
        raise RequestEntityTooLarge
    return data


def read_path(text: str) -> str:
    """Return the resource path in the URL.

    Raises:
        ApiError: The path is invalid (400).
    """
    path = f"/{text}"
    try:
        parse_path(path)
    except ValueError as error:
        raise ApiError.of_field("path", str(error)) from None
    return path


def query_text(name: str) -> str | None:
    """Return the value of a query parameter, or ``None`` if it is absent.

    Raises:
        ApiError: The parameter is repeated (400).
    """
    texts = request.args.getlist(name)
    if len(texts) > 1:
        raise ApiError.of_field(name, f"this parameter was sent {len(texts)} times; send it only once")
    return texts[0] if texts else None


def query_integer(name: str, *, low: int, high: int | None = None) -> int | None:
    """Return the value of a query parameter as an integer, or ``None`` if it is absent.

    Raises:
        ApiError: The parameter is not an integer, is out of range, or is repeated (400).
    """
    text = query_text(name)
    return None if text is None else read_integer(name, text, low=low, high=high)


def read_integer(name: str, text: str, *, low: int, high: int | None = None) -> int:
    """Parse an integer.

    Raises:
        ApiError: The string is not an integer, or the integer is out of range (400).
    """
    number = int(text) if _INTEGER.match(text) else None
    if number is None or number < low or (high is not None and number > high):
        expected = f"from {low} to {high}" if high is not None else f"of at least {low}"
        raise ApiError.of_field(name, f"{text!r} is not a whole number {expected}")
    return number


def query_choice(name: str, choices: tuple[str, ...]) -> str | None:
    """Return the value of a query parameter that has a fixed set of values, or ``None`` if it is absent.

    Raises:
        ApiError: The value is not one of the choices, or the parameter is repeated (400).
    """
    text = query_text(name)
    if text is not None and text not in choices:
        raise ApiError.of_field(name, f"unknown value {text!r}; use {' or '.join(choices)}")
    return text


def query_flag(name: str) -> bool:
    """Return whether a query parameter is true. An absent parameter is false.

    The words may also start with a capital letter, because some programs write them so.

    Raises:
        ApiError: The parameter is neither true nor false, or is repeated (400).
    """
    return query_choice(name, FLAGS) in {"true", "True"}


@dataclass(frozen=True, slots=True)
class Paging:
    """The requested page of a list.

    Attributes:
        after: The id after which the page starts.
        descending: Whether the ids are in descending order.
        limit: The maximum number of entries.
        count: Whether to include the total number of entries.
        filters: All other query parameters, which are filters.
    """

    after: str | None
    descending: bool
    limit: int
    count: bool
    filters: Sequence[tuple[str, str]]


def query_paging() -> Paging:
    """Return the page that the query requests.

    Raises:
        ApiError: A parameter is invalid (400).
    """
    limit = query_integer("limit", low=MIN_LIMIT, high=MAX_LIMIT) or DEFAULT_LIMIT
    order = query_choice("order", ORDERS)
    include = query_choice("include", INCLUDED)
    filters = [(name, value) for name, value in request.args.items(multi=True) if name not in PAGING]
    return Paging(query_text("after"), order == "DESC", limit, include is not None, filters)


def query_conditions(own: Collection[str]) -> tuple[Condition, ...]:
    """Return the filters of devices in the query, which are all parameters that are not in ``own``.

    Raises:
        ApiError: A filter is unknown, or its value is invalid (400).
    """
    filters = [(name, value) for name, value in request.args.items(multi=True) if name not in own]
    if not filters:
        return ()
    conditions: Sequence[Condition] | None = services().extensions.hook.device_conditions(parameters=filters, own=own)
    # Without an extension that parses filters, all these parameters are unknown.
    if conditions is None:
        check_query(own)
    return tuple(conditions or ())


def _unique(members: list[tuple[str, Any]]) -> None:
    if len(members) > _MOST_MEMBERS:
        raise ApiError(400, f"an object of the body has {len(members)} members; the limit is {_MOST_MEMBERS}")
    if len({name for name, _ in members}) == len(members):
        return
    for name, count in Counter(name for name, _ in members).items():
        if count > 1:
            message = f"this member is in the same object {count} times; send it only once"
            raise ApiError.of_field(name[:_LONGEST_NAME], message)


def _api_error_of(error: ValidationError) -> ApiError:
    details = error.errors(include_url=False, include_input=False)
    found = map(location_and_fault, details[:_MOST_FIELDS])
    fields = [(location[:_LONGEST_NAME] or "body", fault) for location, fault in found]
    summary = "; ".join(f"{name}: {message}" for name, message in fields[:5])
    if len(details) > _MOST_FIELDS:
        summary += f"; {len(details)} errors in total"
    return ApiError(400, summary, fields=fields)
