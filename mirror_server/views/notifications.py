"""Notification channels: long polling and webhooks, over the notification log. Source: wire.md 4."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from flask import Blueprint, Response, request

from mirror_sdk.wire.channel import CallbackRegistration
from mirror_sdk.wire.routes import CURSOR_HEADER, DEFAULT_HOLD_SECONDS, GAP_HEADER, MAX_HOLD_SECONDS, TIME_HEADER
from mirror_server.core.errors import ApiError
from mirror_server.core.messages import Extras, compose
from mirror_server.notifications.channels import POLL
from mirror_server.notifications.log import NotificationLog, Page
from mirror_server.notifications.webhooks import WEBHOOK
from mirror_server.service.keys import Scope
from mirror_server.views import serialize
from mirror_server.views.deferred import PARK, Deferred
from mirror_server.views.requests import (
    app_id,
    asked_by,
    leader_only,
    query_flag,
    query_integer,
    query_text,
    read_body,
    requires,
    services,
    without_head,
)
from mirror_server.views.responses import (
    SharedResponse,
    empty_response,
    json_response,
    when_deleted,
    when_long_read,
    when_read,
    when_stored,
)

if TYPE_CHECKING:
    from mirror_server.server import Services

_CLOSING_SECONDS = 0.3
# More of them are read and encoded on another thread.
_QUICK_ENTRIES = 100
_LATEST = "latest"
ANY_USE = (Scope.READ, Scope.WRITE, Scope.SUBSCRIBE)

routes = Blueprint("notifications", __name__)


@routes.get("/v2/notification/pull")
@requires(*ANY_USE, query=("after", "hold", "noWait"))
@without_head
@leader_only(unless="after", is_poll=True)
def pull() -> Response:
    """Wait for the next notification message.

    A plain poll is the channel of the key: only one at a time, and none beside a webhook or a websocket channel. Polls
    with ``after`` (an extension) are readers with a position of their own, as many as wanted.
    """
    held = _read_hold_seconds()
    parts = services()
    after = read_after(parts.log)
    if after is not None:
        return _poll_after(parts.log, after, held)
    parts.channels.check(app_id(), POLL)
    return _plain_poll(parts, held)


@routes.delete("/v2/notification/pull")
# Always a success, whatever is with it. Source: wire.md 4.
@requires(*ANY_USE, query=None)
@leader_only()
def delete_poll_channel() -> Response:
    """End the poll channel, and with it the poll that is open."""
    return when_stored(services().polls.delete(app_id()), lambda _: empty_response())


@routes.put("/v2/notification/callback")
@requires(*ANY_USE)
@leader_only()
def put_callback() -> Response:
    """Register a webhook, in the place of the one before.

    The URL is first called with ``{}`` and the registered headers, and has to answer with 200 or 204. A refusal does
    not tell why it did not. URL, header names and values have :data:`~mirror_sdk.wire.channel.MAX_CALLBACK_CHARACTERS`
    characters together at most. Where it may lead to is a setting.
    """
    registration = read_body(CallbackRegistration)
    _check_host(registration.url)
    parts = services()
    parts.channels.check(app_id(), WEBHOOK)
    return when_stored(parts.webhooks.register(app_id(), registration), lambda _: empty_response())


@routes.get("/v2/notification/callback")
@requires(*ANY_USE)
def get_callback() -> Response:
    """The webhook, as it was put."""
    row = services().webhooks.registration(app_id())
    if row is None:
        raise _no_callback()
    return Response(row.registration, content_type="application/json")


@routes.delete("/v2/notification/callback")
@requires(*ANY_USE)
@leader_only()
def delete_callback() -> Response:
    """Remove the webhook."""
    return when_deleted(services().webhooks.delete(app_id()), _no_callback())


@routes.get("/v2/notification/channel")
@requires(*ANY_USE)
@leader_only()
def get_channel() -> Response:
    """Which channel delivers the notifications, and how a webhook or websocket stands."""
    application, parts = app_id(), services()
    channel = parts.channels.of(application)
    if channel == POLL:
        return json_response({"delivery_mechanism": channel.mechanism})
    backlog = parts.webhooks.backlog(application)
    row = parts.webhooks.registration(application)
    if row is not None:
        return json_response(serialize.callback_channel(row, backlog))
    return json_response({"delivery_mechanism": channel.mechanism, "backlog": backlog})


def _check_host(url: str) -> None:
    """Refuse a host that no name service can be asked for.

    Raises:
        ApiError: A part of its name is empty or too long (400).
    """
    try:
        (urlsplit(url).hostname or "").encode("idna")
    except UnicodeError:
        message = "its host is no name; the parts between the dots have 1 to 63 characters, like app.example.com"
        raise ApiError.of_field("url", message) from None


def _read_hold_seconds() -> int:
    """Return for how many seconds the poll is held; with ``noWait`` none.

    Raises:
        ApiError: ``hold`` is no number of seconds, ``noWait`` neither true nor false, or one is there twice (400).
    """
    hold_seconds = query_integer("hold", low=0, high=MAX_HOLD_SECONDS)
    if query_flag("noWait"):
        return 0
    return DEFAULT_HOLD_SECONDS if hold_seconds is None else hold_seconds


def read_after(log: NotificationLog) -> int | None:
    """Return the position in the query; ``latest`` is the end of the log.

    Raises:
        ApiError: It is neither a number nor ``latest``, or there more than once (400).
    """
    if query_text("after") == _LATEST:
        return log.last_seq(app_id())
    return query_integer("after", low=0)


def _poll_after(log: NotificationLog, after: int, held: int) -> Response:
    """Answer a poll of a reader that keeps its own position."""
    application = app_id()
    more = log.more(application)

    def with_cursor(page: Page) -> Response:
        log.note_read(application, page.cursor)
        return page.once(_with_cursor) if page.entries else _with_cursor(page)

    def response(_: object = None) -> Response:
        return with_cursor(log.read_new(application, after, more))

    with ExitStack() as undo:
        undo.callback(more.cancel)
        page = log.read(application, after, _QUICK_ENTRIES)
        if not page.is_last:
            return when_read(partial(_read_long, log, application, after), with_cursor, is_long=True)
        if page.entries or page.gap or held == 0:
            return with_cursor(page)
        undo.pop_all()
    return Deferred(
        more,
        held,
        render=response,
        expired=response,
        close=more.cancel,
        is_poll=True,
        rechecks_key=True,
    )


def _plain_poll(parts: Services, held: int) -> Response:
    """Answer a poll of the public API: the server keeps the position."""
    application, process_id = app_id(), asked_by()

    def opened(_: object = None) -> Response:
        return _opened_poll(parts, application, process_id, held)

    closing = parts.polls.closing(application) if PARK in request.environ else None
    if closing is None:
        return opened()
    # A client that aborts a poll and sends the next one on another connection may be faster than the end of the first.
    return Deferred(
        closing, _CLOSING_SECONDS, render=opened, expired=opened, close=closing.cancel, is_poll=True, takes=True
    )


def _opened_poll(parts: Services, application: str, process_id: str | None, held: int) -> Response:
    """Open a plain poll; the response comes when there is something to deliver.

    Raises:
        ApiError: Another poll of this key is open (409), or too many long reads wait (429).
    """
    polls = parts.polls
    more = polls.open(application, process_id)

    def read() -> tuple[Page, Response]:
        page = polls.read(application, more)
        return page, json_response(compose(page.entries, Extras())) if page.entries else empty_response()

    def deliver(found: tuple[Page, Response]) -> Response:
        page, response = found
        polls.take(application, more, page)
        return response

    def response(_: object = None) -> Response:
        return deliver(read())

    def close() -> None:
        polls.close(application, more)

    with ExitStack() as undo:
        undo.callback(close)
        waiting = polls.count_waiting(application)
        reading = parts.long_reads.submit(application, read) if waiting > _QUICK_ENTRIES else None
        undo.pop_all()
    if reading is not None:
        return when_long_read(reading, deliver, close=close, takes=True)
    return Deferred(
        more,
        0 if waiting > 0 else held,
        render=response,
        expired=response,
        close=close,
        is_poll=True,
        takes=True,
        rechecks_key=True,
    )


def _read_long(log: NotificationLog, application: str, after: int) -> Page:
    """Read a page and encode its message, which takes long with many entries."""
    page = log.read(application, after)
    if page.entries:
        page.once(_with_cursor)
    return page


def _with_cursor(page: Page) -> Response:
    response = SharedResponse(page.message) if page.entries else empty_response()
    response.headers[CURSOR_HEADER] = str(page.cursor)
    if page.gap:
        response.headers[GAP_HEADER] = "{}-{}".format(*page.gap)
    if page.settled_at is not None:
        response.headers[TIME_HEADER] = serialize.timestamp(page.settled_at)
    return response


def _no_callback() -> ApiError:
    return ApiError(404, 'this key has no webhook; PUT {"url": ...} here registers one')
