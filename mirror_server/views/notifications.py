"""The views of notification channels: long polls and webhooks, which read the notification log. Source: wire.md 4."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from flask import Blueprint, Response, request

from mirror_sdk.wire.channel import CallbackRegistration
from mirror_sdk.wire.routes import CURSOR_HEADER, DEFAULT_HOLD_SECONDS, GAP_HEADER, MAX_HOLD_SECONDS, TIME_HEADER
from mirror_server.core.errors import ApiError
from mirror_server.core.messages import MessageExtras, compose
from mirror_server.notifications.channels import POLL
from mirror_server.notifications.log import NotificationLog, Page
from mirror_server.notifications.webhooks import WEBHOOK
from mirror_server.service.keys import Scope
from mirror_server.views import serialize
from mirror_server.views.deferred_responses import DEFER, DeferredResponse
from mirror_server.views.requests import (
    app_id,
    forwarded_by,
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
    when_read,
    when_slow_read,
    when_stored,
)

if TYPE_CHECKING:
    from mirror_server.server import Services

_CLOSING_SECONDS = 0.3
# A larger number of entries is read and encoded in another thread.
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

    A poll without ``after`` is the notification channel of the key. A key can have only one such poll at a time, and
    cannot have it together with a webhook or a websocket channel. Polls with ``after``, an extension of the
    specification, are independent readers. Each stores its own position, and there can be any number of them.
    """
    hold_seconds = _read_hold_seconds()
    server = services()
    after = read_after(server.log)
    if after is not None:
        return _poll_after(server.log, after, hold_seconds)
    server.channels.check(app_id(), POLL)
    return _plain_poll(server, hold_seconds)


@routes.delete("/v2/notification/pull")
# This always succeeds, with any query parameters. Source: wire.md 4.
@requires(*ANY_USE, query=None)
@leader_only()
def delete_poll_channel() -> Response:
    """Delete the poll channel, and end its open poll."""
    return when_stored(services().polls.delete(app_id()), lambda _: empty_response())


@routes.put("/v2/notification/callback")
@requires(*ANY_USE)
@leader_only()
def put_callback() -> Response:
    """Register a webhook, and replace the previous one.

    The server first calls the URL with ``{}`` and the registered headers; the webhook has to respond with 200 or 204.
    The error does not say why this test failed. The length of the URL and of all header names and values is limited to
    :data:`~mirror_sdk.wire.channel.MAX_CALLBACK_CHARACTERS` characters in total. The operator sets the allowed
    networks.

    """
    registration = read_body(CallbackRegistration)
    _check_host(registration.url)
    server = services()
    server.channels.check(app_id(), WEBHOOK)
    return when_stored(server.webhooks.register(app_id(), registration), lambda _: empty_response())


@routes.get("/v2/notification/callback")
@requires(*ANY_USE)
def get_callback() -> Response:
    """Get the webhook as it was registered."""
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
    """Get the channel that delivers the notifications, with the delivery state of a webhook or websocket."""
    application, server = app_id(), services()
    channel = server.channels.of(application)
    if channel == POLL:
        return json_response({"delivery_mechanism": channel.mechanism})
    backlog = server.webhooks.backlog(application)
    row = server.webhooks.registration(application)
    if row is not None:
        return json_response(serialize.callback_channel(row, backlog))
    return json_response({"delivery_mechanism": channel.mechanism, "backlog": backlog})


def _check_host(url: str) -> None:
    """Raise an error for a host name that can never be resolved.

    Raises:
        ApiError: A part of the host name is empty or too long (400).
    """
    try:
        # Resolving the name at each delivery would fail with the same error, so the registration is rejected.
        (urlsplit(url).hostname or "").encode("idna")
    except UnicodeError:
        message = "invalid host name; the parts between the dots must have 1 to 63 characters, like app.example.com"
        raise ApiError.of_field("url", message) from None


def _read_hold_seconds() -> int:
    """Return the number of seconds for which the poll stays open. It is 0 with ``noWait``.

    Raises:
        ApiError: ``hold`` is not a number of seconds, ``noWait`` is neither true nor false, or a parameter is repeated
            (400).
    """
    hold_seconds = query_integer("hold", low=0, high=MAX_HOLD_SECONDS)
    if query_flag("noWait"):
        return 0
    return DEFAULT_HOLD_SECONDS if hold_seconds is None else hold_seconds


def read_after(log: NotificationLog) -> int | None:
    """Return the position in the query. ``latest`` stands for the end of the log.

    Raises:
        ApiError: The parameter is neither a number nor ``latest``, or is repeated (400).
    """
    if query_text("after") == _LATEST:
        return log.last_seq(app_id())
    return query_integer("after", low=0)


def _poll_after(log: NotificationLog, after: int, hold_seconds: int) -> Response:
    """Respond to a poll of a reader that stores its own position."""
    application = app_id()
    more = log.entry_waiter(application)

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
        if page.entries or page.gap or hold_seconds == 0:
            return with_cursor(page)
        undo.pop_all()
    return DeferredResponse(
        more,
        hold_seconds,
        render=response,
        expired=response,
        close=more.cancel,
        is_poll=True,
        rechecks_key=True,
    )


def _plain_poll(server: Services, hold_seconds: int) -> Response:
    """Respond to a poll of the public API. The server stores the position of such polls."""
    application, process_id = app_id(), forwarded_by()

    def open_poll(_: object = None) -> Response:
        return _open_poll(server, application, process_id, hold_seconds)

    closing = server.polls.closing(application) if DEFER in request.environ else None
    if closing is None:
        return open_poll()
    # A client may abort a poll and poll again on another connection. Then the new poll can arrive before the old one
    # ends.
    return DeferredResponse(
        closing,
        _CLOSING_SECONDS,
        render=open_poll,
        expired=open_poll,
        close=closing.cancel,
        is_poll=True,
        consumes=True,
    )


def _open_poll(server: Services, application: str, process_id: str | None, hold_seconds: int) -> Response:
    """Open a plain poll. The response is sent when there are notifications to deliver.

    Raises:
        ApiError: Another poll of this key is open (409), or too many slow reads are waiting (429).
    """
    polls = server.polls
    more = polls.open(application, process_id)

    def read() -> tuple[Page, Response]:
        page = polls.read(application, more)
        return page, json_response(compose(page.entries, MessageExtras())) if page.entries else empty_response()

    def deliver(page_and_response: tuple[Page, Response]) -> Response:
        page, response = page_and_response
        polls.advance(application, more, page)
        return response

    def response(_: object = None) -> Response:
        return deliver(read())

    def close() -> None:
        polls.close(application, more)

    with ExitStack() as undo:
        undo.callback(close)
        waiting = polls.count_waiting(application)
        reading = server.slow_reads.submit(application, read) if waiting > _QUICK_ENTRIES else None
        undo.pop_all()
    if reading is not None:
        return when_slow_read(reading, deliver, close=close, consumes=True)
    return DeferredResponse(
        more,
        # Deferred even without a wait, because a deferred response is not rendered for a client that has disconnected.
        0 if waiting > 0 else hold_seconds,
        render=response,
        expired=response,
        close=close,
        is_poll=True,
        consumes=True,
        rechecks_key=True,
    )


def _read_long(log: NotificationLog, application: str, after: int) -> Page:
    """Read a page of the log and encode its message. Both are slow if the page has many entries."""
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
    return ApiError(404, 'this key has no webhook; PUT {"url": ...} to this path to register one')
