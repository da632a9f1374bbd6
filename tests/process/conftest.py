"""Servers in processes of their own."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect, sync_playwright
from process_lab import ADDRESS, Lab
from process_server import CALLS_THIS_MACHINE, Application, Child, ServerProcess, read_exports

StartServer = Callable[..., ServerProcess]
BROWSER_FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's chromium. A page may take long to show what it will; where a test bounds it, it says so."""
    chromium = shutil.which("chromium")
    assert chromium, "install Debian's package chromium"
    expect.set_options(timeout=20_000)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium, args=BROWSER_FLAGS)
        yield started
        started.close()
    expect.set_options(timeout=5_000)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """``mirror lab`` with a few devices."""
    running = Lab(tmp_path_factory.mktemp("lab"))
    try:
        running.find(ADDRESS)
        yield running
    finally:
        running.close()


@pytest.fixture
def start_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartServer]:
    """Starts servers on databases of their own; they are stopped at the end of the test."""
    servers: list[ServerProcess] = []

    def start(*options: str, **variables: str) -> ServerProcess:
        server = ServerProcess(tmp_path_factory.mktemp("server"), *options, **variables)
        servers.append(server)
        return server.start()

    yield start
    for server in servers:
        server.close()


@pytest.fixture(scope="module")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One server with two simulated devices for all tests of a module that leave it running."""
    server = ServerProcess(
        tmp_path_factory.mktemp("shared"), "--simulate", "2", "--clock", "manual", *CALLS_THIS_MACHINE
    )
    try:
        yield server.start()
    finally:
        server.close()


@pytest.fixture
def application(shared_server: ServerProcess) -> Application:
    """A new application of the shared server, with all scopes."""
    return shared_server.application()


@pytest.fixture
def plain_folder(tmp_path: Path) -> Path:
    """An empty folder."""
    return tmp_path


@pytest.fixture
def demo_environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A demo server of the usual twelve devices on a clock that stands still; gives what leads to it."""
    demo = Child("demo", "--port=0", "--clock=manual", stderr_path=tmp_path / "demo-stderr.txt")
    try:
        yield read_exports(demo)
    finally:
        demo.send(signal.SIGTERM)
        demo.wait()
        demo.close()
