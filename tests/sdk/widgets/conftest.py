"""Fixtures for widgets. Widgets need the synchronous client, whose requests can be counted here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import httpx
import pytest
from client_test_data import DIMMER, LAMP, OWN, SENSOR, URL, Clock, add_lights

from mirror_sdk import MirrorClient
from mirror_sdk.widgets.models.model import run_now
from mirror_server.hooks import Extensions
from mirror_server.store import maintenance


class CountingTransport(httpx.BaseTransport):
    """A transport that records the requests to the server, except for polls and checks for a history."""

    def __init__(self, server: httpx.BaseTransport) -> None:
        self._server = server
        self.requests: list[str] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        method_and_path = f"{request.method} {request.url.path}"
        if not method_and_path.endswith(("/pull", "/history")):
            self.requests.append(method_and_path)
        if request.url.params.get("hold", "0") != "0":
            # An open poll cannot be interrupted here, and the end of a test waits for threads with one.
            request.url = request.url.copy_set_param("hold", 1)
        return self._server.handle_request(request)


@pytest.fixture
def transport(mirror: Any) -> CountingTransport:
    return CountingTransport(mirror.transport)


@pytest.fixture
def client(mirror: Any, transport: CountingTransport) -> Iterator[MirrorClient]:
    with MirrorClient(URL, mirror.new_key(), transport=transport) as one:
        yield one


@pytest.fixture
def widget(client: MirrorClient) -> Iterator[Callable[..., Any]]:
    """Create widgets and close them at the end."""
    made: list[Any] = []

    def make(kind: Any, *arguments: Any, **options: Any) -> Any:
        made.append(kind(client, *arguments, **{"live": False} | options))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def lights(client: MirrorClient, simulator: Any) -> list[str]:
    """Three lights whose level was read once."""
    return add_lights(simulator, 3, client, [DIMMER, LAMP, SENSOR, {"path": OWN, "value": "x"}])


@pytest.fixture
def erase(mirror: Any) -> Callable[[str], object]:
    """Remove a device like an operator does."""
    return lambda device_id: mirror.services.database.write(
        lambda at: maintenance.erase_device(at, device_id, Extensions().storages)
    )


class Later:
    """A scheduler that makes calls on demand, in any order."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def __call__(self, call: Any, then: Any, failed: Any) -> None:
        self.waiting.append(partial(run_now, call, then, failed))

    def make(self, index: int = 0) -> None:
        self.waiting.pop(index)()

    def make_all(self) -> None:
        while self.waiting:
            self.make()


@pytest.fixture
def later() -> Later:
    return Later()


@pytest.fixture
def seconds() -> Clock:
    return Clock(1000.0)
