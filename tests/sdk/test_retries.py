"""Retries after failures: which requests, when, and when not; with both clients. Source: wire.md 0, 2."""

import httpx
import pytest
from blocking_client import record_pauses
from client_test_data import DEVICE
from resource_paths import SWITCH, TEMPERATURE

from mirror_sdk import AsyncMirrorClient, MirrorClient
from mirror_sdk.errors import APIError, ConfigError, LimitExceeded, MirrorError, ServerError

pytestmark = pytest.mark.both_clients

OBJECT = {"object": "device-echo", "device_id": DEVICE, "created_at": "2026-01-31T00:00:00Z", "resources": []}
LOST = [httpx.ConnectError("refused"), httpx.ReadError("reset"), httpx.RemoteProtocolError("closed")]


class Service:
    """A service that responds with a script, repeats its last step, and stores the requests."""

    def __init__(self, *script):
        self.script = script
        self.requests = []

    def __call__(self, request):
        self.requests.append(request)
        step = self.script[min(len(self.requests), len(self.script)) - 1]
        if isinstance(step, Exception):
            raise step
        status, headers, body = (*step, {}, {})[:3] if isinstance(step, tuple) else (step, {}, {})
        return httpx.Response(status, headers=headers, json=body)


@pytest.fixture
def client_of(client_of):
    """Create clients of both kinds that record their pauses instead of waiting."""

    def make(service, **options):
        client = client_of(transport=httpx.MockTransport(service), **options)
        client._slept = record_pauses(client)
        return client

    return make


@pytest.mark.parametrize("failure", [429, 502, 503, 504, *LOST], ids=str)
def test_temporary_failures_are_retried_twice_with_growing_pauses(client_of, failure):
    service = Service(failure, failure, (200, {}, OBJECT))
    client = client_of(service)
    assert client.get_device(DEVICE).device_id == DEVICE
    assert len(service.requests) == 3
    first, second = client._slept
    assert 0.25 <= first <= 0.5 <= second <= 1.0


@pytest.mark.parametrize(("failure", "max_retries"), [(503, 0), (503, 4), (LOST[0], 0), (LOST[0], 4)], ids=str)
def test_an_error_after_all_attempts_says_how_many_there_were(client_of, failure, max_retries):
    service = Service(failure)
    with pytest.raises(MirrorError) as raised:
        client_of(service, max_retries=max_retries).get_device(DEVICE)
    attempts = 1 + max_retries
    assert (len(service.requests), raised.value.attempts) == (attempts, attempts)
    assert (f"(after {attempts} attempts)" in str(raised.value)) == (attempts > 1)


@pytest.mark.parametrize("status", [301, 400, 401, 404, 412, 500])
def test_other_errors_are_raised_at_once(client_of, status):
    service = Service(status)
    with pytest.raises(MirrorError):
        client_of(service).subscriptions.rules.list()
    assert len(service.requests) == 1


CALLS = {
    "PUT": lambda client: client.subscribe(DEVICE, TEMPERATURE),
    "POST": lambda client: client.requests.begin_write(DEVICE, SWITCH, True),
}


@pytest.mark.parametrize("method", CALLS)
def test_idempotent_methods_are_retried_and_a_write_with_its_async_id(client_of, method):
    failing = {"left": 2}

    def respond(request):
        if request.url.path.endswith("/pull"):
            return httpx.Response(204, headers={"Mirror-Cursor": "0"})
        requests.append(request)
        failing["left"] -= 1
        return httpx.Response(502 if failing["left"] >= 0 else {"POST": 202}.get(method, 204))

    requests = []
    CALLS[method](client_of(respond))
    assert [request.method for request in requests] == [method] * 3
    assert len({str(request.url) for request in requests}) == 1
    assert len({request.read() for request in requests}) == 1


def requesting(retry_after):
    return {"Retry-After": retry_after, "Date": "Fri, 20 Nov 2026 12:00:00 GMT"}


@pytest.mark.parametrize(
    ("retry_after", "least", "most"),
    [("2.5", 2.5, 2.5), ("Fri, 20 Nov 2026 12:00:09 GMT", 9, 9), ("Fri, 20 Nov 2026 11:00:00 GMT", 0.25, 0.5)],
)
def test_a_pause_follows_retry_after_in_any_form_and_is_never_shorter_than_the_default(
    client_of, retry_after, least, most
):
    client = client_of(Service((503, requesting(retry_after)), (200, {}, OBJECT)))
    client.get_device(DEVICE)
    (pause,) = client._slept
    assert least <= pause <= most


@pytest.mark.parametrize("retry_after", ["40", "Fri, 20 Nov 2026 12:40:00 GMT", "1" + "0" * 8])
def test_a_retry_after_beyond_the_timeout_is_raised_at_once(client_of, retry_after):
    service = Service((503, requesting(retry_after)))
    client = client_of(service, timeout=30)
    with pytest.raises(ServerError) as raised:
        client.get_device(DEVICE)
    assert (len(service.requests), client._slept) == (1, [])
    assert raised.value.retry_after_seconds >= 40


def test_the_client_does_not_retry_polls_itself(client_of):
    """The client does not poll again at once after too many polls."""
    service = Service((204, {"Mirror-Cursor": "3"}), 429)
    client = client_of(service)
    with pytest.raises(LimitExceeded):
        list(client.events(timeout=0))
    assert len(service.requests) == 2
    # A snapshot is requested again until its response has started.
    service = Service(503, httpx.ReadError("reset"), 400)
    with pytest.raises(APIError):
        client_of(service).fleet.snapshot()
    assert len(service.requests) == 3


@pytest.mark.parametrize("max_retries", [-1, 101, 1.0, "2"])
def test_an_invalid_number_of_retries_is_rejected_by_name(max_retries, monkeypatch):
    monkeypatch.setenv("API_KEY", "key")
    for make in (MirrorClient, AsyncMirrorClient):
        with pytest.raises(ConfigError, match="max_retries="):
            make("http://localhost", "key", max_retries=max_retries)
        with pytest.raises(ConfigError, match="max_retries="):
            make.from_env(max_retries=max_retries)
