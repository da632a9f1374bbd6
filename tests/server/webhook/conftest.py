"""A server inside the test and an application's callback endpoint on loopback."""

import json
import queue
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from mirror_server import keys
from mirror_server.app import create_app
from mirror_server.config import Settings
from mirror_server.core.instants import Instant
from mirror_server.keys import Scope
from mirror_server.services import Services

PATIENCE_SECONDS = 10


class Endpoint:
    """An application's callback endpoint; ``statuses`` are given one by one, then 204."""

    def __init__(self) -> None:
        self.calls: queue.Queue[tuple[dict[str, str], Any]] = queue.Queue()
        self.statuses: list[int] = []
        self.release = threading.Event()
        self.release.set()
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_PUT(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                endpoint.release.wait(PATIENCE_SECONDS)
                status = endpoint.statuses.pop(0) if endpoint.statuses else 204
                endpoint.calls.put((dict(self.headers), json.loads(body)))
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", endpoint.url)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/callback"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def next(self) -> tuple[dict[str, str], Any]:
        """Headers and body of the next call."""
        return self.calls.get(timeout=PATIENCE_SECONDS)

    def close(self) -> None:
        self.release.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class Server:
    """A server on a file, which may be opened again."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.settings = Settings(
            database_url=f"sqlite:///{folder}/mirror.db",
            simulate=0,
            manual_clock=True,
            **{"callback_loopback": True, **settings},
        )
        self.open()

    def open(self) -> None:
        self.services = Services(self.settings)
        self.services.start()
        self._client: FlaskClient = create_app(self.services).test_client()

    def restart(self) -> None:
        self.services.close()
        self.open()

    def key(self) -> str:
        return keys.create(self.services.database, "test", tuple(Scope), self.now)

    @property
    def now(self) -> Instant:
        return self.services.clock.now()

    def call(self, key: str, method: str, path: str, **options: Any) -> Any:
        return self._client.open(path, method=method, headers={"Authorization": f"Bearer {key}"}, **options)

    def advance(self, key: str, seconds: float) -> None:
        assert self.call(key, "POST", "/sim/v1/clock", json={"advance_seconds": seconds}).status_code == 200

    def add_device(self, key: str, name: str) -> str:
        resources = [{"path": "/3303/0/5700", "value": "21.5", "observable": True}]
        body = {"endpoint_name": name, "resources": resources}
        device_id: str = self.call(key, "POST", "/sim/v1/devices", json=body).json["id"]
        return device_id

    def set_value(self, key: str, device_id: str, value: str) -> None:
        path = f"/sim/v1/devices/{device_id}/resources/3303/0/5700"
        assert self.call(key, "PUT", path, json={"value": value}).status_code == 204

    def channel(self, key: str) -> Any:
        return self.call(key, "GET", "/v2/notification/channel").json


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    running = Server(tmp_path)
    yield running
    running.services.close()


@pytest.fixture
def key(server: Server) -> str:
    return server.key()


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    running = Endpoint()
    yield running
    running.close()
