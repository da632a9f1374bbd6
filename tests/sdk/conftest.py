"""Fixtures: a real server inside the test, with simulated devices and a clock that stands still, and clients of it."""

import asyncio
import gc
import threading
import time
import warnings
import webbrowser
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from wsgiref.types import StartResponse, WSGIEnvironment

import httpx
import pytest
from blocking_client import LAST_TURNS, Blocking, Loop
from changed_responses import LIGHT, TEMPERATURE, Between
from changed_responses import RESOURCES as ALL_KINDS
from click.testing import CliRunner, Result
from client_test_data import RESOURCES, URL
from databases import new_database_url
from werkzeug.serving import make_server

from mirror_sdk import AsyncMirrorClient, MirrorClient, Simulator
from mirror_sdk.cli import main
from mirror_server.config import Settings
from mirror_server.hooks import read_settings
from mirror_server.notifications.webhook_limits import LOOPBACK
from mirror_server.server import Services
from mirror_server.service import keys
from mirror_server.service.keys import Scope
from mirror_server.web.asgi_bridge import ASGIBridge
from mirror_server.web.flask_app import create_app

LONGEST_END_SECONDS = 60


@dataclass
class Mirror:
    """A running server with everything that a client needs to reach it."""

    services: Services
    transport: httpx.WSGITransport
    async_transport: httpx.ASGITransport

    @property
    def either_transport(self) -> Between:
        """A transport for clients of either kind."""
        return Between(self)

    def new_key(self, *scopes: Scope) -> str:
        return keys.create(self.services.database, "test", scopes or tuple(Scope), self.services.clock.now())


@pytest.fixture
def history_seconds(request: pytest.FixtureRequest) -> float | None:
    """Return a week for tests with the mark ``keeps_history``, otherwise ``None`` for no history."""
    mark = request.node.get_closest_marker("keeps_history")
    return None if mark is None or mark.args == (False,) else 7 * 86_400.0


@pytest.fixture
def manual_clock() -> bool:
    """Return whether the clock stands still until the simulator advances it. A test may override this."""
    return True


@pytest.fixture
def mirror(tmp_path: Path, history_seconds: float | None, manual_clock: bool) -> Iterator[Mirror]:
    settings = read_settings(
        database_url=new_database_url(tmp_path),
        simulate=0,
        manual_clock=manual_clock,
        callback_networks=LOOPBACK,
        keep_history_seconds=history_seconds,
    )
    services = Services(settings)
    services.start()
    app = create_app(services)
    bridge = ASGIBridge(app, Settings(max_body_bytes=settings.max_body_bytes, max_parked_polls=100))
    yield Mirror(services, httpx.WSGITransport(app=app), httpx.ASGITransport(app=bridge))
    # The open poll of a watch ends with its server. Otherwise it would last half a minute, during later tests.
    app.stopping.set()
    end_at = time.monotonic() + LONGEST_END_SECONDS
    while app.blocking_polls.in_use and time.monotonic() < end_at:
        time.sleep(0.01)
    services.close()


@pytest.fixture
def loop() -> Iterator[Loop]:
    """An event loop on which no task may remain at the end."""
    running = Loop()
    yield running
    left = running.tasks_left()
    running.close()
    assert left == 0


@pytest.fixture
def run(mirror: Mirror) -> Callable[..., Any]:
    """Run a scene with an asynchronous client on a new loop. It must leave no task and cause no warning."""

    def run(
        scene: Callable[[AsyncMirrorClient], Awaitable[Any]],
        transport: httpx.AsyncBaseTransport = mirror.async_transport,
        loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
    ) -> Any:
        async def complete_call() -> Any:
            async with AsyncMirrorClient(URL, mirror.new_key(), transport=transport) as client:
                result = await asyncio.wait_for(scene(client), 60)
            for _ in range(LAST_TURNS):
                await asyncio.sleep(0)
            assert asyncio.all_tasks() == {asyncio.current_task()}
            return result

        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with asyncio.Runner(loop_factory=loop_factory) as runner:
                result = runner.run(complete_call())
            gc.collect()
        return result

    return run


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test on the asynchronous client, and with the mark ``both_clients`` on the synchronous one too.

    Most synchronous code is generated from the asynchronous code (tests/test_sync_twins.py). Only code that is written
    separately for each client needs both: sending, reading the log, recorders, and writes in flight.
    """
    if "client_of" in metafunc.fixturenames:
        both = metafunc.definition.get_closest_marker("both_clients")
        kinds = ["MirrorClient", "AsyncMirrorClient"] if both else ["AsyncMirrorClient"]
        metafunc.parametrize("client_of", kinds, indirect=True)


@pytest.fixture
def client_of(request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """Create clients of an address. An asynchronous client is wrapped, so that it blocks."""
    loop: Loop | None = request.getfixturevalue("loop") if request.param == "AsyncMirrorClient" else None
    with ExitStack() as made:

        def make(url: str = "http://localhost", key: str = "key", **options: Any) -> Any:
            if loop is None:
                return made.enter_context(MirrorClient(url, key, **options))
            return made.enter_context(Blocking(AsyncMirrorClient(url, key, **options), loop))

        yield make


@pytest.fixture
def new_client(mirror: Mirror, client_of: Callable[..., Any]) -> Callable[..., Any]:
    """Create clients of either kind for the server, each with its own key."""
    return lambda *scopes: client_of(URL, mirror.new_key(*scopes), transport=mirror.either_transport)


@pytest.fixture
def address(mirror: Mirror) -> Iterator[str]:
    """The address of the test's server, for clients over real connections."""

    def app(environ: WSGIEnvironment, start_response: StartResponse) -> Iterator[bytes]:
        response = mirror.transport.app(environ, start_response)
        try:
            # Not "yield from": it would close the response a second time.
            for part in response:  # noqa: UP028
                yield part
        finally:
            # The development server does not close a response whose client has reset the connection, but it drops this
            # generator.
            getattr(response, "close", lambda: None)()

    server = make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    mirror.transport.app.stopping.set()
    server.shutdown()
    thread.join(60)
    server.server_close()


@pytest.fixture
def shell(mirror: Mirror, address: str, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Run the command ``mirror`` against the server, on a port, with its own key."""
    monkeypatch.setenv("API_HOST", address)
    monkeypatch.setenv("API_KEY", mirror.new_key())
    return lambda *words: CliRunner().invoke(main, [str(word) for word in words])


@pytest.fixture
def client(new_client: Callable[..., Any]) -> Any:
    return new_client()


@pytest.fixture
def simulator(mirror: Mirror) -> Iterator[Simulator]:
    with MirrorClient(URL, mirror.new_key(), transport=mirror.transport) as operator:
        yield Simulator(operator)


@pytest.fixture
def device_id(simulator: Simulator) -> str:
    return simulator.add_device("sensor-1", RESOURCES, endpoint_type="Light")


@pytest.fixture
def plain(mirror: Mirror) -> Iterator[MirrorClient]:
    """A client with unchanged responses."""
    with MirrorClient(URL, mirror.new_key(), transport=mirror.transport) as made:
        yield made


@pytest.fixture
def ids(simulator: Simulator, plain: MirrorClient) -> list[str]:
    """Four devices: with values and a write, without the unit, without resources, deregistered."""
    found = [simulator.add_device("a", ALL_KINDS, endpoint_type="Light"), simulator.add_device("b", ALL_KINDS[::2])]
    for resource in ALL_KINDS:
        plain.read_value(found[0], resource["path"])
    plain.write_value(found[0], LIGHT, True)
    plain.read_value(found[1], TEMPERATURE)
    found.append(simulator.add_device("c", []))
    found.append(simulator.add_device("d", ALL_KINDS[:1]))
    simulator.deregister(found[3])
    return found


@pytest.fixture
def client_over(mirror: Mirror, client_of: Callable[..., Any]) -> Callable[..., Any]:
    """Create clients whose responses are changed in transit."""
    return lambda change: client_of(URL, mirror.new_key(), transport=Between(mirror, change))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder for a recording."""
    return tmp_path / "run.parquet"


@pytest.fixture
def settle(mirror: Mirror) -> Callable[[], object]:
    """Wait until all writes to the database are done."""
    return lambda: mirror.services.database.settle(10)


@pytest.fixture
def last_poll_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the last poll of a recorder short, instead of waiting for real time."""
    monkeypatch.setattr("mirror_sdk.recording.recorder.DEFAULT_HOLD_SECONDS", 1)


@pytest.fixture
def rivals(mirror: Mirror, client_of: Callable[..., Any]) -> list[Any]:
    """Two clients with one key."""
    key = mirror.new_key()
    return [client_of(URL, key, transport=mirror.either_transport) for _ in range(2)]


@pytest.fixture
def observed(client: MirrorClient, simulator: Simulator, device_id: str) -> Callable[..., datetime]:
    """Return a function that changes the observed temperature, a second after the last change, and returns the time."""
    client.subscribe(device_id, TEMPERATURE)
    simulator.advance(1)

    def change(*values: object) -> datetime:
        for value in values:
            simulator.advance(1)
            simulator.set_value(device_id, TEMPERATURE, value)
        return simulator.get_clock()

    return change


@pytest.fixture
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the address and the key of a service from the environment."""
    for name in ("API_HOST", "API_KEY", "API_PAGE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses that would be opened in a browser."""
    addresses: list[str] = []
    monkeypatch.setattr(webbrowser, "open", addresses.append)
    return addresses
