"""Event streams and websockets over the notification log [an extension]. Source: wire.md 4."""

from __future__ import annotations

from functools import partial

from flask import Blueprint, Response, g, request
from werkzeug.routing import WebsocketMismatch

from mirror_sdk.wire.channel import WebsocketChannel, WebsocketRegistration
from mirror_server.core.errors import ApiError
from mirror_server.extensions.openapi_parameters import POSITION
from mirror_server.extensions.streams.event_stream import EXAMPLE, EventStream
from mirror_server.extensions.streams.reader_websockets import ReaderSocket, StreamSocket, reader_frame
from mirror_server.extensions.streams.websocket_channels import WebsocketChannels
from mirror_server.notifications.log import NotificationLog, beyond_log
from mirror_server.views import serialize
from mirror_server.views.deferred_responses import DEFER, StreamedResponse
from mirror_server.views.description import Parameter, ResponseSpec, described, header, integer, json_of, text_of
from mirror_server.views.notifications import ANY_USE, read_after
from mirror_server.views.requests import app_id, read_body, read_integer, requires, services, without_head
from mirror_server.views.responses import error_response_to, json_response, when_deleted, when_stored

_frame_of = partial(reader_frame, format_instant=serialize.timestamp)
_BEGIN = Parameter("after", "Start after this number; by default at the end of the log.", POSITION)
_LAST_EVENT_ID = header(
    "Last-Event-ID", "The same for a client that reconnects. Takes precedence over `after`.", integer(0)
)
_OWN_POSITION = Parameter(
    "after",
    "The position of a reader that stores its own position: start after this number, or at `latest`.",
    POSITION,
    is_extension=True,
)
_OPEN_WEBSOCKET = json_of(WebsocketChannel, "an open socket")

routes = Blueprint("streams", __name__)

OPEN = "mirror.open_websocket"
"""Key of the WSGI environment of a websocket handshake, to which the view responds with :class:`OpenedWebsocket`."""


class OpenedWebsocket(StreamedResponse):
    """The response to a handshake, sent when the server opens the websocket.

    Args:
        socket: The source of its messages.
    """

    is_poll = True
    default_status = 101

    def __init__(self, socket: StreamSocket) -> None:
        super().__init__((), content_type="", headers={})
        del self.headers["Content-Type"]
        self.socket = socket


@routes.app_errorhandler(WebsocketMismatch)
def reject_elsewhere(_: WebsocketMismatch) -> Response:
    """Reject a handshake at another route."""
    message = "websockets can be opened only at /v2/notification/websocket-connect; remove the header Upgrade here"
    return error_response_to(ApiError(400, message), request.environ, max_body_bytes=0)


@routes.get("/v2/notification/events")
@requires(*ANY_USE, query=("after",))
@without_head
@described(
    "Notifications",
    ResponseSpec(200, "A stream that does not end.", text_of("text/event-stream", EXAMPLE)),
    parameters=(_BEGIN, _LAST_EVENT_ID),
    errors=(429,),
    is_extension=True,
)
def stream_events() -> Response:
    """Stream the notification log as server-sent events.

    Each entry is an event. Its number is the ``id``, its list is the ``event`` (``async-responses``, ``notifications``,
    ``registrations``, ``reg-updates``, ``de-registrations``, ``registrations-expired``), and its JSON is the ``data``.
    For entries that are no longer in the log, there is an event ``gap`` with the first and the last missing number. A
    comment every 15 seconds keeps the connection alive. A client that reconnects with ``Last-Event-ID`` misses nothing.
    """
    log = services().log
    return EventStream(log, app_id(), _read_last_event_id(log), is_admitted=g.still_admits)


@routes.put("/v2/notification/websocket")
@requires(*ANY_USE)
@described(
    "Notifications",
    ResponseSpec(200, "The channel existed already, and was changed.", _OPEN_WEBSOCKET),
    ResponseSpec(
        201,
        "The channel is registered; its websocket can be opened.",
        json_of(WebsocketChannel, "registered, no socket open"),
    ),
    body=json_of(WebsocketRegistration, "everything"),
    is_body_optional=True,
)
def put_websocket() -> Response:
    """Register a websocket channel, or change the message format of the existing one.

    The body is optional. ``GET /v2/notification/websocket-connect`` opens the websocket itself. A key that has a
    channel of another type is rejected.
    """
    registration = read_body(WebsocketRegistration) if request.get_data() else WebsocketRegistration()
    application, server = app_id(), services()
    if not server.accepts_upgrades:
        message = (
            "this server does not support websockets, because it was not started by 'mirror-server run'; poll instead"
            " (GET /v2/notification/pull), or register a webhook (PUT /v2/notification/callback)"
        )
        raise ApiError(400, message)

    def response(is_new: bool) -> Response:
        return _websocket_channel(server.part(WebsocketChannels), application, 201 if is_new else 200)

    return when_stored(server.part(WebsocketChannels).register(application, registration), response)


@routes.get("/v2/notification/websocket")
@requires(*ANY_USE)
@described("Notifications", ResponseSpec(200, "The channel.", _OPEN_WEBSOCKET), errors=(404,))
def get_websocket() -> Response:
    """Get the state of the websocket channel: whether it is connected, and the number of entries to deliver."""
    return _websocket_channel(services().part(WebsocketChannels), app_id())


@routes.delete("/v2/notification/websocket")
@requires(*ANY_USE)
@described("Notifications", ResponseSpec(204, "The websocket channel was deleted."), errors=(404,))
def delete_websocket() -> Response:
    """Delete the websocket channel, and close its websocket with the code 1001."""
    return when_deleted(services().part(WebsocketChannels).delete(app_id()), _no_websocket())


@routes.get("/v2/notification/websocket-connect")
# A handshake that the server did not recognize has this route too.
@routes.get("/v2/notification/websocket-connect", websocket=True)
@requires(*ANY_USE, query=("after",))
@without_head
@described(
    "Notifications",
    ResponseSpec(101, "The websocket is open."),
    parameters=(_OWN_POSITION,),
    errors=(426, 429),
)
def connect_websocket() -> Response:
    """Open the websocket of the channel.

    The key is in ``Authorization`` or, for browsers, among the offered protocols:
    ``Sec-WebSocket-Protocol: wss, pelion_<key>``. The server selects ``wss``. Each text frame is a message as in the
    response of a long poll. Messages of the client are ignored; more than 64 KiB at once close the websocket.

    After each message the server sends a ping. The message is delivered when the client's pong arrives. Libraries send
    pongs automatically, even before the program has read the message. So before you close a websocket, process the
    messages that the library still holds. The next websocket starts after the last message that had a pong.

    The server closes a websocket with 1001 when another one of the key is opened, the channel is deleted, or the server
    stops. 1008 means that the key is missing, wrong or revoked, or lacks a scope. 1011 means that there is no channel,
    a pong was late, or the server failed. The reason has details. Other operations respond with 401, 403 or 404. This
    route opens the websocket and closes it with 1008 or 1011, because clients of the public API expect this.

    With ``after``, an extension, no channel is needed. The reader stores its own position. Any number of readers can
    use one key, and they remove no entries. Each message has the members ``mirror-cursor``, ``mirror-gap`` and
    ``mirror-time``, like the headers of such a poll. The first message may have no entries. The same is true of
    messages that are sent while nothing happens.
    """
    server, application = services(), app_id()
    after = read_after(server.log)
    if OPEN not in request.environ:
        message = (
            "this path opens websockets; send 'Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Version: 13'"
            " and a Sec-WebSocket-Key. Proxies in between must forward them, and the server must be started with"
            " 'mirror-server run'"
        )
        headers = {"Sec-WebSocket-Version": "13"}
        # An app under any other server must not send this header (PEP 3333); waitress would respond with 500.
        raise ApiError(
            426, message, headers={"Upgrade": "websocket", **headers} if DEFER in request.environ else headers
        )
    if after is None:
        return OpenedWebsocket(server.part(WebsocketChannels).connect(application, g.still_admits))
    begin = _checked(server.log, "after", after)
    return OpenedWebsocket(ReaderSocket(server.log, application, begin, is_admitted=g.still_admits, frame_of=_frame_of))


def _read_last_event_id(log: NotificationLog) -> int:
    """Return the entry to start after: the header of a client that reconnects, else ``after``, else the last entry.

    Raises:
        ApiError: A position is invalid, or beyond the end of the log (400).
    """
    # A client that reconnects repeats its URL. ``after`` is outdated then, but still has to be valid.
    after, name = read_after(log), "after"
    text = request.headers.get("Last-Event-ID")
    if text is not None:
        name = "Last-Event-ID"
        after = read_integer(name, text, low=0)
    return log.last_seq(app_id()) if after is None else _checked(log, name, after)


def _checked(log: NotificationLog, name: str, position: int) -> int:
    """Return a position in the log.

    Raises:
        ApiError: The position is beyond the end (400).
    """
    last_seq = log.last_seq(app_id())
    if position > last_seq:
        raise beyond_log(name, position, last_seq)
    return position


def _websocket_channel(websockets: WebsocketChannels, application: str, status: int = 200) -> Response:
    state = websockets.state(application)
    if state is None:
        raise _no_websocket()
    word = "connected" if state.is_connected else "disconnected"
    return json_response({"status": word, "queue_size": state.waiting}, status)


def _no_websocket() -> ApiError:
    return ApiError(404, "this key has no websocket channel; PUT to this path to register one")
