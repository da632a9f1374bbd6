"""An application's callback endpoint on loopback."""

import json
import queue
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from waits import PATIENCE_SECONDS


class Endpoint:
    """An application's callback endpoint, which responds with each of ``statuses``, then 204."""

    def __init__(self) -> None:
        self.calls: queue.Queue[tuple[dict[str, str], Any]] = queue.Queue()
        self.statuses: list[int] = []
        self.content_types: list[list[str]] = []
        self.endless = False
        self.keeps_open = True
        self.is_closing = False
        self.release = threading.Event()
        self.release.set()
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_PUT(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                endpoint.release.wait(PATIENCE_SECONDS)
                status = endpoint.statuses.pop(0) if endpoint.statuses else 200 if endpoint.endless else 204
                endpoint.content_types.append(self.headers.get_all("Content-Type") or [])
                endpoint.calls.put((dict(self.headers), json.loads(body)))
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", endpoint.url)
                if endpoint.endless:
                    self.send_endless()
                    return
                self.send_header("Content-Length", "0")
                if not endpoint.keeps_open:
                    self.send_header("Connection", "close")
                self.end_headers()

            def send_endless(self) -> None:
                self.close_connection = True
                self.send_header("Connection", "close")
                self.end_headers()
                with suppress(OSError):
                    while not endpoint.is_closing:
                        self.wfile.write(b" " * 65536)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/callback"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def next(self) -> tuple[dict[str, str], Any]:
        """Return headers and body of the next call."""
        return self.calls.get(timeout=PATIENCE_SECONDS)

    def close(self) -> None:
        self.is_closing = True
        self.release.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture(autouse=True)
def fast_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the minimum duration of failures, except in its own test."""
    monkeypatch.setattr("mirror_server.notifications.webhooks._FAILED_CALL_SECONDS", 0)


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    running = Endpoint()
    yield running
    running.close()
