"""The status of a client, which sends no request."""

from __future__ import annotations

import httpx
import pytest
from client_test_data import URL
from resource_paths import TEMPERATURE

from mirror_sdk import AuthenticationError, ConnectionFailed, MirrorClient, WebhookReceiver


def test_waiting_requests_are_counted_until_they_have_a_response(client, simulator, device_id):
    new = client.notifications.status()
    assert (new.is_connected, new.last_response_at, new.position, new.waiting) == (False, None, None, 0)
    assert repr(new) == f"<ClientStatus {URL}: no request yet, by long polling, 0 waiting>"
    simulator.set_online(device_id, False)
    request = client.requests.begin_read(device_id, TEMPERATURE)
    waiting = client.notifications.status()
    assert (waiting.is_connected, waiting.waiting, waiting.failures) == (True, 1, 0)
    assert waiting.position is not None
    simulator.set_online(device_id, True)
    assert request.result(60).python == 21.5
    responding = client.notifications.status()
    assert (responding.waiting, responding.last_failure) == (0, None)
    assert responding.position > waiting.position
    assert responding.last_response_at >= waiting.last_response_at


def test_watches_and_the_channel_are_reported(client):
    with WebhookReceiver() as receiver:
        client.notifications.use_webhook(receiver)
        with client.watch(print):
            assert (client.notifications.status().channel, client.notifications.status().watches) == ("webhook", 1)
        assert client.notifications.status().watches == 0
        client.notifications.use_long_polling()
    assert client.notifications.status().channel == "long polling"


def test_a_lost_connection_is_reported_until_it_is_restored():
    is_disconnected = True

    def respond(request: httpx.Request) -> httpx.Response:
        if is_disconnected:
            raise httpx.ConnectError("refused", request=request)
        return httpx.Response(401, json={"code": 401, "type": "invalid_auth", "message": "no"})

    with MirrorClient("localhost", "key", transport=httpx.MockTransport(respond)) as client:
        client._session.sender._sleep = lambda seconds: None
        with pytest.raises(ConnectionFailed):
            client.get_device("x")
        lost = client.notifications.status()
        assert (lost.is_connected, lost.failures > 0) == (False, True)
        assert "refused" in repr(lost)
        assert "key" not in repr(lost)
        is_disconnected = False
        with pytest.raises(AuthenticationError):
            client.get_device("x")
        assert client.notifications.status().is_connected
        assert client.notifications.status().last_failure is None


def test_a_postponed_poll_reports_its_delay():
    def respond(request: httpx.Request) -> httpx.Response:
        if "after=latest" in str(request.url) or request.method == "POST":
            return httpx.Response(204 if request.method == "GET" else 202, headers={"Mirror-Cursor": "3"}, json={})
        return httpx.Response(503, headers={"Retry-After": "40"}, json={"code": 503, "type": "x", "message": "full"})

    with MirrorClient("localhost", "key", transport=httpx.MockTransport(respond)) as client:
        request = client.requests.begin_read("0" * 32, TEMPERATURE)
        assert not request.done()
        status = client.notifications.status()
        assert 30 < status.retry_in_seconds <= 40
        assert (status.position, status.waiting) == (3, 1)
        assert "full" in str(status.last_failure)


def test_watches_that_start_during_the_status_do_not_disturb_it():
    class Starting:
        """A watch during whose report another one starts, as on another thread."""

        @property
        def is_running(self):
            started.append(Starting())
            client._session.add_watch(started[-1])
            return True

        def stop(self):
            pass

    with MirrorClient("localhost", "key") as client:
        started = [Starting(), Starting()]
        for watch in started:
            client._session.add_watch(watch)
        assert client.notifications.status().watches == 2
