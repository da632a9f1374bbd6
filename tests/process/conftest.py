"""Fixtures: servers in separate processes."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from process_server import CALLS_THIS_MACHINE, Application, Child, ServerProcess, read_exports

if TYPE_CHECKING:
    from process_websockets import Silent, Sockets

StartServer = Callable[..., ServerProcess]


@pytest.fixture
def start_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartServer]:
    """Start servers on separate databases, and stop them at the end of the test."""
    servers: list[ServerProcess] = []

    def start(*options: str, **variables: str) -> ServerProcess:
        server = ServerProcess(tmp_path_factory.mktemp("server"), *options, **variables)
        servers.append(server)
        return server.start()

    yield start
    for server in servers:
        server.close()


@pytest.fixture(scope="module")
def simulated() -> int:
    """The number of simulated devices of the shared server."""
    return 2


@pytest.fixture(scope="module")
def shared_server(tmp_path_factory: pytest.TempPathFactory, simulated: int) -> Iterator[ServerProcess]:
    """One server with simulated devices for all tests of a module that do not stop it."""
    options = ("--simulate", str(simulated), "--clock", "manual", *CALLS_THIS_MACHINE)
    server = ServerProcess(tmp_path_factory.mktemp("shared"), *options)
    try:
        yield server.start()
    finally:
        server.close()


@pytest.fixture
def application(shared_server: ServerProcess) -> Application:
    """A new application of the shared server, with all scopes."""
    return shared_server.application()


@pytest.fixture
def sockets() -> Iterator[Sockets]:
    """Open websockets, which are closed at the end."""
    # Most tests here need no websocket library.
    from process_websockets import Sockets  # noqa: PLC0415

    with ExitStack() as opened:
        yield Sockets(opened)


@pytest.fixture
def open_silent() -> Iterator[Callable[..., Silent]]:
    """Open websockets without a library, which are closed at the end."""
    from process_websockets import Silent  # noqa: PLC0415 - as above

    with ExitStack() as opened:

        def open_one(*arguments: Any, **options: Any) -> Silent:
            one = Silent(*arguments, **options)
            opened.callback(one.close)
            return one

        yield open_one


@pytest.fixture
def demo_environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of a demo server with the usual twelve devices, on a clock that stands still."""
    demo = Child("demo", "--port=0", "--clock=manual", stderr_path=tmp_path / "demo-stderr.txt")
    try:
        yield read_exports(demo)
    finally:
        demo.send(signal.SIGTERM)
        demo.wait()
        demo.close()
