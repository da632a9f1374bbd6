"""The SDK's websockets, against a real server: events, answers and gaps as by long polling, and what may fail."""

from __future__ import annotations

import asyncio
import selectors
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest
from forked import Forked
from process_server import PATIENCE_SECONDS, Application, ServerProcess, run_command, wait_until

from mirror_sdk import AsyncMirrorClient, MirrorClient
from mirror_sdk.errors import (
    AccessDenied,
    AuthenticationError,
    CallTimeout,
    ConnectionFailed,
    GapWarning,
    MirrorError,
    NotFound,
    UnexpectedAnswer,
    ValueRefused,
)

pytestmark = pytest.mark.process

TEXT = "/3341/0/5527"


@pytest.fixture
def device(application: Application) -> str:
    resource = {"path": TEXT, "value": "0", "writable": True, "observable": True}
    return application.add_device(f"of-{application.key[3:19]}", resource)


@pytest.fixture
def client(shared_server: ServerProcess, application: Application) -> Iterator[MirrorClient]:
    with MirrorClient(shared_server.url, application.key, timeout=PATIENCE_SECONDS) as made:
        made.use_websocket()
        yield made


def open_polls(application: Application) -> int:
    lines = application.http.get("/metrics").text.splitlines()
    return int(float(next(line for line in lines if line.startswith("mirror_open_polls ")).split()[1]))


def test_answers_and_events_come_by_websocket(client: MirrorClient, application: Application, device: str) -> None:
    assert client.status().channel == "websocket"
    assert "by websocket" in repr(client.status())
    events = client.events(timeout=PATIENCE_SECONDS, limit=3)
    client.subscribe(device, TEXT)
    for value in ("1", "2"):
        client.write_value(device, TEXT, value)
    assert client.read_value(device, TEXT) == "2"
    found = list(events)
    assert [event.seq for event in found] == sorted({event.seq for event in found})
    uids = {entry["seq"]: entry["uid"] for _, entry in application.entries()}
    assert [event.uid for event in found] == [uids[event.seq] for event in found if event.seq]


def test_answers_and_events_come_by_websocket_on_a_loop(
    shared_server: ServerProcess, application: Application, device: str
) -> None:
    async def act() -> tuple[object, list[Any]]:
        async with AsyncMirrorClient(shared_server.url, application.key, timeout=PATIENCE_SECONDS) as client:
            await client.use_websocket()
            assert client.status().channel == "websocket"
            async with client.events(timeout=PATIENCE_SECONDS, limit=2) as events:
                await client.subscribe(device, TEXT)
                writes = [client.write_value(device, TEXT, str(number)) for number in range(5)]
                await asyncio.gather(*writes)
                return await client.read_value(device, TEXT), [event async for event in events]

    value, found = asyncio.run(act())
    assert value in {"0", "1", "2", "3", "4"}
    assert len(found) == 2


def test_watch_and_recording_read_by_websocket(
    client: MirrorClient, application: Application, device: str, tmp_path: Any
) -> None:
    seen: list[object] = []
    with (
        client.watch(lambda event: seen.append(event.value and event.value.python)),
        client.record(tmp_path / "run") as recorder,
    ):
        client.subscribe(device, TEXT)
        client.write_value(device, TEXT, "7")
        wait_until(lambda: "7" in seen, "the event to be seen")
        wait_until(lambda: recorder.events > 0, "the event to be recorded")
        assert open_polls(application) >= 2
    assert recorder.audit().complete


def test_closing_the_client_closes_its_websockets(shared_server: ServerProcess, application: Application) -> None:
    # The server may not have seen yet that those of other tests are gone.
    wait_until(lambda: open_polls(application) == 0, "no websocket to be open")
    client = MirrorClient(shared_server.url, application.key)
    client.use_websocket()
    events = client.events(timeout=0)
    assert list(events) == []
    assert open_polls(application) > 0
    client.close()
    wait_until(lambda: open_polls(application) == 0, "the websockets to be closed")


def test_readers_that_are_thrown_away_end_their_websockets(client: MirrorClient, application: Application) -> None:
    wait_until(lambda: open_polls(application) == 1, "the websocket of the answers alone")
    for _ in range(5):
        list(client.events(timeout=0.1))
    wait_until(lambda: open_polls(application) == 1, "those of the events to be gone")


def test_kill_of_the_server_loses_nothing(start_server: Any) -> None:
    server: ServerProcess = start_server("--simulate", "0")
    application = server.application()
    resource = {"path": TEXT, "value": "0", "writable": True, "observable": True}
    device = application.add_device("killed", resource)
    with MirrorClient(server.url, application.key, timeout=PATIENCE_SECONDS) as client:
        client.use_websocket()
        events = client.events(timeout=PATIENCE_SECONDS, limit=21, paths=[TEXT])
        client.subscribe(device, TEXT)
        for number in range(1, 21):
            client.write_value(device, TEXT, str(number))
            if number == 10:
                first = [next(events) for _ in range(5)]
                server.kill()
                server.start()
        found = [*first, *events]
    assert [event.value.python for event in found] == [str(number) for number in range(21)]


def test_gap_is_told_as_by_polls(start_server: Any) -> None:
    server: ServerProcess = start_server("--simulate", "0", "--keep-log-bytes", "10000")
    application = server.application()
    device = application.add_device("gap", {"path": TEXT, "value": "0", "writable": True, "observable": True})
    with MirrorClient(server.url, application.key, timeout=PATIENCE_SECONDS) as client:
        client.use_websocket()
        for number in range(80):
            client.write_value(device, TEXT, f"{number}".zfill(300))
        with pytest.warns(GapWarning, match="entries of the notification log are gone"):
            next(client.events(after=0, timeout=PATIENCE_SECONDS))


def test_wrong_key_is_told_and_nothing_falls_back(shared_server: ServerProcess) -> None:
    with MirrorClient(shared_server.url, "ak_0000000000000000_" + "a" * 43) as client:
        with pytest.raises(AuthenticationError):
            client.use_websocket()
        assert client.status().channel == "long polling"


def test_key_that_is_revoked_ends_the_reading(start_server: Any) -> None:
    server: ServerProcess = start_server("--websocket-ping-seconds", "0.2")
    application = server.application()
    with MirrorClient(server.url, application.key, timeout=PATIENCE_SECONDS) as client:
        client.use_websocket()
        events = client.events(timeout=PATIENCE_SECONDS)
        key_id = application.key.split("_")[1]
        assert run_command("keys", "revoke", key_id, "--database", server.database_url).returncode == 0
        with pytest.raises(MirrorError, match="revoked") as caught:
            list(events)
        assert isinstance(caught.value, AuthenticationError)
        assert application.key not in repr(caught.value)


def test_child_process_has_websockets_of_its_own(client: MirrorClient, application: Application, device: str) -> None:
    events = client.events(timeout=PATIENCE_SECONDS, limit=1, paths=[TEXT])
    client.subscribe(device, TEXT)
    assert client.read_value(device, TEXT) == "0"

    def act() -> object:
        return [client.read_value(device, TEXT), [event.value.python for event in events], client.status().channel]

    assert Forked(act).result() == ["0", ["0"], "websocket"]
    client.write_value(device, TEXT, "1")
    assert [event.value.python for event in events] == ["0"]
    assert client.status().last_failure is None


class Older(BaseHTTPRequestHandler):
    """A service that has a log and no websockets."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        is_poll = self.path.startswith("/v2/notification/pull")
        self.send_response(204 if is_poll else self.server.other_status)  # type: ignore[attr-defined]
        if is_poll:
            self.send_header("Mirror-Cursor", "0")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.mark.parametrize(
    ("status", "error"), [(404, NotFound), (403, AccessDenied), (426, MirrorError), (200, UnexpectedAnswer)]
)
def test_service_without_websockets_is_told_and_nothing_falls_back(status: int, error: type[MirrorError]) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Older)
    server.other_status = status  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with MirrorClient(f"http://127.0.0.1:{server.server_port}", "key") as client:
            with pytest.raises(error, match="proxy, pass websockets on, or read by long polling"):
                client.use_websocket()
            assert client.status().channel == "long polling"
    finally:
        server.shutdown()
        server.server_close()


def test_transport_of_its_own_is_refused() -> None:
    transport = httpx.MockTransport(lambda _: httpx.Response(204))
    with (
        MirrorClient("http://mirror", "key", transport=transport) as client,
        pytest.raises(ValueRefused, match="transport="),
    ):
        client.use_websocket()


class CuttingProxy:
    """A proxy on the way that ends each poll that is held for more than half a second, and lets websockets be."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.cut = 0
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._carry, args=(near,), daemon=True).start()

    def _carry(self, near: socket.socket) -> None:
        # Either side may reset it.
        with suppress(ConnectionError):
            self._carry_on(near)

    def _carry_on(self, near: socket.socket) -> None:
        is_held = False
        with near, socket.create_connection(("127.0.0.1", self._port)) as far, selectors.DefaultSelector() as ready:
            ready.register(near, selectors.EVENT_READ, far)
            ready.register(far, selectors.EVENT_READ, near)
            while found := ready.select(0.5 if is_held else None):
                for key, _ in found:
                    chunk = key.fileobj.recv(65536)  # type: ignore[union-attr]
                    if not chunk:
                        return
                    if key.fileobj is near:
                        # What is to be answered at once may take its time, on a machine that is slow.
                        is_held = b"/v2/notification/pull?" in chunk and b"hold=0" not in chunk
                    key.data.sendall(chunk)
            self.cut += 1

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


def test_websocket_passes_where_a_proxy_cuts_long_polls(
    shared_server: ServerProcess, application: Application, device: str
) -> None:
    with closing(CuttingProxy(shared_server.port)) as proxy, ExitStack() as opened:
        client = opened.enter_context(MirrorClient(proxy.url, application.key, timeout=PATIENCE_SECONDS))
        client.use_websocket()
        events = client.events(timeout=PATIENCE_SECONDS, limit=2, paths=[TEXT])
        timer = threading.Timer(2, lambda: application.json("PUT", f"/v2/subscriptions/{device}{TEXT}"))
        timer.start()
        begun = next(events)
        timer.join()
        assert begun.value.python == "0"
        assert client.status().last_failure is None
        assert client.status().channel == "websocket"


def test_handshake_that_does_not_end_ends_in_the_time_it_is_given() -> None:
    class Silent(Older):
        def do_GET(self) -> None:
            if self.path.startswith("/v2/notification/pull"):
                super().do_GET()
            else:
                may_end.wait(PATIENCE_SECONDS)

    may_end = threading.Event()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Silent)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        url = f"http://127.0.0.1:{server.server_port}"
        with MirrorClient(url, "key", timeout=60) as client, pytest.raises(CallTimeout, match="timeout=0"):
            client.use_websocket(timeout=0.5)
    finally:
        may_end.set()
        server.shutdown()
        server.server_close()


def test_server_that_is_not_there_is_told() -> None:
    with MirrorClient("http://127.0.0.1:1", "key", timeout=5) as client, pytest.raises(ConnectionFailed):
        client.use_websocket()
