"""A single waiter gets the response with its request: the service delays the 202, so no poll is needed."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import httpx
import pytest
from blocking_client import record_pauses
from changed_responses import TEMPERATURE, Between
from resource_paths import REBOOT, SWITCH

from mirror_sdk import MirrorClient, WebhookReceiver
from mirror_sdk._protocol.async_log_consumers import AsyncResponseRouter
from mirror_sdk._protocol.log_consumers import ResponseRouter
from mirror_sdk._protocol.response_matcher import AwaitedResponse, ResponseMatcher
from mirror_sdk.errors import CallTimeout, ConnectionFailed, DeviceRequestFailed, ServerError, WaitTimeout
from tests.sdk.conftest import URL

pytestmark = pytest.mark.both_clients

CHANNEL = "/v2/notification/pull"
HOLD_SECONDS = 9
"""Longer than the client's, so that a response arrives with its request on a slow machine too."""
PREFERENCE = f"wait={HOLD_SECONDS}"


class BridgeTransport(Between):
    """A transport for either client with which the server waits without a thread. It counts requests."""

    sent, delayed, max_delayed = (), 0, 0

    def handle_request(self, request):
        content = request.read()

        async def complete():
            again = httpx.Request(request.method, request.url, headers=request.headers, content=content)
            answer = await self.handle_async_request(again)
            return httpx.Response(answer.status_code, headers=answer.headers, content=await answer.aread())

        return asyncio.run(complete())

    async def handle_async_request(self, request):
        self.sent += (request,)
        is_delayed = "Prefer" in request.headers
        self.delayed += is_delayed
        self.max_delayed = max(self.delayed, self.max_delayed)
        try:
            return await super().handle_async_request(request)
        finally:
            self.delayed -= is_delayed

    def requested_kinds(self):
        """Return the kinds of the requests since the last call, and the hold of each."""
        sent, self.sent = self.sent, ()
        return [(request.method, request.url.path, request.headers.get("Prefer")) for request in sent]


@pytest.fixture(autouse=True)
def _long_hold(monkeypatch):
    for module in ("async_log_consumers", "log_consumers"):
        monkeypatch.setattr(f"mirror_sdk._protocol.{module}.HOLD_SECONDS", HOLD_SECONDS)


@pytest.fixture
def over(mirror, client_of):
    """Create a client of either kind over the bridge, with its transport. Its position in the log is known."""

    def over(*change, **before):
        transport = BridgeTransport(mirror, *change, **before)
        client = client_of(URL, mirror.new_key(), transport=transport)
        client.events(timeout=0)
        return client, transport

    return over


def delayed(device_id, prefer=PREFERENCE):
    return ("POST", f"/v2/device-requests/{device_id}", prefer)


def counts(client):
    status = client.notifications.status()
    return status.waiting, status.unclaimed, status.duplicates


def test_one_request_reads_writes_and_executes(over, simulator, device_id):
    client, transport = over()
    assert client.read_value(device_id, TEMPERATURE) == 21.5
    transport.requested_kinds()
    begins = client.notifications.status().position
    simulator.set_value(device_id, TEMPERATURE, 22.5)
    assert client.read_value(device_id, TEMPERATURE) == 22.5
    client.write_value(device_id, SWITCH, True)
    client.execute(device_id, REBOOT)
    assert transport.requested_kinds() == [delayed(device_id)] * 3
    # The position is the same as if each response had been read from the log.
    assert client.notifications.status().position == begins + 3
    assert counts(client) == (0, 0, 0)
    assert client.get_device(device_id)[SWITCH].desired.status.name == "SUCCESS"


def test_a_failure_is_the_same_error_with_the_request_and_by_a_poll(over, device_id):
    client, transport = over()
    with pytest.raises(DeviceRequestFailed) as by_request:
        client.write_value(device_id, TEMPERATURE, 30.0, allow_read_only=True)
    request = client.requests.begin_write(device_id, TEMPERATURE, 30.0, allow_read_only=True)
    by_poll = request.exception()
    assert by_request.value.category == by_poll.category == "METHOD_NOT_ALLOWED"
    assert transport.requested_kinds()[-2:] == [delayed(device_id, None), ("GET", CHANNEL, None)]


@pytest.mark.parametrize("timeout", [0, 1.9])
def test_a_short_wait_is_not_spent_on_it(over, mirror, client_of, device_id, timeout):
    client, transport = over()
    client.read_value(device_id, TEMPERATURE)
    transport.requested_kinds()
    with suppress(WaitTimeout, CallTimeout):
        client.read_value(device_id, TEMPERATURE, timeout=timeout)
    assert delayed(device_id, None) in transport.requested_kinds()
    # A short timeout of each call has the same effect.
    hasty = client_of(URL, mirror.new_key(), transport=transport, timeout=1.9)
    with suppress(CallTimeout):
        hasty.read_value(device_id, TEMPERATURE, timeout=60)
    assert PREFERENCE not in {prefer for _, _, prefer in transport.requested_kinds()}


@pytest.fixture
def observing(over, mirror, device_id):
    """A client with its transport that observes the temperature and has read the complete log."""
    client, transport = over()
    client.subscribe(device_id, TEMPERATURE)
    assert mirror.services.database.settle(60)
    client.read_value(device_id, SWITCH)
    return client, transport


def test_other_log_entries_are_neither_lost_nor_repeated(observing, simulator, device_id):
    client, transport = observing
    events = client.events(timeout=0)
    begins = client.notifications.status().position
    simulator.set_value(device_id, TEMPERATURE, 23.5)
    for _ in range(3):
        assert client.read_value(device_id, TEMPERATURE) == 23.5
    # The observation comes first in the log.
    assert client.notifications.status().position == begins
    request = client.requests.begin_read(device_id, SWITCH)
    transport.requested_kinds()
    assert request.result().python is False
    assert {path for _, path, _ in transport.requested_kinds()} == {CHANNEL}
    assert client.notifications.status().position > begins + 3
    assert counts(client) == (0, 0, 0)
    assert len([event for event in events if event.kind.name == "ASYNC_RESPONSE"]) == 4


def test_other_waiters_cause_the_log_to_be_read(over, simulator, device_id):
    client, transport = over()
    simulator.set_online(device_id, False)
    request = client.requests.begin_read(device_id, SWITCH)
    other = simulator.add_device("other", [{"path": TEMPERATURE, "value": "7"}])
    transport.requested_kinds()
    assert client.read_value(other, TEMPERATURE) == 7.0
    assert [prefer for _, path, prefer in transport.requested_kinds() if path != CHANNEL] == [None]
    simulator.set_online(device_id, True)
    assert request.result().python is False
    client.read_value(other, TEMPERATURE)
    assert transport.requested_kinds()[-1] == delayed(other)


def test_a_log_that_lags_far_is_read(observing, simulator, device_id):
    client, transport = observing
    getattr(client, "_wrapped", client)._session.router.matcher._keep = 2
    simulator.set_value(device_id, TEMPERATURE, 23.5)
    transport.requested_kinds()
    for _ in range(3):
        client.read_value(device_id, SWITCH)
    requests = transport.requested_kinds()
    assert [prefer for _, path, prefer in requests if path != CHANNEL] == [PREFERENCE, PREFERENCE, None]
    assert requests[-1][1] == CHANNEL
    client.read_value(device_id, SWITCH)
    assert transport.requested_kinds() == [delayed(device_id)]
    assert counts(client) == (0, 0, 0)


def delayed_response(members_of):
    """Replace a response that arrives with its request."""

    def after(request, accepted):
        if "Prefer" not in request.headers:
            return accepted
        async_id = accepted.json()["async-response-id"]
        return httpx.Response(202, json={"async-response-id": async_id, **members_of(async_id)})

    return after


OTHER_RESPONSES = [{"id": "of another", "status": 200, "payload": "OTk="}, {"id": 7}, "21.5", None]


@pytest.mark.parametrize("members", [{}, *({"async-response": answer} for answer in OTHER_RESPONSES)])
def test_a_response_to_another_request_is_left_to_the_log(over, device_id, members):
    """An earlier service does not support the option either."""
    client, transport = over(delayed_response(lambda _: members))
    assert client.read_value(device_id, TEMPERATURE) == 21.5
    assert transport.requested_kinds()[-2:] == [delayed(device_id), ("GET", CHANNEL, None)]
    assert counts(client) == (0, 0, 0)


def test_a_response_without_a_number_is_used_and_skipped_in_the_log(over, device_id):
    answer = {"status": 200, "payload": "MjEuNQ=="}
    client, _ = over(delayed_response(lambda async_id: {"async-response": answer | {"id": async_id}}))
    assert client.read_value(device_id, TEMPERATURE) == 21.5
    assert client.requests.begin_read(device_id, TEMPERATURE).result().python == 21.5
    assert counts(client) == (0, 0, 0)


@pytest.mark.parametrize(("status", "unreachable_count"), [(None, 5), (502, 0), (504, 0)])
def test_request_lost_during_a_long_poll_is_repeated(over, device_id, status, unreachable_count):
    """The server was killed and is away for a time, or a proxy has a shorter timeout than the hold of the request."""
    lost = []

    def lose(request, answer):
        if "Prefer" not in request.headers or lost:
            return answer
        lost.append(1)
        if status is None:
            raise httpx.ReadError("killed")
        return httpx.Response(status, headers={"Content-Type": "text/html"}, content=b"<html>Gateway</html>")

    def be_unreachable(request):
        if 0 < len(lost) <= unreachable_count:
            lost.append(1)
            raise httpx.ConnectError("not there", request=request)

    client, _ = over(lose, before=be_unreachable)
    record_pauses(client)
    client.write_value(device_id, SWITCH, True)
    assert len(lost) == 1 + unreachable_count
    assert len([event for event in client.events(after=0, timeout=0) if event.kind.name == "ASYNC_RESPONSE"]) == 1


def test_an_unreachable_server_is_reported_without_delay(over, device_id):
    tried = []

    def be_unreachable(request):
        if "Prefer" in request.headers:
            tried.append(1)
            raise httpx.ConnectError("not there", request=request)

    client, _ = over(before=be_unreachable)
    record_pauses(client)
    with pytest.raises(ConnectionFailed) as requested_kinds:
        client.read_value(device_id, TEMPERATURE)
    assert len(tried) == requested_kinds.value.attempts == 3
    assert not requested_kinds.value.was_sent


def test_a_request_that_the_server_does_not_hold_is_repeated_like_any_other(over, device_id):
    client, _ = over(lambda request, answer: httpx.Response(502) if request.method == "POST" else answer)
    record_pauses(client)
    with pytest.raises(ServerError) as requested_kinds:
        client.requests.begin_write(device_id, SWITCH, True)
    assert requested_kinds.value.attempts == 3


def test_a_webhook_ignores_earlier_and_repeated_responses(over, simulator, device_id):
    client, transport = over()
    client.subscribe(device_id, TEMPERATURE)
    for number in range(3):
        client.read_value(device_id, SWITCH)
        simulator.set_value(device_id, TEMPERATURE, number)
    client.read_value(device_id, SWITCH)
    with WebhookReceiver() as receiver:
        client.notifications.use_webhook(receiver)
        events = client.events(limit=1, timeout=60)
        simulator.set_value(device_id, TEMPERATURE, 30)
        assert [event.value.python for event in events] == [30.0]
        assert client.notifications.status().unclaimed == 0
        transport.requested_kinds()
        for _ in range(3):
            assert client.read_value(device_id, SWITCH) is False
        assert transport.requested_kinds() == [delayed(device_id)] * 3
        assert client.requests.begin_read(device_id, SWITCH).result().python is False
        assert counts(client) == (0, 0, 0)
        client.notifications.use_long_polling()


def test_a_cassette_replays_responses_through_polls(over, tmp_path, device_id):
    client, transport = over()
    transport.requested_kinds()
    with client.cassettes.use(tmp_path / "run.zip"):
        assert client.read_value(device_id, TEMPERATURE) == 21.5
    requests = transport.requested_kinds()
    assert requests[-1][1] == CHANNEL
    assert {prefer for _, _, prefer in requests} == {None}


def test_the_server_holds_one_request_of_many_tasks_at_a_time(mirror, run, device_id):
    transport = BridgeTransport(mirror)

    async def scene(client):
        values = await asyncio.gather(*(client.read_value(device_id, TEMPERATURE) for _ in range(20)))
        assert values == [21.5] * 20
        assert counts(client)[:2] == (0, 0)

    run(scene, transport)
    assert transport.max_delayed <= 1
    assert CHANNEL in {path for _, path, _ in transport.requested_kinds()}


def test_the_server_holds_one_request_of_many_threads_at_a_time(mirror, device_id):
    transport = BridgeTransport(mirror)
    begin = threading.Barrier(8)

    def read(client):
        begin.wait(60)
        return [client.read_value(device_id, TEMPERATURE) for _ in range(5)]

    with MirrorClient(URL, mirror.new_key(), transport=transport) as client, ThreadPoolExecutor(8) as threads:
        assert list(threads.map(read, [client] * 8)) == [[21.5] * 5] * 8
        assert counts(client)[:2] == (0, 0)
    assert transport.max_delayed <= 1


def test_a_cancelled_or_failed_read_lets_the_next_one_wait(mirror, simulator, run, device_id):
    transport = BridgeTransport(mirror)

    async def scene(client):
        assert await client.read_value(device_id, TEMPERATURE) == 21.5
        await asyncio.to_thread(simulator.set_response_mode, device_id, "silent")
        reading = asyncio.ensure_future(client.read_value(device_id, TEMPERATURE))
        while not transport.delayed:
            await asyncio.sleep(0)
        reading.cancel()
        await asyncio.wait([reading])
        assert reading.cancelled()
        await asyncio.to_thread(simulator.set_response_mode, device_id, "normal")
        await asyncio.to_thread(simulator.advance, 120)
        transport.requested_kinds()
        assert await client.read_value(device_id, TEMPERATURE) == 21.5
        assert transport.requested_kinds() == [delayed(device_id)]

    run(scene, transport)


@pytest.mark.parametrize("kind", [ResponseRouter, AsyncResponseRouter])
def test_a_forked_child_has_its_own_position(kind):
    class Reader:
        position = 7

        def at(self, position):
            return self

    router = kind(Reader(), ResponseMatcher())
    awaited_response = AwaitedResponse("a")
    with router.submitting(awaited_response, 60) as seconds, router.submitting(awaited_response, 60) as for_another:
        assert (seconds, for_another) == (HOLD_SECONDS, 0)
        router._after_fork_in_child()
        with router.submitting(awaited_response, 60) as in_child:
            assert in_child == HOLD_SECONDS
    with router.submitting(awaited_response, 60) as again:
        assert again == HOLD_SECONDS
