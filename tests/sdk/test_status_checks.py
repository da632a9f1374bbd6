"""Status checks of requests without a wait, from the current notification log."""

import itertools
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from changed_responses import Between
from client_test_data import SENSOR, URL
from resource_paths import TEMPERATURE
from thread_waits import until

from mirror_sdk import DeviceUnavailable, MirrorClient, UnexpectedResponse, WaitTimeout
from mirror_sdk.frames import requests_frame

pytestmark = pytest.mark.both_clients


def handles(*requests):
    return [getattr(request, "_wrapped", request) for request in requests]


def begin_responded(client, simulator, device_id):
    """Return a request whose response is in the log but has not been read."""
    simulator.set_online(device_id, False)
    request = client.requests.begin_read(device_id, TEMPERATURE)
    simulator.set_online(device_id, True)
    return request


@pytest.fixture
def requested(client, simulator, device_id):
    """Return two requests whose responses are in the log: a failed one, in its own message, and one after it."""
    silent = simulator.add_device("silent", [SENSOR])
    simulator.set_response_mode(silent, "silent")
    lost = client.requests.begin_read(silent, TEMPERATURE)
    simulator.advance(121)
    return lost, begin_responded(client, simulator, device_id)


def test_the_first_status_check_finds_the_response_also_after_a_failed_one(client, requested, device_id):
    lost, found = requested
    assert found.result(timeout=0).python == 21.5
    assert lost.done()
    with pytest.raises(DeviceUnavailable):
        lost.result(timeout=0)
    assert client.requests.resume(found.async_id, device_id, TEMPERATURE).done()


def test_a_tiny_time_is_not_less_than_none(client, requested):
    # The check has a real second, in which the machine may do other work, but this clock advances only a little.
    ticks = itertools.count()
    client._session.sender._clock = client._session.router._clock = lambda: next(ticks) / 10_000
    assert requested[1].result(timeout=1e-9).python == 21.5


def test_the_requests_table_agrees_with_done(client, simulator, requested):
    offline = simulator.add_device("away", [SENSOR])
    simulator.set_online(offline, False)
    waiting = client.requests.begin_read(offline, TEMPERATURE)
    frame = client.requests.frame([*requested, waiting], tz="Europe/Berlin")
    assert frame["status"].tolist() == ["failure", "success", "pending"]
    assert [request.done() for request in (*requested, waiting)] == [True, True, False]
    assert not frame.attrs["mirror"]["complete"]
    unanswered = client.requests.frame(tz="Europe/Berlin")
    for column in ("async_id", "device_id", "path", "method", "accepted_at", "expires_at", "status"):
        assert unanswered[column].tolist() == [frame[column].iloc[-1]], column
    client.close()
    # The table of a closed client contains what it had received.
    simulator.set_online(offline, True)
    assert requests_frame(handles(*requested, waiting))["status"].tolist() == ["failure", "success", "pending"]


def test_the_function_checks_the_log_once_for_all_requests_of_a_client(mirror, simulator, device_id):
    polls = []
    counting = Between(mirror, before=lambda request: polls.append(request.url.path.endswith("/pull")))
    with MirrorClient(URL, mirror.new_key(), transport=counting) as client:
        requests = [begin_responded(client, simulator, device_id) for _ in range(5)]
        polls.clear()
        assert requests_frame(requests)["status"].tolist() == ["success"] * 5
        assert sum(polls) <= 2


def test_a_status_check_ends_if_entries_arrive_as_fast_as_they_are_read(client_over, simulator, device_id):
    other, polls = simulator.add_device("other", [SENSOR]), []

    def grow(request, answer):
        if request.url.path.endswith("/pull") and len(polls) < 100:
            polls.append(request)
            simulator.update_registration(other)
        return answer

    client = client_over(grow)
    simulator.set_online(device_id, False)
    request = client.requests.begin_read(device_id, TEMPERATURE)
    seconds = itertools.count()
    client._session.router._clock = lambda: next(seconds)
    assert not request.done()
    assert len(polls) < 60


def test_a_status_check_retries_after_5xx_and_reports_an_invalid_message(client_over, simulator, ids):
    responses = []

    def change(request, answer):
        return responses.pop() if request.url.path.endswith("/pull") and responses else answer

    client = client_over(change)
    request = begin_responded(client, simulator, ids[0])
    responses.append(httpx.Response(200, text="hello"))
    with pytest.raises(UnexpectedResponse):
        request.done()
    responses.append(httpx.Response(503))
    assert request.done()
    assert not responses


def test_a_service_that_cannot_say_is_the_cause_of_the_time_out(client_over, ids):
    is_unavailable = False

    def change(request, answer):
        if not is_unavailable or not request.url.path.endswith("/pull"):
            return answer
        return httpx.Response(503, headers={"Retry-After": "30"})

    client = client_over(change)
    request = client.requests.begin_read(ids[0], TEMPERATURE)
    is_unavailable = True
    with pytest.raises(WaitTimeout) as late:
        request.result(timeout=0)
    assert late.value.__cause__.status == 503
    assert not request.done()


def test_a_status_check_during_a_wait(client, simulator, device_id):
    offline = simulator.add_device("away", [SENSOR])
    simulator.set_online(offline, False)
    waiting = client.requests.begin_read(offline, TEMPERATURE)
    router = getattr(client, "_wrapped", client)._session.router
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(waiting.result, 60)
        until(lambda: router._is_reading)
        assert begin_responded(client, simulator, device_id).result(timeout=0).python == 21.5
        assert not answer.done()
        simulator.set_online(offline, True)
        assert answer.result(60).python == 21.5
