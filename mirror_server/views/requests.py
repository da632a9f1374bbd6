"""Reading requests: who asks, the body as a model, the query as checked values. Source: wire.md 0."""

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
from mirror_sdk.wire.model import place_and_fault
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
"""The name of an app's :class:`~mirror_server.server.Services` among its extensions."""

CALLER = "mirror.caller"
"""Key of the WSGI environment with the :class:`Caller` of a request that another process forwarded."""

_REQUEST_ID = "mirror.request_id"
_REQUEST_ID_VARIABLE = f"HTTP_{REQUEST_ID_HEADER.upper().replace('-', '_')}"
_GIVEN_REQUEST_ID = re.compile(r"[0-9a-f]{32}")
_NOTED = "mirror.noted"
# Of a body of a megabyte all of it may be wrong; who sent it needs no more than this to see why.
_MOST_FIELDS = 20
_LONGEST_NAME = 100
# A megabyte of empty lists, or of members that are not known, would hold up all other requests for half a second.
_MOST_CONTAINERS = 20_000
_MOST_MEMBERS = 1000
_INTEGER = re.compile(r"-?[0-9]{1,18}\Z", re.ASCII)
PAGING = ("limit", "after", "order", "include")
"""Parameters of every list; the others are filters."""
ORDERS = ("ASC", "DESC")


class Caller(Protocol):
    """Who asks, as another process authenticated it that forwarded the request."""

    process_id: str
    """That process."""

    app_id: str
    scopes: Sequence[str]
    secret_hash: str
    """The hash of the key's secret, in hexadecimal digits."""


class LeaderOnly(NamedTuple):
    """What is known of a view that only the leader of several processes can use.

    Attributes:
        unless: A parameter of the query with which any process can use it.
        is_poll: Whether it may hold a request for as long as a poll is held.
    """

    unless: str | None
    is_poll: bool


def leader_only(*, unless: str | None = None, is_poll: bool = False) -> Callable[[View], View]:
    """Leave a view to the leader of several processes: it alone knows the devices and what is under way.

    See :class:`LeaderOnly` for the arguments.
    """

    def mark(view: View) -> View:
        view.__dict__["leader_only"] = LeaderOnly(unless, is_poll)
        return view

    return mark


def requires(*scopes: Scope, query: Collection[str] | None = ()) -> Callable[[View], View]:
    """Let a view be used with a key that has one of these scopes; without any, with no key at all.

    ``query`` are the names of the parameters it knows: with a key another one is refused. ``None`` leaves that to the
    view.
    """

    def mark(view: View) -> View:
        view.__dict__["required_scopes"] = frozenset(scopes)
        view.__dict__["known_query"] = query
        return view

    return mark


def without_head(view: View) -> View:
    """Refuse HEAD where a GET takes something away or begins something long: without a body that would be lost."""
    view.__dict__["without_head"] = True
    return view


def require_scope(held: frozenset[Scope], *scopes: Scope) -> None:
    """Check that one of the scopes is among those a key has.

    Raises:
        ApiError: None of them is (403).
    """
    if held.isdisjoint(scopes):
        wanted = sorted(scopes)
        # With what it has besides: a key with the scope admin alone, say, could not read any more.
        cures = [" ".join(f"--scope {scope}" for scope in Scope if scope in {*held, one}) for one in wanted]
        made = " or ".join(f"'mirror-server keys create NAME {cure}'" for cure in cures)
        raise ApiError(403, f"this key lacks the scope {' or '.join(wanted)}; make one with {made}")


def check_query(known: Collection[str] | None) -> None:
    """Refuse a parameter that is not known: misspelt, it would change what is asked for without a word.

    Raises:
        ApiError: There is one (400).
    """
    if known is None:
        return
    for name in request.args:
        if name not in known:
            cure = f"known are {', '.join(known)}" if known else "leave it out, this operation has none"
            raise ApiError.of_field(name[:_LONGEST_NAME], f"unknown parameter; {cure}")


def app_id() -> str:
    """The application that asks."""
    identity: str = g.app_id
    return identity


def asked_by() -> str | None:
    """The process that forwarded this request; ``None`` where the application itself asks."""
    caller: Caller | None = request.environ.get(CALLER)
    return None if caller is None else caller.process_id


def services() -> Services:
    """The parts of the server that is asked; a view names the one it needs."""
    parts: Services = current_app.extensions[SERVICES]
    return parts


def request_id(environ: WSGIEnvironment) -> str:
    """One id for the request, the client's own if it gave one of our form."""
    if _REQUEST_ID not in environ:
        given = environ.get(_REQUEST_ID_VARIABLE, "")
        environ[_REQUEST_ID] = given if _GIVEN_REQUEST_ID.fullmatch(given) else token_hex(16)
    identity: str = environ[_REQUEST_ID]
    return identity


def note(environ: WSGIEnvironment, **details: str) -> None:
    """Add details to a request's line in the server's log; no secrets and no values."""
    # Not in flask.g, which a request that is answered later does not keep.
    environ.setdefault(_NOTED, {}).update(details)


def noted(environ: WSGIEnvironment) -> dict[str, str]:
    """What was noted of a request."""
    details: dict[str, str] = environ.get(_NOTED, {})
    return details


def read_body(model: type[M], *, malformed_reason: str | None = None) -> M:
    """Return the request's body, checked strictly; see :func:`read_json` and :func:`check_body`.

    Raises:
        ApiError: It is not JSON by its content type (415) or its text (400), or does not fit the model (400).
    """
    return check_body(model, read_json(malformed_reason=malformed_reason))


def read_json(*, malformed_reason: str | None = None) -> Any:
    """Return the JSON value of the request's body.

    Args:
        malformed_reason: The ``reason`` of the error if it is not JSON.

    Raises:
        ApiError: It is not JSON by its content type (415) or its text (400).
    """
    if request.content_type and request.mimetype != "application/json":
        message = f"the body must be application/json, not {request.mimetype}; set the header Content-Type"
        raise ApiError(415, message)
    data = read_raw_body()
    if not data.strip():
        raise ApiError(400, "the body is empty; send JSON", reason=malformed_reason)
    if data.count(b"{") + data.count(b"[") > _MOST_CONTAINERS:
        message = f"the body has more than {_MOST_CONTAINERS} objects and lists; send less at a time"
        raise ApiError(400, message, reason=malformed_reason)
    try:
        content = orjson.loads(data)
        # Of a member that is there twice, one value would be dropped without a word.
        json.loads(data, object_pairs_hook=_unique)
    except RecursionError:
        raise ApiError(
            400, "the body is nested too deeply; send what the description has", reason=malformed_reason
        ) from None
    except orjson.JSONDecodeError as error:
        message = f"the body is not JSON: {error}; send one JSON value in UTF-8"
        raise ApiError(400, message, reason=malformed_reason) from None
    return content


def check_body(model: type[M], content: Any) -> M:
    """Return a JSON value as a model, checked strictly.

    Raises:
        ApiError: It does not fit the model (400).
    """
    try:
        return model.model_validate(content, strict=True, extra="forbid", by_alias=True, by_name=False)
    except ValidationError as error:
        raise _api_error_of(error) from None


def read_raw_body() -> bytes:
    """The request's body as it came, empty where there is none.

    Raises:
        ApiError: It is compressed (415).
        RequestEntityTooLarge: It is larger than a body may be (413).
    """
    encoding = request.headers.get("Content-Encoding", "identity")
    if encoding.lower() != "identity":
        message = f"the header Content-Encoding is {encoding[:_LONGEST_NAME]!r}; send the body uncompressed, without it"
        raise ApiError(415, message)
    data = request.get_data()
    limit = request.max_content_length
    # Werkzeug cuts a body of unknown length at the limit without a word.
    is_at_limit = request.content_length is None and limit is not None and len(data) >= limit
    if is_at_limit and request.environ["wsgi.input"].read(1):
        raise RequestEntityTooLarge
    return data


def read_path(text: str) -> str:
    """A resource path from the URL.

    Raises:
        ApiError: It is not one (400).
    """
    path = f"/{text}"
    try:
        parse_path(path)
    except ValueError as error:
        raise ApiError.of_field("path", str(error)) from None
    return path


def query_text(name: str) -> str | None:
    """A text from the query, ``None`` where it is absent.

    Raises:
        ApiError: It is there more than once (400).
    """
    texts = request.args.getlist(name)
    if len(texts) > 1:
        raise ApiError.of_field(name, f"given {len(texts)} times; give it once")
    return texts[0] if texts else None


def query_integer(name: str, *, low: int, high: int | None = None) -> int | None:
    """A whole number from the query, ``None`` where it is absent.

    Raises:
        ApiError: It is not a whole number, outside of the range, or there more than once (400).
    """
    text = query_text(name)
    return None if text is None else read_integer(name, text, low=low, high=high)


def read_integer(name: str, text: str, *, low: int, high: int | None = None) -> int:
    """A whole number from a text.

    Raises:
        ApiError: It is not a whole number, or outside of the range (400).
    """
    number = int(text) if _INTEGER.match(text) else None
    if number is None or number < low or (high is not None and number > high):
        wanted = f"from {low} to {high}" if high is not None else f"of at least {low}"
        raise ApiError.of_field(name, f"{text!r} is not a whole number {wanted}")
    return number


def query_choice(name: str, choices: tuple[str, ...]) -> str | None:
    """A word from the query, ``None`` where it is absent.

    Raises:
        ApiError: It is none of the choices, or there more than once (400).
    """
    text = query_text(name)
    if text is not None and text not in choices:
        raise ApiError.of_field(name, f"{text!r} is not known here; write {' or '.join(choices)}")
    return text


def query_flag(name: str) -> bool:
    """Whether the query says yes to something; it may be absent, and programs write the words in two ways.

    Raises:
        ApiError: It says neither yes nor no, or is there more than once (400).
    """
    return query_choice(name, FLAGS) in {"true", "True"}


@dataclass(frozen=True, slots=True)
class Paging:
    """Which page is asked for.

    Attributes:
        after: The id the page begins behind.
        descending: Whether it goes from greater ids to lesser ones.
        limit: How many entries it has at most.
        count: Whether to tell how many there are in all.
        filters: The other parameters of the query, each a filter.
    """

    after: str | None
    descending: bool
    limit: int
    count: bool
    filters: Sequence[tuple[str, str]]


def query_paging() -> Paging:
    """Which page the query of the request asks for.

    Raises:
        ApiError: A parameter is none (400).
    """
    limit = query_integer("limit", low=MIN_LIMIT, high=MAX_LIMIT) or DEFAULT_LIMIT
    order = query_choice("order", ORDERS)
    include = query_choice("include", INCLUDED)
    filters = [(name, value) for name, value in request.args.items(multi=True) if name not in PAGING]
    return Paging(query_text("after"), order == "DESC", limit, include is not None, filters)


def query_conditions(own: Collection[str]) -> tuple[Condition, ...]:
    """The conditions on devices in the query of the request, which are in the parameters that are not in ``own``.

    Raises:
        ApiError: A parameter is none, or its value cannot be one (400).
    """
    given = [(name, value) for name, value in request.args.items(multi=True) if name not in own]
    if not given:
        return ()
    found: Sequence[Condition] | None = services().extensions.hook.device_conditions(given=given, own=own)
    if found is None:
        check_query(own)
    return tuple(found or ())


def _unique(members: list[tuple[str, Any]]) -> None:
    if len(members) > _MOST_MEMBERS:
        raise ApiError(400, f"an object of the body has {len(members)} members; {_MOST_MEMBERS} is the limit")
    if len({name for name, _ in members}) == len(members):
        return
    for name, count in Counter(name for name, _ in members).items():
        if count > 1:
            raise ApiError.of_field(name[:_LONGEST_NAME], f"there {count} times in one object; give it once")


def _api_error_of(error: ValidationError) -> ApiError:
    details = error.errors(include_url=False, include_input=False)
    found = map(place_and_fault, details[:_MOST_FIELDS])
    fields = [(place[:_LONGEST_NAME] or "body", fault) for place, fault in found]
    summary = "; ".join(f"{name}: {message}" for name, message in fields[:5])
    if len(details) > _MOST_FIELDS:
        summary += f"; and more, {len(details)} in all"
    return ApiError(400, summary, fields=fields)
