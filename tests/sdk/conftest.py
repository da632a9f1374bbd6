"""A real server inside the test, with simulated devices and a clock that stands still, and clients of it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from mirror_sdk import Bench, MirrorClient
from mirror_server import keys
from mirror_server.app import create_app
from mirror_server.config import Settings
from mirror_server.keys import Scope
from mirror_server.services import Services

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

    def new_key(self, *scopes: Scope) -> str:
        return keys.create(self.services.database, "test", scopes or tuple(Scope), self.services.clock.now())


@pytest.fixture
def mirror(tmp_path: Path) -> Iterator[Mirror]:
    settings = Settings(database_url=f"sqlite:///{tmp_path}/mirror.db", simulate=0, manual_clock=True)
    services = Services(settings)
    services.start()
    yield Mirror(services, httpx.WSGITransport(app=create_app(services)))
    services.close()


@pytest.fixture
def new_client(mirror: Mirror) -> Iterator[Callable[..., MirrorClient]]:
    clients: list[MirrorClient] = []

    def make(*scopes: Scope) -> MirrorClient:
        clients.append(MirrorClient("http://mirror.localhost", mirror.new_key(*scopes), transport=mirror.transport))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


@pytest.fixture
def client(new_client: Callable[..., MirrorClient]) -> MirrorClient:
    return new_client()


@pytest.fixture
def bench(client: MirrorClient) -> Bench:
    return Bench(client)


@pytest.fixture
def device_id(bench: Bench) -> str:
    return bench.add_device("sensor-1", RESOURCES, endpoint_type="Light")
