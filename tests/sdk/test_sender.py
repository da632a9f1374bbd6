"""Operations over HTTP: requests, retries, and errors."""

import traceback

import httpcore
import httpx
import pytest

from mirror_sdk._protocol import network_streams
from mirror_sdk._protocol import operations as ops
from mirror_sdk._protocol.sender import Sender
from mirror_sdk.config import ClientSettings
from mirror_sdk.errors import ConnectionFailed, NotFound

KEY = "ak_0123_secret"
REQUEST = ops.submit_device_request("d1", "a1", method="GET", path="/3303/0/5700")


class Service:
    """A service that responds with the steps of a script, and stores the requests."""

    def __init__(self, *script: httpx.Response | Exception) -> None:
        self.script = list(script)
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        step = self.script.pop(0)
        if isinstance(step, Exception):
            raise step
        return step


def sender(service: Service) -> Sender:
    return Sender(
        ClientSettings.of("https://mirror.example.com/base", KEY),
        timeout_seconds=7,
        transport=httpx.MockTransport(service),
        sleep=lambda _: None,
    )


def test_a_request_carries_the_key_the_query_and_the_body():
    service = Service(httpx.Response(202), httpx.Response(204), httpx.Response(404))
    sending = sender(service)
    sending.send(REQUEST)
    sending.send(ops.delete_presubscriptions())
    with pytest.raises(NotFound):
        sending.send(ops.get_device_object("a/../b?c"))
    request, without_body, quoted = service.requests
    assert quoted.url.raw_path == b"/base/v3/devices/a%2F..%2Fb%3Fc/echo"
    assert "Content-Type" not in without_body.headers
    assert request.method == "POST"
    assert str(request.url) == "https://mirror.example.com/base/v2/device-requests/d1?async-id=a1"
    assert request.headers["Authorization"] == f"Bearer {KEY}"
    assert request.headers["Content-Type"] == "application/json"
    assert request.content == b'{"method":"GET","uri":"/3303/0/5700"}'


def test_the_hold_time_of_a_response_is_added_to_the_timeout():
    service = Service(httpx.Response(204, headers={"Mirror-Cursor": "3"}), httpx.Response(200))
    one = sender(service)
    one.send(ops.poll_log(3, hold_seconds=25))
    one.send(ops.delete_presubscriptions())
    timeouts = [request.extensions["timeout"] for request in service.requests]
    assert [timeout["read"] for timeout in timeouts] == [32, 7]
    assert [timeout["connect"] for timeout in timeouts] == pytest.approx([7, 7], abs=0.2)


@pytest.mark.parametrize("error", [httpx.ConnectError("refused"), httpx.ReadTimeout("late"), httpx.DecodingError("gz")])
def test_a_connection_failure_is_our_error_and_names_the_address_but_not_the_key(error):
    with pytest.raises(ConnectionFailed, match=r"GET https://mirror\.example\.com/base/healthz") as failure:
        sender(Service(error)).send(ops.get_health())
    assert failure.value.__cause__ is error
    assert KEY not in "".join(traceback.format_exception(failure.value))


def test_cookies_go_back_to_the_service_that_gave_them():
    service = Service(httpx.Response(202, headers={"Set-Cookie": "server=2; Path=/"}), httpx.Response(202))
    sending = sender(service)
    for _ in range(2):
        sending.send(REQUEST)
    assert [request.headers.get("Cookie") for request in service.requests] == [None, "server=2"]


class Wire(httpcore.NetworkStream):
    """A connection that stores each write and the requested sizes of reads, until a failure."""

    def __init__(self, *failures: Exception, comes: bytes = b"answer") -> None:
        self.failures = list(failures)
        self.comes = comes
        self.sent: list[bytes] = []
        self.requested_sizes: list[int] = []

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        if self.failures:
            raise self.failures.pop()
        self.sent.append(buffer)

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        self.requested_sizes.append(max_bytes)
        return self.comes


def stream_of(wire: Wire) -> network_streams._Stream:
    return network_streams._Stream(wire, None, network_streams.OpenStreams())


def test_the_head_of_a_request_goes_with_its_body():
    wire = Wire()
    stream = stream_of(wire)
    for _ in range(2):
        stream.write(b"head")
        stream.write(b"body")
        assert stream.read(100) == b"answer"
    assert wire.sent == [b"headbody"] * 2


def test_a_large_body_is_sent_completely_in_chunks():
    wire = Wire()
    stream = stream_of(wire)
    body = bytes(range(256)) * 1000
    stream.write(b"head")
    stream.write(body)
    stream.write(b"end")
    stream.read(100)
    assert b"".join(wire.sent) == b"head" + body + b"end"
    assert max(map(len, wire.sent)) == 64 * 1024


def test_large_responses_are_read_in_larger_chunks():
    wire = Wire(comes=b"a" * 100)
    stream = stream_of(wire)
    assert stream.read(100) == wire.comes
    stream.read(100)
    wire.comes = b"the end"
    for _ in range(2):
        stream.read(100)
    assert wire.requested_sizes == [100, 256 * 1024, 256 * 1024, 100]


def test_an_early_response_to_an_incomplete_request_is_read_within_the_timeout():
    stream, late = (stream_of(Wire(error())) for error in (httpcore.WriteError, httpcore.WriteTimeout))
    for one in (stream, late):
        one.write(b"head")
    assert stream.read(100) == b"answer"
    with pytest.raises(httpcore.WriteTimeout):
        late.read(100)
