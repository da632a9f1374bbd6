"""SIGTERM during all kinds of work: the server ends soon and in order, loses nothing, and resumes when restarted."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from socket import create_connection

import httpx
import pytest
from process_receiver import CallbackServer, Message
from process_server import CALLS_THIS_MACHINE, Application, ServerProcess, decoded, encoded, wait_until
from process_websockets import CONNECT, closed
from resource_paths import LEVEL

pytestmark = pytest.mark.process

SOON_SECONDS = 30
"""A time below the duration of everything that is in flight."""


class SlowReceiver(CallbackServer):
    """A callback endpoint that responds when permitted, and stores the messages."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.go_on = threading.Event()

        def take(message: Message, _: object) -> int:
            if message:
                self.messages.append(message)
                self.go_on.wait(120)
            return 204

        super().__init__(take)

    def close(self) -> None:
        self.go_on.set()
        super().close()


@pytest.fixture
def receiver() -> Iterator[SlowReceiver]:
    made = SlowReceiver()
    yield made
    made.close()


def read_stream(application: Application) -> str:
    with application.http.stream("GET", "/v2/notification/events?after=0") as stream:
        return "".join(stream.iter_text())


def test_everything_under_way_ends_in_order_and_goes_on_after_the_next_start(start_server, receiver, sockets):
    server: ServerProcess = start_server("--simulate", "0", *CALLS_THIS_MACHINE)
    application, pushed = server.application(), server.application()
    registration = {"url": receiver.url, "serialization": {"type": "v2", "cfg": {"include_uid": True}}}
    assert pushed.http.put("/v2/notification/callback", json=registration).status_code == 204
    device_id = application.add_device("d", {"path": LEVEL, "value": "1", "writable": True, "observable": True})
    wait_until(lambda: receiver.messages, "a call of the webhook to be under way")
    application.patch_device(device_id, latency_seconds=120)
    assert application.write(device_id, LEVEL, "7", "under-way").status_code == 202
    last = int(application.poll(after="latest", hold=0).headers["Mirror-Cursor"])
    socket = sockets.open(server, application.key, path=f"{CONNECT}?after=latest")
    with ThreadPoolExecutor(12) as pool:
        polls = [pool.submit(application.poll, after=last, hold=50) for _ in range(10)]
        stream = pool.submit(read_stream, application)
        try:
            wait_until(lambda: "mirror_open_polls 12.0" in application.http.get("/metrics").text, "all to be open")
        finally:
            # The stream would never end by itself.
            began = time.monotonic()
            status = server.stop()

        assert status == 0
        assert time.monotonic() - began < SOON_SECONDS
        assert {poll.result(SOON_SECONDS).status_code for poll in polls} == {204}
        code, reason = closed(socket)
        assert (code, "the server stops" in reason) == (1001, True)
        assert "event: registrations" in stream.result(SOON_SECONDS)
    assert "Traceback" not in server.stderr
    assert "graceful shutdown exceeded" not in server.stderr
    server.child.close()
    receiver.go_on.set()
    server.start()
    wait_until(lambda: len(receiver.messages) > 1, "the call to be repeated")
    assert receiver.messages[1] == receiver.messages[0]
    application.patch_device(device_id, latency_seconds=0)
    server.stop()
    server.child.close()
    server.start()
    assert application.response("under-way")["status"] == 200
    with application.http.stream("GET", "/v2/notification/events", headers={"Last-Event-ID": str(last)}) as stream:
        assert f"id: {last + 1}" == next(line for line in stream.iter_lines() if line.startswith("id:"))
    assert decoded(application.resource(device_id, LEVEL)["desired"]["value"]) == "7"


def test_waiting_requests_get_their_202_and_stay_pending_after_the_next_start(start_server):
    server: ServerProcess = start_server("--simulate", "0")
    application = server.application()
    switch = {"path": LEVEL, "value": "1", "writable": True, "observable": True}
    devices = [application.add_device(f"d{number}", switch) for number in range(5)]
    for device_id in devices:
        application.patch_device(device_id, answer="silent")
    device_ids = {f"{number}-{device_id}": device_id for device_id in devices for number in range(10)}

    def write(async_id: str) -> httpx.Response:
        body = {"method": "PUT", "uri": LEVEL, "payload-b64": encoded("7")}
        path = f"/v2/device-requests/{device_ids[async_id]}?async-id={async_id}"
        return application.http.post(path, json=body, headers={"Prefer": "wait=10"})

    def waiting() -> set[str]:
        listed = application.json("GET", "/v2/device-requests", params={"limit": 1000})["data"]
        return {each["async_response_id"] for each in listed}

    with ThreadPoolExecutor(len(device_ids)) as pool:
        futures = [pool.submit(write, async_id) for async_id in device_ids]
        wait_until(lambda: waiting() == set(device_ids), "all to be accepted")
        assert server.stop() == 0
        for future in futures:
            found = future.result(SOON_SECONDS)
            assert (found.status_code, "async-response" in found.json()) == (202, False)
    assert "Traceback" not in server.stderr
    server.child.close()
    server.start()
    assert waiting() == set(device_ids)


def test_a_second_interrupt_ends_it_at_once(start_server):
    server: ServerProcess = start_server()
    key = server.key()
    with closing(create_connection(("127.0.0.1", server.port))) as half:
        half.sendall(
            f"PUT /v2/subscriptions HTTP/1.1\r\nAuthorization: Bearer {key}\r\nContent-Length: 9\r\n\r\n[".encode()
        )
        server.client(key).json("GET", "/v3/devices")
        server.child.send(signal.SIGINT)
        wait_until(lambda: "Shutting down" in server.stderr, "the first signal to be handled")
        server.child.send(signal.SIGINT)
        server.child.wait()
    assert "graceful shutdown exceeded" not in server.stderr, "it waited for the request"
