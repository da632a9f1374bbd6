"""Event streams and websockets over the notification log [an extension]. Source: wire.md 4."""

from __future__ import annotations

from functools import partial

from flask import Blueprint, Response, g, request
from werkzeug.routing import WebsocketMismatch

from mirror_sdk.wire.channel import WebsocketChannel, WebsocketRegistration
from mirror_server.core.errors import ApiError
from mirror_server.extensions.descriptions import POSITION
from mirror_server.extensions.streams.event_stream import EXAMPLE, EventStream
from mirror_server.extensions.streams.sockets import ReaderSocket, StreamSocket, reader_frame
from mirror_server.extensions.streams.websockets import Websockets
from mirror_server.notifications.log import NotificationLog, beyond_log
from mirror_server.views import serialize
from mirror_server.views.deferred import PARK, Streamed
from mirror_server.views.description import Parameter, ResponseSpec, described, header, json_of, text_of, whole_number
from mirror_server.views.notifications import ANY_USE, read_after
from mirror_server.views.requests import app_id, read_body, read_integer, requires, services, without_head
from mirror_server.views.responses import error_response_to, json_response, when_deleted, when_stored

_frame_of = partial(reader_frame, show_instant=serialize.timestamp)
_BEGIN = Parameter("after", "Start after this number; by default at the end of the log.", POSITION)
_LAST_EVENT_ID = header(
    "Last-Event-ID", "The same for a client that reconnects. Takes precedence over `after`.", whole_number(0)
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
"""Key of the WSGI environment of a websocket's handshake, for which the view gives an :class:`OpenedWebsocket`."""


class OpenedWebsocket(Streamed):
    """The answer to a handshake, which is sent when the server opens the websocket.

    Args:
        socket: What is sent through it.
    """

    is_poll = True
    default_status = 101

    def __init__(self, socket: StreamSocket) -> None:
        super().__init__((), content_type="", headers={})
        del self.headers["Content-Type"]
        self.socket = socket


@routes.app_errorhandler(WebsocketMismatch)
def reject_elsewhere(_: WebsocketMismatch) -> Response:
    """The answer to a handshake for another route."""
    message = "websockets are opened at /v2/notification/websocket-connect alone; send this request without Upgrade"
    return error_response_to(ApiError(400, message), request.environ, max_body_bytes=0)


@routes.get("/v2/notification/events")
@requires(*ANY_USE, query=("after",))
@without_head
@described(
    "Notifications",
    ResponseSpec(200, "A stream without an end.", text_of("text/event-stream", EXAMPLE)),
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
            "this server opens no websocket, so that nobody could read the channel: its operator has to run it by"
            " 'mirror-server run'; or poll (GET /v2/notification/pull), or register a webhook"
            " (PUT /v2/notification/callback)"
        )
        raise ApiError(400, message)

    def response(is_new: bool) -> Response:
        return _websocket_channel(server.part(Websockets), application, 201 if is_new else 200)

    return when_stored(server.part(Websockets).register(application, registration), response)


@routes.get("/v2/notification/websocket")
@requires(*ANY_USE)
@described("Notifications", ResponseSpec(200, "The channel.", _OPEN_WEBSOCKET), errors=(404,))
def get_websocket() -> Response:
    """Get the state of the websocket channel: whether it is connected, and the number of entries that wait."""
    return _websocket_channel(services().part(Websockets), app_id())


@routes.delete("/v2/notification/websocket")
@requires(*ANY_USE)
@described("Notifications", ResponseSpec(204, "There is no websocket channel any more."), errors=(404,))
def delete_websocket() -> Response:
    """Delete the websocket channel, and close its websocket with the code 1001."""
    return when_deleted(services().part(Websockets).delete(app_id()), _no_websocket())


@routes.get("/v2/notification/websocket-connect")
# As a request to upgrade that the server did not take for a handshake.
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

    The key stands in ``Authorization``, or where a program cannot set that, as a browser cannot, among the offered
    protocols: ``Sec-WebSocket-Protocol: wss, pelion_<key>``; ``wss`` is chosen. Each text frame is a message as a long
    poll gives it. What the client sends is ignored, and closes the websocket past 64 KiB.

    A message counts as delivered when the client has answered the ping that follows it, which libraries do by
    themselves, also before the program has read it: a program that closes the websocket takes what its library still
    holds first. The next websocket begins behind the last message that was answered for.

    A websocket is closed with the code 1001 when another one of the same key is opened, the channel is deleted or the
    server stops; with 1008 when the key is missing, wrong, revoked or lacks a scope; with 1011 when there is no
    channel, the client does not answer pings or the server fails. The reason says more. Unlike with other operations a
    key that may not, or a channel that is not there, is told after the handshake, as a client of the public API expects
    it: by 1008 and 1011 instead of 401, 403 and 404.

    With ``after``, an extension, it needs no channel: the reader holds its own position, any number of them read with
    one key, and nothing is removed. Each message has ``mirror-cursor``, ``mirror-gap`` and ``mirror-time`` beside its
    entries, as the headers of such a poll tell them, and comes without entries at the beginning and while nothing
    happens.
    """
    server, application = services(), app_id()
    after = read_after(server.log)
    if OPEN not in request.environ:
        message = (
            "a websocket is opened here; send 'Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Version: 13'"
            " and a Sec-WebSocket-Key, through proxies that pass them on, to a server run by 'mirror-server run'"
        )
        headers = {"Sec-WebSocket-Version": "13"}
        # Of an application under any other server it is forbidden (PEP 3333); waitress answers 500.
        raise ApiError(
            426, message, headers={"Upgrade": "websocket", **headers} if PARK in request.environ else headers
        )
    if after is None:
        return OpenedWebsocket(server.part(Websockets).connect(application, g.still_admits))
    begin = _checked(server.log, "after", after)
    return OpenedWebsocket(ReaderSocket(server.log, application, begin, is_admitted=g.still_admits, frame_of=_frame_of))


def _read_last_event_id(log: NotificationLog) -> int:
    """The entry to begin behind: the header of a client that comes back, or ``after``; else the last one.

    Raises:
        ApiError: One of them is not a position, or it is beyond the end of the log (400).
    """
    # A client that comes back repeats its URL: ``after`` is old by then, but still has to be one.
    after, name = read_after(log), "after"
    text = request.headers.get("Last-Event-ID")
    if text is not None:
        name = "Last-Event-ID"
        after = read_integer(name, text, low=0)
    return log.last_seq(app_id()) if after is None else _checked(log, name, after)


def _checked(log: NotificationLog, name: str, position: int) -> int:
    """A position in the log.

    Raises:
        ApiError: It is beyond the end (400).
    """
    last_seq = log.last_seq(app_id())
    if position > last_seq:
        raise beyond_log(name, position, last_seq)
    return position


def _websocket_channel(websockets: Websockets, application: str, status: int = 200) -> Response:
    state = websockets.state(application)
    if state is None:
        raise _no_websocket()
    word = "connected" if state.is_connected else "disconnected"
    return json_response({"status": word, "queue_size": state.waiting}, status)


def _no_websocket() -> ApiError:
    return ApiError(404, "this key has no websocket channel; a PUT here makes one")
