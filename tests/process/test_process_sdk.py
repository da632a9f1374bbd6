"""The SDK over a server that is killed and comes back, and in several processes with one key."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby

import httpx
import pytest
from process_server import ServerProcess, wait_until
from resource_paths import SWITCH, TEMPERATURE

from mirror_sdk import Bench, Event, EventKind, MirrorClient

pytestmark = pytest.mark.process

RESOURCES = [
    {"path": TEMPERATURE, "value": "0", "observable": True},
    {"path": SWITCH, "value": "0", "writable": True},
]

LONG_SECONDS = 120
"""For what takes some starts of a server, on a slow machine too."""


class CountingTransport(httpx.HTTPTransport):
    """The network, and how many held polls were sent into it and how many of them failed."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = 0
        self.failed = 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if not request.url.path.endswith("/pull") or request.url.params.get("hold") == "0":
            return super().handle_request(request)
        self.sent += 1
        try:
            return super().handle_request(request)
        except httpx.TransportError:
            self.failed += 1
            raise


@pytest.fixture
def server(start_server: Callable[..., ServerProcess]) -> ServerProcess:
    return start_server("--simulate", "0")


@pytest.fixture
def transport() -> CountingTransport:
    return CountingTransport()


@pytest.fixture
def client(server: ServerProcess, transport: CountingTransport) -> Iterator[MirrorClient]:
    with MirrorClient(server.url, server.key(), transport=transport) as made:
        yield made


def kill_in_mid_poll(server: ServerProcess, transport: CountingTransport) -> None:
    """Kill and restart the server; an SDK poll that is open fails by it."""
    wait_until(lambda: transport.sent > transport.failed, "a poll to be sent")
    failed = transport.failed
    server.kill()
    wait_until(lambda: transport.failed > failed, "the open poll to fail")
    server.start()


def test_a_request_waited_for_gets_its_answer_over_a_kill(server, client, transport):
    bench = Bench(client)
    device_id = bench.add_device("away", RESOURCES)
    bench.set_online(device_id, False)
    request = client.begin_write(device_id, SWITCH, True)
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(request.result, LONG_SECONDS)
        kill_in_mid_poll(server, transport)
        assert client.get_device(device_id)[SWITCH].desired.status.name == "PENDING"
        assert not answer.done()
        bench.set_online(device_id, True)
        answer.result(LONG_SECONDS)
    assert request.done()
    assert client.get_device(device_id)[SWITCH].desired.status.name == "SUCCESS"


def test_an_events_iterator_goes_on_over_kills_and_misses_nothing(server, client, transport):
    bench = Bench(client)
    device_id = bench.add_device("sensor", RESOURCES)
    client.subscribe(device_id, TEMPERATURE)
    wait_until(lambda: client.get_device(device_id)[TEMPERATURE].subscribed, "the subscription")
    last = 7
    seen: list[Event] = []
    events = client.events(timeout=LONG_SECONDS)

    def take() -> None:
        for event in events:
            seen.append(event)
            if event.value is not None and event.value.python == last:
                return

    taker = threading.Thread(target=take, daemon=True)
    taker.start()
    for number in range(1, last + 1):
        bench.set_value(device_id, TEMPERATURE, str(number))
        if number == 4:
            kill_in_mid_poll(server, transport)
    taker.join(LONG_SECONDS)
    assert not taker.is_alive()
    assert EventKind.GAP not in {event.kind for event in seen}
    observed = [event for event in seen if event.kind is EventKind.OBSERVATION]
    # A device that makes contact again reports the value it has once more, as an event of its own.
    values = [value for value, _ in groupby(event.value.python for event in observed if event.value)]
    assert values == list(range(1, last + 1))
    assert len({event.uid for event in observed}) == len(observed) >= last
