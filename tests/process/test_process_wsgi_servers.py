"""The app under gunicorn and waitress: real processes, a bounded number of polls, an orderly shutdown."""

from __future__ import annotations

import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import databases
import httpx
import pytest
from process_server import (
    PATIENCE_SECONDS,
    Application,
    child_environment,
    decoded,
    run_python,
    wait_until,
    wait_until_quick,
)
from resource_paths import LEVEL

from mirror_server.hooks import open_database, read_settings
from mirror_server.server import Services
from mirror_server.service import keys
from mirror_server.service.keys import Scope
from mirror_server.store.database import location_of
from mirror_server.web.flask_app import create_app

pytestmark = pytest.mark.process

MOST = 3
BEFORE_THE_END_SECONDS = 30
"""A time below the hold of a poll, so nothing within it is caused by the end of the hold."""
BEFORE_A_HEARTBEAT_SECONDS = 10
"""Code that returns whether a write to the stream fails because the client has disconnected."""
APP = "mirror_server.extensions.wsgi.app"
COMMANDS = {
    "gunicorn": f"gunicorn --threads 8 --bind 127.0.0.1:0 --graceful-timeout 5 {APP}:create()",
    "workers": f"gunicorn --workers 3 --threads 8 --bind 127.0.0.1:0 --graceful-timeout 5 {APP}:create()",
    "waitress": f"waitress --threads 8 --listen 127.0.0.1:0 --call {APP}:create",
}


class WsgiProcess:
    """A WSGI server on a database. Its log contains its address."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.database_url = databases.new_database_url(folder)
        self.log_path = folder / "log.txt"
        self.url = ""

    def start(self) -> None:
        variables = {
            "MIRROR_DATABASE": self.database_url,
            "MIRROR_SIMULATE": "0",
            "MIRROR_MAX_BLOCKING_POLLS": str(MOST),
            "MIRROR_POLL_SHARE": "1",
            "MIRROR_MAX_BODY_BYTES": "10000",
            "PYTHONUNBUFFERED": "1",
        }
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *COMMANDS[self.name].split()],
                env=child_environment(**variables),
                stdout=log,
                stderr=log,
            )
        found = wait_until(lambda: re.search(r"http://127\.0\.0\.1:\d+", self.log_path.read_text()), "an address")
        self.url = found[0]
        wait_until(self._responds, f"a response; it says: {self.log_path.read_text()}")

    def _responds(self) -> bool:
        assert self.process.poll() is None, self.log_path.read_text()
        try:
            return httpx.get(f"{self.url}/readyz", timeout=PATIENCE_SECONDS, trust_env=False).status_code == 200
        except httpx.TransportError:
            return False

    def key(self) -> str:
        database = open_database(self.database_url)
        try:
            return keys.create(database, "test", tuple(Scope), 0)
        finally:
            database.close()

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_SECONDS)


@pytest.fixture(scope="module", params=["gunicorn", "waitress"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WsgiProcess]:
    running = WsgiProcess(request.param, tmp_path_factory.mktemp(request.param))
    running.start()
    yield running
    if running.process.poll() is None:
        running.stop()


@pytest.fixture
def application(server: WsgiProcess) -> Iterator[Callable[[], Application]]:
    made: list[Application] = []

    def make() -> Application:
        made.append(Application(server.url, server.key()))
        return made[-1]

    yield make
    for each in made:
        each.http.close()


def test_the_flows_of_the_specification_work(server, application):
    app = application()
    device = app.add_device(app.key.split("_")[1], {"path": LEVEL, "value": "1", "writable": True, "observable": True})
    assert app.http.put(f"/v2/subscriptions/{device}{LEVEL}").status_code == 200
    assert app.write(device, LEVEL, "7", "w").status_code == 202
    assert app.response("w")["status"] == 200
    assert decoded(app.resource(device, LEVEL)["desired"]["value"]) == "7"
    assert app.resource(device, LEVEL)["subscribed"] is True
    with app.http.stream("GET", "/v2/notification/events?after=0") as stream:
        seen = ""
        for text in stream.iter_text():
            seen += text
            if "async-responses" in seen:
                break
    assert "id: 1\n" in seen


def test_websocket_and_too_large_body_are_rejected(server, application):
    app = application()
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    rejected = app.http.get(
        "/v2/notification/websocket-connect", headers={**upgrade, "Sec-WebSocket-Key": "MDEyMzQ1Njc4OWFiY2RlZg=="}
    )
    assert rejected.status_code == 426
    assert "must be started with 'mirror-server run'" in rejected.json()["message"]
    channel = app.http.put("/v2/notification/websocket")
    if not location_of(server.database_url).is_file:
        # Another process may open the database.
        assert channel.status_code == 201
        app.json("DELETE", "/v2/notification/websocket")
    else:
        assert channel.status_code == 400
        assert "not started by 'mirror-server run'; poll" in channel.json()["message"]
    assert app.poll(after=0, hold=0).status_code == 204
    body = b" " * 10_001
    for content in (body, iter([body])):
        answer = app.http.put("/v2/subscriptions", content=content, headers={"Content-Type": "application/json"})
        assert answer.status_code == 413, answer.text
    assert app.json("GET", "/v2/subscriptions") == []


def test_polls_are_limited_and_do_not_block_the_device_object(server, application):
    app = application()
    device = app.add_device(app.key.split("_")[1], {"path": LEVEL, "value": "1", "writable": True, "observable": True})
    after = int(app.http.get("/v2/notification/pull?after=latest&hold=0").headers["Mirror-Cursor"])
    with ThreadPoolExecutor(MOST) as pool:
        pending_polls = [pool.submit(app.poll, after=after, hold=55) for _ in range(MOST)]
        wait_until(lambda: f"mirror_open_polls {MOST}.0" in app.http.get("/metrics").text, "all polls to be open")
        wait_until_quick(lambda: [app.json("GET", f"/v3/devices/{device}/echo") for _ in range(20)], 1)
        assert not any(poll.done() for poll in pending_polls)
        rejected = app.poll(after=after, hold=5)
        assert (rejected.status_code, rejected.json()["reason"]) == (429, "TOO_MANY_POLLS")
        assert int(rejected.headers["Retry-After"]) > 0
        app.read(device, LEVEL, "wake")
        assert [poll.result(BEFORE_THE_END_SECONDS).status_code for poll in pending_polls] == [200] * MOST
    assert app.poll(after=after, hold=0).status_code == 200


def hang_up(server: WsgiProcess, application: Application, path: str, count: int) -> None:
    """Send requests that wait, and close their connections when they do."""
    raw_request = f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {application.key}\r\n\r\n"
    address = ("127.0.0.1", int(server.url.rpartition(":")[2]))
    connections = [socket.create_connection(address, timeout=PATIENCE_SECONDS) for _ in range(count)]
    for connection in connections:
        connection.sendall(raw_request.encode())
    wait_until(lambda: open_polls(application) == count, "all polls to be open")
    for connection in connections:
        connection.close()


def open_polls(application: Application) -> int:
    found = re.search(r"mirror_open_polls (\d+)", application.http.get("/metrics").text)
    assert found
    return int(found[1])


def test_disconnected_clients_free_their_slots_at_once(server, application):
    app = application()
    for path in ("pull?after=latest&hold=55", "events"):
        hang_up(server, app, f"/v2/notification/{path}", MOST)
        wait_until(lambda: open_polls(app) == 0, "the places", BEFORE_A_HEARTBEAT_SECONDS)
    assert app.poll(after="latest", hold=1).status_code == 204


def test_events_after_a_disconnect_are_for_the_next_plain_poll(server, application):
    app = application()
    device = app.add_device(app.key.split("_")[1], {"path": LEVEL, "value": "1"})
    while app.poll(hold=0).status_code == 200:
        pass
    hang_up(server, app, "/v2/notification/pull?hold=55", 1)
    app.read(device, LEVEL, "r")

    def next_response() -> httpx.Response | None:
        answer = app.poll(hold=5)
        # Until the server detects the disconnect, the first poll is open.
        return None if answer.status_code == 409 else answer

    answer = wait_until(next_response, "the place", BEFORE_THE_END_SECONDS)
    assert [each["id"] for each in answer.json()["async-responses"]] == ["r"]


def test_sigterm_ends_it_in_order_and_a_restart_goes_on(server, application):
    app = application()
    device = app.add_device(app.key.split("_")[1], {"path": LEVEL, "value": "1", "writable": True})
    app.patch_device(device, online=False)
    assert app.write(device, LEVEL, "7", "w").status_code == 202
    with ThreadPoolExecutor(2) as pool:
        pending_poll = pool.submit(app.poll, after="latest", hold=55)
        stream = pool.submit(app.http.get, "/v2/notification/events", timeout=60)
        wait_until(lambda: open_polls(app) == 2, "the poll and the stream to be open")
        began = time.monotonic()
        assert server.stop() == 0, server.log_path.read_text()
        assert time.monotonic() - began < BEFORE_THE_END_SECONDS
        assert pending_poll.result(PATIENCE_SECONDS).status_code == 204
        assert stream.result(PATIENCE_SECONDS).status_code == 200
    assert "Traceback" not in server.log_path.read_text()
    server.start()
    again = Application(server.url, app.key)
    again.patch_device(device, online=True)
    assert again.response("w")["status"] == 200
    again.http.close()


def run_program(program: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return run_python(*shlex.split(program), env=child_environment(**variables))


@pytest.mark.parametrize(
    ("option", "words"), [("--workers=2", ["--workers 1", "PostgreSQL"]), ("--preload", ["without --preload"])]
)
@pytest.mark.sqlite
def test_gunicorn_ends_with_the_reason_where_it_cannot_be_served(tmp_path, option, words):
    database = f"sqlite:///{tmp_path / 'mirror.db'}"
    ended = run_program(f"-m {COMMANDS['gunicorn']} {option}", MIRROR_DATABASE=database)
    assert ended.returncode == 3, ended.stderr
    (line,) = [line for line in ended.stderr.splitlines() if line.startswith("Error: ")]
    assert all(word in line for word in words)
    assert "Traceback" not in ended.stderr


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are counted in /proc")
def test_a_thread_for_each_request_does_not_use_up_open_files(tmp_path):
    def open_files() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    with closing(Services(read_settings(database_url=databases.new_database_url(tmp_path), simulate=0))) as services:
        services.start()
        client = create_app(services).test_client()
        headers = {"Authorization": f"Bearer {keys.create(services.database, 'test', tuple(Scope), 0)}"}
        before = open_files()
        for _ in range(50):
            with ThreadPoolExecutor(1) as thread:
                assert thread.submit(client.get, "/v3/devices", headers=headers).result().status_code == 200
        wait_until(lambda: open_files() < before + 20, "the files of ended requests to be closed")
