"""Responses of other services, or none, with both clients. Source: wire.md 0, 6, 7."""

import itertools
import json
import socket

import httpx
import pytest
from click.testing import CliRunner
from client_test_data import DEVICE, page_of
from malicious_service import BRIEFLY, MaliciousService
from resource_paths import TEMPERATURE

from mirror_sdk import AsyncMirrorClient
from mirror_sdk.cli import main as mirror_command
from mirror_sdk.errors import ClientClosed, ConfigError, MirrorError, NotFound, UnexpectedResponse
from mirror_sdk.wire.snapshot import ARROW, NDJSON

PAGE = b"<!doctype html><title>Please log in</title>"


@pytest.fixture
def client_of(client_of):
    """Create clients of either kind that send each request once."""
    return lambda *arguments, **options: client_of(*arguments, max_retries=0, **options)


def answering(status, body=b"", **headers):
    def answer(_):
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return httpx.Response(status, headers=headers, stream=httpx.ByteStream(content))

    return httpx.MockTransport(answer)


# is_healthy()


HEALTHY = {"status": "ok", "service": "device-state-mirror"}


@pytest.mark.parametrize(
    ("body", "headers", "is_mirror"),
    [
        (HEALTHY | {"more": 1}, {}, True),
        ({"status": "ok"}, {"X-Request-ID": "0123456789abcdef" * 2}, True),
        ({"status": "ok"}, {}, False),
        ({"status": "ok"}, {"X-Request-ID": "req-1"}, False),
        (HEALTHY | {"service": "billing"}, {"X-Request-ID": "0123456789abcdef" * 2}, False),
        (HEALTHY | {"status": "starting"}, {}, False),
        ([], {}, False),
        (b"", {}, False),
        (PAGE, {"Content-Type": "text/html"}, False),
        (b"[" * 100_000, {}, False),
        (b"\xff\xfe", {}, False),
    ],
)
def test_a_mirror_is_distinguished_from_other_services(client_of, body, headers, is_mirror):
    transport = answering(200, body, **{"Content-Type": "application/json", **headers})
    assert client_of(transport=transport).service.is_healthy() is is_mirror


@pytest.mark.parametrize("status", [307, 404, 429, 500, 503])
def test_any_other_status_is_not_a_healthy_mirror(client_of, status):
    transport = answering(status, HEALTHY, **{"Location": "http://localhost/healthz", "Retry-After": "1"})
    assert client_of(transport=transport).service.is_healthy() is False


RESPONSES = {
    "nothing": lambda _: [],
    "hangs up": lambda _: iter([b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\nConnection: close\r\n\r\n{"]),
    "no HTTP": lambda _: [b"SSH-2.0-OpenSSH_9.2\r\n\r\n"],
    "a header without end": lambda _: itertools.chain([b"HTTP/1.1 200 OK\r\nX: "], itertools.repeat(b"x" * 65_536)),
    "an upgrade": lambda _: [b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"],
    "junk called gzip": lambda _: [b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\njunk"],
    "an invalid chunk": lambda _: [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"],
    "two lengths": lambda _: [b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}"],
    "too much announced": lambda _: [b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n"],
}


@pytest.mark.both_clients
@pytest.mark.parametrize(
    ("scheme", "name"), [*(("http", name) for name in RESPONSES), ("https", "nothing"), ("https", "no HTTP")]
)
def test_nothing_that_a_network_can_do_is_raised(client_of, name, scheme):
    with MaliciousService(RESPONSES[name]) as service:
        url = service.url.replace("http", scheme)
        assert client_of(url, timeout=BRIEFLY).service.is_healthy() is False


@pytest.mark.both_clients
@pytest.mark.parametrize("host", ["127.0.0.1:1", "no-such-host.invalid", "a" * 64 + ".example", "[::1]:1", "0.0.0.0:1"])
def test_an_address_without_a_server_is_not_a_healthy_mirror(client_of, host, monkeypatch):
    real = socket.getaddrinfo

    def lookup(name, *rest, **more):
        if str(name).endswith("invalid"):
            raise socket.gaierror(-2, "Name or service not known")
        return real(name, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    assert client_of(f"http://{host}", timeout=BRIEFLY).service.is_healthy() is False


@pytest.mark.both_clients
def test_programming_errors_are_raised(client_of):
    client = client_of(transport=answering(200))
    client.close()
    with pytest.raises(ClientClosed):
        client.service.is_healthy()
    with pytest.raises(ConfigError, match="event loop"):
        AsyncMirrorClient("http://localhost", "key").service.is_healthy().send(None)


# Every call


CALLS = {
    "get_device": lambda client: client.get_device(DEVICE),
    "list_devices": lambda client: client.devices.list(),
    "list_subscriptions": lambda client: client.subscriptions.list(DEVICE),
    "is_subscribed": lambda client: client.subscriptions.is_active(DEVICE, TEMPERATURE),
    "subscription_state": lambda client: client.subscriptions.state(DEVICE, TEMPERATURE),
    "delete_subscriptions": lambda client: client.subscriptions.delete_all(DEVICE),
    "get_presubscriptions": lambda client: client.subscriptions.rules.list(),
    "list_device_requests": lambda client: client.requests.list(),
    "begin_read": lambda client: client.requests.begin_read(DEVICE, TEMPERATURE),
    "use_long_polling": lambda client: client.notifications.use_long_polling(),
    "events": lambda client: list(client.events(timeout=0)),
    "snapshot": lambda client: client.fleet.snapshot(),
}


@pytest.mark.parametrize("name", CALLS)
def test_an_html_page_is_an_unexpected_response_to_every_call(client_of, name):
    client = client_of(transport=answering(200, PAGE, **{"Content-Type": "text/html; charset=utf-8"}))
    with pytest.raises(UnexpectedResponse, match=r"content type text/html.*does base_url point elsewhere\?"):
        CALLS[name](client)


# Snapshots

JUNK = {"Content-Encoding": "gzip"}


@pytest.mark.parametrize(
    ("status", "content_type", "body", "headers", "message"),
    [
        (200, "text/html", PAGE, {}, "content type text/html"),
        (200, "application/json", b'{"data": []}', {}, "content type application/json"),
        (200, None, PAGE, {}, "no content type"),
        (204, None, b"", {}, "no content type"),
        (302, None, b"", {"Location": "/login"}, "302"),
        (200, ARROW, b"", {}, "empty"),
        (200, NDJSON, b"", {}, "empty"),
        (200, ARROW, PAGE, {}, "snapshot"),
        (200, NDJSON, b'{"status":"ok"}\n', {}, "snapshot"),
        (200, NDJSON, b"junk", JUNK, "is not"),
        (200, ARROW, b"junk", JUNK, "is not"),
    ],
)
def test_an_invalid_snapshot_is_an_unexpected_response(
    client_of, tmp_path, status, content_type, body, headers, message
):
    all_headers = headers if content_type is None else {**headers, "Content-Type": content_type}
    client = client_of(transport=answering(status, body, **all_headers))
    with pytest.raises(UnexpectedResponse, match=message):
        client.fleet.snapshot()
    with pytest.raises(UnexpectedResponse, match=message):
        client.fleet.dataset(tmp_path / "fleet")
    assert list(tmp_path.iterdir()) == []


def test_the_command_says_it_in_a_line(monkeypatch, tmp_path):
    length = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n%s" % (len(PAGE), PAGE)
    with MaliciousService(lambda _: [length]) as service:
        monkeypatch.setenv("API_HOST", service.url)
        monkeypatch.setenv("API_KEY", "key")
        result = CliRunner().invoke(mirror_command, ["snapshot", str(tmp_path / "fleet.parquet")])
    assert result.exit_code == 1
    assert "content type text/html" in result.stderr
    assert "does API_HOST point elsewhere?" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


# Pages


PAGES = {
    "the same page for ever": itertools.repeat([1, 2]),
    "three pages in turns": itertools.cycle([[1, 2], [3, 4], [5, 6]]),
    "pages that begin with the last of the one before": iter([[1, 2], [2, 3], [3, 4]]),
    "pages that end as one before": iter([[1, 2], [3, 2]]),
    "an empty page": iter([[1, 2], []]),
}


@pytest.mark.parametrize("name", PAGES)
def test_a_repeated_page_is_an_unexpected_response(client_of, name):
    served = []

    def answer(request):
        numbers = next(pages)
        served.append(numbers)
        assert len(served) < 10
        return page_of(numbers, has_more=True)

    PAGES[name], pages = itertools.tee(PAGES[name])
    client = client_of(transport=httpx.MockTransport(answer))
    with pytest.raises(UnexpectedResponse, match=r"page [1-4] of the list"):
        client.devices.list()


def test_pages_to_the_end_are_read(client_of):
    pages = iter([([1, 2], True), ([3], True), ([4, 5], False)])
    after_parameters = []

    def answer(request):
        after_parameters.append(request.url.params.get("after"))
        numbers, has_more = next(pages)
        return page_of(numbers, has_more=has_more)

    found = client_of(transport=httpx.MockTransport(answer)).devices.list()
    assert [one.endpoint_name for one in found] == ["e-1", "e-2", "e-3", "e-4", "e-5"]
    assert after_parameters == [None, f"{2:032x}", f"{3:032x}"]
    pages = iter([([1, 2], True), ([3, 4], True)])
    found = client_of(transport=httpx.MockTransport(answer)).devices.list(limit=3)
    assert [one.endpoint_name for one in found] == ["e-1", "e-2", "e-3"]


# A wrong path in base_url


def test_a_wrong_path_in_the_address_is_a_404_of_every_method(mirror, client_of):
    client = client_of("http://mirror.localhost/wrong", mirror.new_key(), transport=mirror.either_transport)
    for name in CALLS.keys() - {"snapshot"}:
        with pytest.raises(NotFound, match=r"the path /wrong/.* does not exist"):
            CALLS[name](client)


def test_a_404_of_something_else_does_not_mean_that_there_is_no_subscription(client_of):
    with pytest.raises(MirrorError):
        client_of(transport=answering(404, {"detail": "Not Found"})).subscriptions.list(DEVICE)
