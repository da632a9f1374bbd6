"""A small HTTP server for the calls of a webhook."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from mirror_sdk._fork import close_in_child
from mirror_sdk.errors import ConfigError
from mirror_sdk.webhook.inbox import CallbackInbox

LARGEST_BODY_BYTES = 64 * 1024 * 1024


class WebhookReceiver(CallbackInbox):
    """A small HTTP server that receives webhook calls in a separate thread, until you close it.

    Use the receiver in a ``with`` statement, or call :meth:`close`. It belongs to the process that created it. In a
    child process, reading from it is an error, and closing it has no effect.

    Args:
        host: The address on which the server listens.
        port: The port on which the server listens. 0 selects a free port.
        public_url: The address at which the service calls the server. The default is an address with ``host`` and
            ``port``.

    Raises:
        ConfigError: The server cannot listen on the address.
    """

    def __init__(self, host: str = "127.0.0.1", port: int = 0, *, public_url: str | None = None) -> None:
        super().__init__()
        try:
            self._server = ThreadingHTTPServer((host, port), self._handler())
        except OSError as exc:
            raise ConfigError(
                f"cannot listen on {host}:{port}: {exc}; choose another port, or 0 for a free one"
            ) from exc
        self._server.daemon_threads = True
        self._is_forked = False
        self.url: str = public_url or f"http://{host}:{self._server.server_address[1]}/callback"
        # `shutdown` waits for the end of a polling interval, which by default is half a second.
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, name="mirror-webhook", daemon=True
        )
        self._thread.start()

    def _after_fork_in_child(self) -> None:
        """Close the socket in the child process, because only the parent process accepts connections."""
        super()._after_fork_in_child()
        self._is_forked = True
        if self._server.fileno() >= 0:
            close_in_child(self._server.fileno())

    def _has_more(self, after: int) -> bool:
        if self._is_forked:
            raise ConfigError(
                f"the webhook {self.url} belongs to the parent process, and only the parent receives its entries; read"
                " events in the parent, or create a client with another access key in this process"
            )
        return super()._has_more(after)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<WebhookReceiver {self.url}, {len(self._entries)} entries>"

    def close(self) -> None:
        """Stop listening for calls. The received entries remain available."""
        if self._is_forked:
            return
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        inbox = self

        class Handler(BaseHTTPRequestHandler):
            # Without a timeout, a client that sends nothing would occupy its thread forever.
            timeout = 30

            def do_PUT(self) -> None:
                length = self.headers.get("Content-Length", "")
                if not length.isdecimal() or int(length) > LARGEST_BODY_BYTES:
                    self._respond(411 if not length.isdecimal() else 413)
                    return
                self._respond(inbox.receive(self.rfile.read(int(length)), dict(self.headers)))

            def _respond(self, status: int) -> None:
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Write nothing, because a library should not write to stderr."""

        return Handler
