"""A real server inside the test, with simulated devices and a clock that stands still, and clients of it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from blocking import Blocking, Loop
from changed_answers import LIGHT, TEMPERATURE, between
from changed_answers import RESOURCES as ALL_KINDS
from databases import new_database_url

from mirror_sdk import AsyncMirrorClient, Bench, MirrorClient
from mirror_server import keys
from mirror_server.app import create_app
from mirror_server.bridge import Bridge
from mirror_server.callout import LOOPBACK
from mirror_server.config import Settings
from mirror_server.keys import Scope
from mirror_server.services import Services

URL = "http://mirror.localhost"
RESOURCES = [
    {"path": "/3303/0/5700", "value": "21.5", "observable": True},
    {"path": "/3311/0/5850", "value": "0", "observable": True, "writable": True},
    {"path": "/3/0/4", "value": "", "executable": True},
]


@dataclass
class Mirror:
    """A running server and what a client needs to reach it."""

    services: Services
    transport: httpx.WSGITransport
    async_transport: httpx.ASGITransport

    def new_key(self, *scopes: Scope) -> str:
        return keys.create(self.services.database, "test", scopes or tuple(Scope), self.services.clock.now())


@pytest.fixture
def mirror(tmp_path: Path) -> Iterator[Mirror]:
    settings = Settings(
        database_url=new_database_url(tmp_path), simulate=0, manual_clock=True, callback_networks=LOOPBACK
    )
    services = Services(settings)
    services.start()
    app = create_app(services)
    bridge = Bridge(app, max_body_bytes=settings.max_body_bytes, max_parked_polls=100)
    yield Mirror(services, httpx.WSGITransport(app=app), httpx.ASGITransport(app=bridge))
    services.close()


@pytest.fixture
def loop() -> Iterator[Loop]:
    """An event loop on which nothing is left at the end."""
    running = Loop()
    yield running
    left = running.tasks_left()
    running.close()
    assert left == 0


@pytest.fixture(params=["MirrorClient", "AsyncMirrorClient"])
def new_client(mirror: Mirror, request: pytest.FixtureRequest) -> Iterator[Callable[..., MirrorClient]]:
    """Makes clients of either kind; an asynchronous one is wrapped, so that it blocks."""
    clients: list[Any] = []
    loop: Loop | None = request.getfixturevalue("loop") if request.param == "AsyncMirrorClient" else None

    def make(*scopes: Scope) -> Any:
        key = mirror.new_key(*scopes)
        if loop is None:
            clients.append(MirrorClient(URL, key, transport=mirror.transport))
        else:
            clients.append(Blocking(AsyncMirrorClient(URL, key, transport=mirror.async_transport), loop))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


@pytest.fixture
def client(new_client: Callable[..., MirrorClient]) -> MirrorClient:
    return new_client()


@pytest.fixture
def bench(mirror: Mirror) -> Iterator[Bench]:
    with MirrorClient(URL, mirror.new_key(), transport=mirror.transport) as operator:
        yield Bench(operator)


@pytest.fixture
def device_id(bench: Bench) -> str:
    return bench.add_device("sensor-1", RESOURCES, endpoint_type="Light")


@pytest.fixture
def plain(mirror: Mirror) -> Iterator[MirrorClient]:
    """A client whose answers nobody touches."""
    with MirrorClient(URL, mirror.new_key(), transport=mirror.transport) as made:
        yield made


@pytest.fixture
def ids(bench: Bench, plain: MirrorClient) -> list[str]:
    """Four devices: with values and a write, without the unit, without resources, deregistered."""
    found = [bench.add_device("a", ALL_KINDS, endpoint_type="Light"), bench.add_device("b", ALL_KINDS[::2])]
    for resource in ALL_KINDS:
        plain.read_value(found[0], resource["path"])
    plain.write_value(found[0], LIGHT, True)
    plain.read_value(found[1], TEMPERATURE)
    found.append(bench.add_device("c", []))
    found.append(bench.add_device("d", ALL_KINDS[:1]))
    bench.deregister(found[3])
    return found


@pytest.fixture(params=["MirrorClient", "AsyncMirrorClient"])
def client_over(mirror: Mirror, request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """Makes clients whose answers are changed on the way."""
    made: list[Any] = []
    loop = request.getfixturevalue("loop") if request.param == "AsyncMirrorClient" else None

    def make(change: Callable[..., httpx.Response]) -> Any:
        sync, twin = between(change)
        key = mirror.new_key()
        if loop is None:
            made.append(MirrorClient(URL, key, transport=sync(mirror.transport)))
        else:
            made.append(Blocking(AsyncMirrorClient(URL, key, transport=twin(mirror.async_transport)), loop))
        return made[-1]

    yield make
    for client in made:
        client.close()
