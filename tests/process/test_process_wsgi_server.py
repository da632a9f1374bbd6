"""The app under a threaded WSGI server of the standard library: plain WSGI, no event loop, no bridge."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import pytest
from process_server import Application, wait_until

from mirror_server.config import Settings
from mirror_server.service import keys
from mirror_server.service.keys import Scope
from mirror_server.services import Services
from mirror_server.web.app import create_app

pytestmark = pytest.mark.process


class ThreadedServer(ThreadingMixIn, WSGIServer):
    pass


class QuietHandler(WSGIRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def application(tmp_path: Path) -> Iterator[Application]:
    services = Services(Settings(database_url=f"sqlite:///{tmp_path / 'mirror.db'}", simulate=0))
    services.start()
    server = make_server("127.0.0.1", 0, create_app(services), ThreadedServer, QuietHandler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    client = Application(
        f"http://127.0.0.1:{server.server_port}", keys.create(services.database, "wsgi", tuple(Scope), 0)
    )
    try:
        yield client
    finally:
        client.http.close()
        server.shutdown()
        thread.join()
        server.server_close()
        services.close()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="open files are counted in /proc")
def test_a_thread_for_each_request_does_not_use_up_open_files(application: Application) -> None:
    def open_files() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    application.json("GET", "/v3/devices")
    before = open_files()
    for _ in range(50):
        application.json("GET", "/v3/devices")

    wait_until(lambda: open_files() < before + 20, "the files of ended requests to be closed")
