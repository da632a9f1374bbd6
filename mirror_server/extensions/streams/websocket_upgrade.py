"""The upgrade of connections to websockets, with the handshake and its authentication."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

import orjson
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from mirror_sdk.wire.routes import WEBSOCKET_CONNECT, unversioned
from mirror_server.extensions.streams.reader_websockets import POLICY, UNEXPECTED, Closing
from mirror_server.extensions.streams.settings import StreamSettings
from mirror_server.extensions.streams.views import OPEN, OpenedWebsocket
from mirror_server.extensions.streams.websocket_serving import close, serve
from mirror_server.hooks import Measurement
from mirror_server.server import Services
from mirror_server.web.asgi_bridge import ASGIBridge
from mirror_server.web.serve import Upgrade
from mirror_server.web.wsgi_adapter import Message, Receive, Send, WSGIResponse, environ_of

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

_PATHS = frozenset(path.encode() for path in (WEBSOCKET_CONNECT, unversioned(WEBSOCKET_CONNECT)) if path)
_KEY = re.compile(rb"[A-Za-z0-9+/]{22}==")
_KEY_PREFIX = "pelion_"
_PROTOCOL = "wss"
_CLOSED_BY = {401: POLICY, 403: POLICY, 404: UNEXPECTED}


class WebsocketUpgrade:
    """Upgrades connections to websockets; see :data:`~mirror_server.web.serve.Upgrade`.

    Args:
        services: The services of the server.
        bridge: The bridge that calls the app, which decides who may open a websocket.
    """

    def __init__(self, services: Services, bridge: ASGIBridge) -> None:
        self._settings = services.settings
        self._bridge = bridge
        self._open = 0
        services.gauges.append(lambda: [Measurement("mirror_open_websockets", "Websockets of clients.", self._open)])

    def __call__(self, connection: HttpToolsProtocol) -> Callable[[bytes], None] | None:
        """Return a function that upgrades the connection, or ``None`` if the request is not a websocket handshake.

        Raises:
            ApiError: The handshake is too large or invalid (400, 414 or 431).
        """
        if not _is_handshake(connection):
            return None
        # Imported only when needed, because the import is slow and most servers open no websocket.
        from mirror_server.extensions.streams.websocket_connection import BoundedWebsocket  # noqa: PLC0415

        websocket = BoundedWebsocket(connection, self._serve, self._settings)
        head = [b"GET " + connection.url + b" HTTP/1.1", *(b"%b: %b" % header for header in connection.headers)]
        handshake = websocket.read_head(b"\r\n".join([*head, b"", b""]))

        def take_over(rest: bytes) -> None:
            websocket.connection_made(connection.transport)
            connection.transport.set_protocol(websocket)
            websocket.handle_connect(handshake)
            if rest:
                websocket.data_received(rest)

        return take_over

    async def _serve(self, scope: Message, _: Receive, send: Send) -> None:
        """Serve a websocket as an ASGI app, starting with the handshake."""
        environ = _environ_of(scope)
        unfinished = self._bridge.prepare(environ)
        response = self._bridge.call_app(environ)
        try:
            opened = unfinished.response
            if not isinstance(opened, OpenedWebsocket):
                await _reject(scope, response, send)
                return
            await _accept(scope, response, send)
            self._open += 1
            try:
                await serve(
                    scope,
                    opened.socket,
                    self._bridge.reader(environ, send),
                    send,
                    check_seconds=self._settings.of(StreamSettings).websocket_ping_seconds,
                    is_stopping=self._bridge.stopping,
                    loop_calls=self._bridge.loop_calls,
                )
            finally:
                self._open -= 1
        finally:
            unfinished.release()


class UpgradableConnection(HttpToolsProtocol):
    """A uvicorn connection that can become a websocket. It is used unless an extension provides another class."""

    _take_over: Callable[[bytes], None] | None = None

    def on_headers_complete(self) -> None:
        """Check whether the request is a websocket handshake; called by the parser."""
        # An upgrade is not possible while an earlier request of the connection still gets its response.
        if self.parser.should_upgrade() and getattr(self.cycle, "response_complete", True):
            self._take_over = cast("Upgrade", self.ws_protocol_class)(self)
        super().on_headers_complete()

    def _should_upgrade(self) -> bool:
        return self._take_over is not None

    def handle_websocket_upgrade(self) -> None:
        """Upgrade the connection; called by uvicorn after the head of the request was read."""
        self.connections.discard(self)
        if self._take_over is not None:
            self._take_over(b"")


def _is_handshake(connection: HttpToolsProtocol) -> bool:
    """Return whether the request is a websocket handshake. The app decides later whether to accept it."""
    headers = dict(connection.headers)
    return (
        (connection.parser.get_method(), connection.parser.get_http_version()) == (b"GET", "1.1")
        and connection.url.partition(b"?")[0].rstrip(b"/") in _PATHS
        and headers.get(b"upgrade", b"").lower() == b"websocket"
        and headers.get(b"sec-websocket-version") == b"13"
        and _KEY.fullmatch(headers.get(b"sec-websocket-key", b"")) is not None
        and b"transfer-encoding" not in headers
        and headers.get(b"content-length", b"0") == b"0"
    )


def _environ_of(scope: Message) -> WSGIEnvironment:
    """Return the WSGI environment of a handshake. The key is read from the offered protocols if no header has it."""
    environ = environ_of({**scope, "method": "GET", "scheme": "https" if scope["scheme"] == "wss" else "http"})
    environ.pop("HTTP_UPGRADE", None)
    environ[OPEN] = True
    offered = environ.pop("HTTP_SEC_WEBSOCKET_PROTOCOL", None)
    if "HTTP_AUTHORIZATION" not in environ and offered is not None:
        for protocol in scope["subprotocols"]:
            if protocol.startswith(_KEY_PREFIX):
                environ["HTTP_AUTHORIZATION"] = f"Bearer {protocol.removeprefix(_KEY_PREFIX)}"
    return environ


async def _accept(scope: Message, response: WSGIResponse, send: Send) -> None:
    protocol = _PROTOCOL if _PROTOCOL in scope["subprotocols"] else None
    headers = [(name, value) for name, value in response.headers if name not in {b"content-length", b"content-type"}]
    await send({"type": "websocket.accept", "subprotocol": protocol, "headers": headers})


async def _reject(scope: Message, response: WSGIResponse, send: Send) -> None:
    """Reject a handshake.

    If the key is invalid or the channel does not exist, the websocket is opened and then closed with a code. Clients of
    the public API check that code, and browsers report only that code to a page.
    """
    code = _CLOSED_BY.get(response.status)
    if code is None:
        await send({"type": "websocket.http.response.start", "status": response.status, "headers": response.headers})
        await send({"type": "websocket.http.response.body", "body": response.body})
        return
    message = orjson.loads(response.body)["message"]
    if "HTTP_AUTHORIZATION" not in _environ_of(scope):  # a browser could not send the header
        message += f", or offer the protocols '{_PROTOCOL}, {_KEY_PREFIX}<key>'"
    await _accept(scope, WSGIResponse(), send)
    await close(Closing(code, message), send)
