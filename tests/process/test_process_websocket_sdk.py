"""The SDK's websockets against a real server: events, responses and gaps as with long polling, and failures."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest
from forked import Forked
from process_server import PATIENCE_SECONDS, Application, ServerProcess, wait_until

from mirror_sdk import AsyncMirrorClient, MirrorClient
from mirror_sdk.errors import (
    AuthenticationError,
    InvalidValue,
    MirrorError,
    NotFound,
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
        made.notifications.use_websocket()
        yield made


def open_polls(application: Application) -> int:
    lines = application.http.get("/metrics").text.splitlines()
    return int(float(next(line for line in lines if line.startswith("mirror_open_polls ")).split()[1]))


def test_responses_and_events_arrive_by_websocket(client, application, device):
    assert client.notifications.status().channel == "websocket"
    assert "by websocket" in repr(client.notifications.status())
    events = client.events(timeout=PATIENCE_SECONDS, limit=3)
    client.subscribe(device, TEXT)
    for value in ("1", "2"):
        client.write_value(device, TEXT, value)
    assert client.read_value(device, TEXT) == "2"
    found = list(events)
    assert [event.seq for event in found] == sorted({event.seq for event in found})
    uids = {entry["seq"]: entry["uid"] for _, entry in application.entries()}
    assert [event.uid for event in found] == [uids[event.seq] for event in found if event.seq]


def test_responses_and_events_arrive_by_websocket_on_a_loop(shared_server, application, device):
    async def act() -> tuple[object, list[Any]]:
        async with AsyncMirrorClient(shared_server.url, application.key, timeout=PATIENCE_SECONDS) as client:
            await client.notifications.use_websocket()
            assert client.notifications.status().channel == "websocket"
            async with client.events(timeout=PATIENCE_SECONDS, limit=2) as events:
                await client.subscribe(device, TEXT)
                writes = [client.write_value(device, TEXT, str(number)) for number in range(5)]
                await asyncio.gather(*writes)
                return await client.read_value(device, TEXT), [event async for event in events]

    value, found = asyncio.run(act())
    assert value in {"0", "1", "2", "3", "4"}
    assert len(found) == 2


def test_watch_and_recording_read_by_websocket(client, application, device, tmp_path):
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
        for _ in range(3):
            # Readers that are garbage-collected close their websockets.
            assert list(client.events(timeout=0.1)) == []
    assert recorder.audit().complete
    client.close()
    wait_until(lambda: open_polls(application) == 0, "the websockets to be closed")


def test_kill_of_the_server_loses_nothing(start_server):
    server: ServerProcess = start_server("--simulate", "0")
    application = server.application()
    resource = {"path": TEXT, "value": "0", "writable": True, "observable": True}
    device = application.add_device("killed", resource)
    with MirrorClient(server.url, application.key, timeout=PATIENCE_SECONDS) as client:
        client.notifications.use_websocket()
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


def test_wrong_key_is_reported_without_a_fallback(shared_server):
    with MirrorClient(shared_server.url, "ak_0000000000000000_" + "a" * 43) as client:
        with pytest.raises(AuthenticationError):
            client.notifications.use_websocket()
        assert client.notifications.status().channel == "long polling"


def test_child_process_has_websockets_of_its_own(client, application, device):
    events = client.events(timeout=PATIENCE_SECONDS, limit=1, paths=[TEXT])
    client.subscribe(device, TEXT)
    assert client.read_value(device, TEXT) == "0"

    def act() -> object:
        return [
            client.read_value(device, TEXT),
            [event.value.python for event in events],
            client.notifications.status().channel,
        ]

    assert Forked(act).result() == ["0", ["0"], "websocket"]
    client.write_value(device, TEXT, "1")
    assert [event.value.python for event in events] == ["0"]
    assert client.notifications.status().last_failure is None


class OlderService(BaseHTTPRequestHandler):
    """An older service, which has a log and no websockets."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        is_poll = self.path.startswith("/v2/notification/pull")
        self.send_response(204 if is_poll else self.server.other_status)  # type: ignore[attr-defined]
        if is_poll:
            self.send_header("Mirror-Cursor", "0")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.mark.parametrize(("status", "error"), [(404, NotFound), (426, MirrorError)])
def test_service_without_websockets_is_reported_without_a_fallback(status, error):
    server = ThreadingHTTPServer(("127.0.0.1", 0), OlderService)
    server.other_status = status  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with MirrorClient(f"http://127.0.0.1:{server.server_port}", "key") as client:
            with pytest.raises(error, match="in between to forward websockets, or use long polling"):
                client.notifications.use_websocket()
            assert client.notifications.status().channel == "long polling"
    finally:
        server.shutdown()
        server.server_close()


def test_custom_transport_is_rejected():
    transport = httpx.MockTransport(lambda _: httpx.Response(204))
    with (
        MirrorClient("http://mirror", "key", transport=transport) as client,
        pytest.raises(InvalidValue, match="transport="),
    ):
        client.notifications.use_websocket()
