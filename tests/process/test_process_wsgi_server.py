"""The app under a threaded WSGI server of the standard library: plain WSGI, no event loop, no bridge."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import httpx
import pytest
from process_server import Application, decoded, wait_until

from mirror_server.config import Settings
from mirror_server.service import keys
from mirror_server.service.keys import Scope
from mirror_server.services import Services
from mirror_server.web.app import create_app

pytestmark = pytest.mark.process

SWITCH = "/3311/0/5850"


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


def hold_plain(pool: ThreadPoolExecutor, application: Application) -> Future[httpx.Response]:
    """A plain poll that is open for sure: others of its key are refused."""
    while True:
        held = pool.submit(application.poll, hold=55)
        wait_until(partial(open_or_answered, application, held), "the poll to be held")
        # It may have come while the other one that asks was open itself.
        if not held.done():
            return held


def open_or_answered(application: Application, held: Future[httpx.Response]) -> bool:
    return held.done() or application.poll(hold=0).status_code == 409


def test_requests_are_placed_answered_and_shown(application: Application) -> None:
    device_id = application.add_device("wsgi", {"path": SWITCH, "value": "0", "writable": True})

    assert application.write(device_id, SWITCH, "1", "wsgi-write").status_code == 202

    assert application.response("wsgi-write")["status"] == 200
    desired = application.resource(device_id, SWITCH)["desired"]
    assert (desired["status"], decoded(desired["value"])) == (1, "1")


def test_held_poll_is_answered_when_something_arrives_and_leaves_others_served(application: Application) -> None:
    device_id = application.add_device("wsgi", {"path": SWITCH, "value": "0", "writable": True})
    while application.poll(hold=0).status_code == 200:
        pass
    with ThreadPoolExecutor(1) as pool:
        held = hold_plain(pool, application)
        application.json("GET", f"/v3/devices/{device_id}/echo")
        assert not held.done()

        application.read(device_id, SWITCH, "wsgi-read")

        (response,) = held.result(30).json()["async-responses"]
    assert (response["id"], decoded(response["payload"])) == ("wsgi-read", "0")
    assert application.poll(hold=0).status_code == 204


def test_held_poll_ends_empty_when_its_time_is_over(application: Application) -> None:
    assert application.poll(after=0, hold=1).status_code == 204


def test_body_past_the_limit_is_413(application: Application) -> None:
    headers = {"Content-Type": "application/json"}
    answer = application.http.put("/v2/subscriptions", content=b" " * (1024 * 1024 + 1), headers=headers)

    assert answer.status_code == 413


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="open files are counted in /proc")
def test_a_thread_for_each_request_does_not_use_up_open_files(application: Application) -> None:
    def open_files() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    application.json("GET", "/v3/devices")
    before = open_files()
    for _ in range(50):
        application.json("GET", "/v3/devices")

    wait_until(lambda: open_files() < before + 20, "the files of ended requests to be closed")
