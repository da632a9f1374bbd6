"""Calls end within their timeouts for any behavior of the service: on real sockets, with both clients."""

import inspect
import itertools
import re
import socket
import threading
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from operator import attrgetter

import pandas as pd
import pytest
from blocking_client import record_pauses
from click.testing import CliRunner
from client_groups import ASYNC_GROUPS, GROUPS
from client_test_data import DEVICE, page_of
from malicious_service import AT_MOST, BRIEFLY, MaliciousService, one_by_one
from resource_paths import SWITCH, TEMPERATURE

from mirror_sdk import AsyncMirrorClient, MirrorClient
from mirror_sdk._protocol.deadline import Pace
from mirror_sdk.cli import main as mirror_command
from mirror_sdk.errors import CallTimeout, ConnectionFailed, InvalidValue, ServerError, WaitTimeout
from mirror_sdk.webhook import CallbackInbox

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
BUSY = b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"
LONG = HEAD + b"Content-Length: 1000000\r\n\r\n"


@pytest.fixture
def client_of(client_of):
    """Create clients of either kind with a short timeout."""
    return lambda url, **options: client_of(url, **{"timeout": BRIEFLY} | options)


def seconds_of(call, error=CallTimeout, match="timeout=0.3"):
    """Return how long a call takes to fail."""
    began = time.monotonic()
    with pytest.raises(error, match=match):
        call()
    elapsed = time.monotonic() - began
    assert elapsed < AT_MOST
    return elapsed


SLOW_RESPONSES = {
    "says nothing": lambda _: [],
    "a status line that trickles": lambda _: one_by_one(b"HTTP/1.1 200 " + b"O" * 100_000),
    "a header that trickles": lambda _: one_by_one(HEAD, b"X-Long: " + b"x" * 50_000),
    "headers without end": lambda _: itertools.chain([HEAD], itertools.repeat(b"X-More: 1\r\n")),
    "endless interim responses": lambda _: itertools.repeat(b"HTTP/1.1 103 Early Hints\r\n\r\n"),
    "a body that trickles": lambda _: one_by_one(LONG, b"{"),
    "chunks without end": lambda _: itertools.chain([CHUNKED], itertools.repeat(b"1\r\n \r\n")),
    "a body that stops": lambda _: [LONG + b"{"],
}


@pytest.mark.both_clients
@pytest.mark.parametrize("name", SLOW_RESPONSES)
def test_a_call_ends_within_its_timeout_for_any_response(client_of, name):
    with MaliciousService(SLOW_RESPONSES[name]) as service:
        client = client_of(service.url)
        elapsed = seconds_of(lambda: client.get_device(DEVICE))
        assert elapsed >= BRIEFLY * 0.9


@pytest.mark.both_clients
def test_a_request_to_a_server_that_does_not_read_ends(client_of):
    rules = [{"resource_path": [f"/3303/{number}/{'x' * 100}" for number in range(256)]} for _ in range(400)]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = client_of(f"http://127.0.0.1:{listener.getsockname()[1]}")
        seconds_of(lambda: client.subscriptions.rules.replace(rules))


@pytest.mark.both_clients
def test_a_name_that_is_never_resolved_ends(client_of, monkeypatch):
    is_over = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: is_over.wait(60) and [])
    try:
        client = client_of("http://mirror.example.com")
        seconds_of(lambda: client.get_device(DEVICE))
    finally:
        is_over.set()


@pytest.mark.both_clients
def test_a_name_of_several_addresses_is_tried_within_the_time(client_of, monkeypatch):
    with ExitStack() as opened:
        # It neither accepts nor rejects connections.
        listener, *waiting = (opened.enter_context(socket.socket()) for _ in range(9))
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", port))
        both = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port)) for host in ("127.0.0.1", "127.0.0.2")]
        real = socket.getaddrinfo
        resolve = lambda host, *rest, **more: both if host == "two.test" else real(host, *rest, **more)  # noqa: E731
        monkeypatch.setattr(socket, "getaddrinfo", resolve)
        client = client_of(f"http://two.test:{port}", max_retries=0)
        seconds_of(lambda: client.get_device(DEVICE), ConnectionFailed, "two.test")


@pytest.mark.both_clients
def test_attempts_and_pauses_count(client_of):
    with MaliciousService(lambda _: [BUSY]) as service:
        client = client_of(service.url, timeout=60, max_retries=100)
        slept = record_pauses(client)
        # This clock advances only during pauses.
        client._session.sender._clock = lambda: sum(slept)
        with pytest.raises(ServerError, match=r"after [2-9] attempts"):
            client.get_device(DEVICE)
        assert 0 < sum(slept) <= 60


SNAPSHOT = b"HTTP/1.1 200 OK\r\nContent-Type: application/vnd.apache.arrow.stream\r\nTransfer-Encoding: chunked\r\n\r\n"


MESSAGE = b"8\r\n\xff\xff\xff\xff\xe8\x03\0\0\r\n"
"""The beginning of a response of 1000 bytes."""


@pytest.mark.both_clients
@pytest.mark.parametrize("name", ["fleet.dataset", "history"])
def test_a_snapshot_that_trickles_ends(client_of, tmp_path, name):
    def respond(_):
        return itertools.chain([SNAPSHOT + MESSAGE], itertools.repeat(b"1\r\n\0\r\n"))

    with MaliciousService(respond) as service:
        client = client_of(service.url)
        arguments = (tmp_path / "fleet",) if name == "fleet.dataset" else ()
        seconds_of(lambda: attrgetter(name)(client)(*arguments), match=r"64 KiB of the response arrived within 0\.3 s")
    assert list(tmp_path.iterdir()) == []


def trickle_of_devices(request):
    return one_by_one(LONG, b"[") if b"/devices" in request else [HEAD + b"Content-Length: 2\r\n\r\n[]"]


@pytest.mark.both_clients
def test_a_call_over_a_reused_connection_ends_and_the_next_call_works(client_of):
    """The rest of one response is not mistaken for the next one."""
    with MaliciousService(trickle_of_devices) as service:
        client = client_of(service.url, timeout=60)
        assert client.subscriptions.rules.list() == []
        seconds_of(lambda: client.get_device(DEVICE, timeout=BRIEFLY))
        assert client.subscriptions.rules.list() == []


@pytest.mark.both_clients
def test_a_proxy_of_the_environment_is_used_and_is_bounded_too(client_of, monkeypatch):
    requests = []

    def respond(request):
        requests.append(request)
        return trickle_of_devices(request)

    with MaliciousService(respond) as service:
        monkeypatch.setenv("HTTP_PROXY", service.url)
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        client = client_of("http://mirror.example.com", timeout=60)
        assert client.subscriptions.rules.list() == []
        assert requests[0].startswith(b"GET http://mirror.example.com/v2/subscriptions ")
        seconds_of(lambda: client.get_device(DEVICE, timeout=BRIEFLY))
        monkeypatch.setenv("NO_PROXY", "example.com")
        direct = client_of("http://mirror.example.com", max_retries=0, timeout=60)
        monkeypatch.setattr(socket, "getaddrinfo", reject_name)
        seconds_of(direct.subscriptions.rules.list, ConnectionFailed, "ConnectError")
    assert len([request for request in requests if b"/v2/subscriptions" in request]) == 1


def reject_name(*_, **__):
    raise socket.gaierror(-2, "Name or service not known")


# Of each call

EARLIER = datetime(2026, 1, 5, tzinfo=UTC)
OF_EACH_CALL = {
    "devices.list": (),
    "get_device": (DEVICE,),
    "devices.queries.create": ("lights", ""),
    "devices.events_frame": (),
    "devices.explain": (DEVICE, TEMPERATURE),
    "service.browse": ("a-name",),
    "state_frame": (),
    "fleet.dataset": ("FOLDER",),
    "fleet.refresh": ("FRAME",),
    "as_of": (EARLIER,),
    "changes": (EARLIER, EARLIER),
    "requests.resume": ("a1", "a-name", TEMPERATURE),
    "read_value": (DEVICE, TEMPERATURE),
    "write_value": (DEVICE, SWITCH, True),
    "plan": ([(DEVICE, SWITCH, True)],),
    "subscriptions.state": (DEVICE, TEMPERATURE),
    "subscriptions.rules.remove": ([{}],),
    "notifications.events_frame": (),
    "watch": (print,),
    "record": ("FOLDER",),
    "notifications.use_webhook": ("RECEIVER",),
    "notifications.use_websocket": (),
    "notifications.use_long_polling": (),
}


WITHOUT_REQUESTS = {
    "cassettes.use",
    "close",
    "aclose",
    "from_cassette",
    "from_env",
    "notifications.status",
    "plans.load",
}


@pytest.mark.parametrize(
    ("kind", "resources"), [(MirrorClient, GROUPS), (AsyncMirrorClient, ASYNC_GROUPS)], ids=["sync", "async"]
)
def test_every_method_with_a_request_has_a_timeout(kind, resources):
    methods = {
        prefix + name: method
        for prefix, owner in [("", kind), *((f"{name}.", resource) for name, resource in resources.items())]
        for name, method in inspect.getmembers(owner, callable)
        if not name.startswith("_")
    }
    limited = {name for name, method in methods.items() if "timeout" in inspect.signature(method).parameters}
    assert limited - {"from_cassette", "from_env"} == methods.keys() - WITHOUT_REQUESTS - {"requests.frame"}
    assert limited > OF_EACH_CALL.keys()


def of_a_snapshot(url):
    selection = {"filters": {}, "device_ids": None, "paths": None}
    frame = pd.DataFrame({"reported_at": pd.Series([], dtype="datetime64[ms, UTC]")})
    frame.attrs["mirror"] = {"selection": selection, "rows": 0, "revision": 1, "server": url}
    return frame


@pytest.mark.parametrize("name", OF_EACH_CALL)
def test_each_call_ends_within_its_timeout(client_of, tmp_path, name):
    def respond(request):
        head = SNAPSHOT + MESSAGE if b"/v3/device-echo" in request else CHUNKED
        return itertools.chain([head], itertools.repeat(b"1\r\n\0\r\n"))

    with MaliciousService(respond) as service:
        client = client_of(service.url, timeout=60)
        replacements = {"FOLDER": tmp_path / "folder", "FRAME": of_a_snapshot(service.url), "RECEIVER": CallbackInbox()}
        arguments = [replacements.get(one, one) if isinstance(one, str) else one for one in OF_EACH_CALL[name]]

        def call():
            more = {"url": "http://127.0.0.1:9/"} if name == "notifications.use_webhook" else {}
            attrgetter(name)(client)(*arguments, timeout=BRIEFLY, **more)

        seconds_of(call, match=r"timeout=(0\.3|2 )")


def test_an_invalid_limit_is_rejected_by_name(client_of):
    client = client_of("http://127.0.0.1:1", timeout=1)
    for timeout in (0, -1, 86_401, float("nan"), float("inf"), "3", True):
        for name in ("subscriptions.rules.list", "service.is_healthy", "devices.list", "fleet.snapshot"):
            with pytest.raises(InvalidValue, match="timeout="):
                attrgetter(name)(client)(timeout=timeout)


def test_pages_without_end_end(client_of):
    def respond(_):
        body = page_of([next(responding)], has_more=True).content
        return [HEAD + b"Content-Length: %d\r\n\r\n%s" % (len(body), body)]

    responding = itertools.count()
    with MaliciousService(respond) as service:
        seconds_of(client_of(service.url).devices.list)


@pytest.mark.both_clients
def test_a_wait_for_a_response_ends_within_its_timeout_despite_a_stalled_poll(client_of):
    def respond(request):
        if b"/pull" not in request:
            identity = re.search(rb"async-id=(\w+)", request)[1]
            body = b'{"async-response-id":"%s"}' % identity
            return [b"HTTP/1.1 202 Accepted\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)]
        if b"after=latest" in request:
            return [b"HTTP/1.1 204 No Content\r\nMirror-Cursor: 3\r\n\r\n"]
        return itertools.chain([CHUNKED], itertools.repeat(b"1\r\n \r\n"))

    with MaliciousService(respond) as service:
        client = client_of(service.url, timeout=60)
        seconds_of(lambda: list(client.events(timeout=BRIEFLY, outage_timeout=BRIEFLY)), CallTimeout, "whole call")
        request = client.requests.begin_read(DEVICE, TEMPERATURE)
        seconds_of(lambda: request.result(BRIEFLY), WaitTimeout, "within 0.3 s")


def test_a_slow_response_that_progresses_is_read_completely():
    """For a snapshot, the client's limit applies to each step."""
    now = [0.0]
    pace = Pace(10, lambda: now[0])
    pace.begin_attempt()
    for _ in range(1000):
        for _ in range(8):
            pace.begin_wait()
            now[0] += 1.2
            assert not pace.is_over
            pace.arrived(8 * 1024)
        now[0] += 100  # what came is written to a slow disk
    pace.begin_wait()
    now[0] += 9
    pace.arrived(1)
    pace.begin_wait()
    assert pace.left == 1
    now[0] += 1
    assert pace.is_over


def test_a_command_accepts_both_limits_before_its_name(monkeypatch):
    def respond(request):
        if b"slow" in request:
            # This request may be read after its client has gone, and the others are counted.
            return itertools.chain([CHUNKED], itertools.repeat(b"1\r\n \r\n"))
        requests.append(request)
        return [BUSY]

    requests = []
    with MaliciousService(respond) as service:
        monkeypatch.setenv("API_HOST", service.url)
        monkeypatch.setenv("API_KEY", "key")
        result = CliRunner().invoke(mirror_command, ["--timeout", "0.3", "devices", "--type", "slow"])
        assert (result.exit_code, "timeout=0.3" in result.stderr) == (3, True)
        result = CliRunner().invoke(mirror_command, ["--max-retries", "0", "devices"])
        assert (result.exit_code, len(requests), "attempts" in result.stderr) == (1, 1, False)
    assert CliRunner().invoke(mirror_command, ["--timeout", "0", "devices"]).exit_code == 2
