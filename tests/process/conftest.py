"""Servers in processes of their own."""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
from playwright.sync_api import Browser, expect, sync_playwright
from process_lab import ADDRESS, Lab
from process_server import CALLS_THIS_MACHINE, Application, Child, ServerProcess, read_exports

T = TypeVar("T")
StartServer = Callable[..., ServerProcess]
BROWSER_FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]


class _Shared:
    """What all tests with a browser share, from the first that asks for it to the last one of them."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._made: dict[Callable[[], AbstractContextManager[Any]], Any] = {}

    def one(self, make: Callable[[], AbstractContextManager[T]]) -> T:
        if make not in self._made:
            self._made[make] = self._stack.enter_context(make())
        found: T = self._made[make]
        return found

    def end(self) -> None:
        self._made.clear()
        self._stack.close()


_shared = _Shared()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    # Not later: beside playwright no other event loop can run, and JupyterLab and its mirror would take their time.
    if nextitem is None or not nextitem.get_closest_marker("browser"):
        _shared.end()


@contextmanager
def _chromium() -> Iterator[Browser]:
    chromium = shutil.which("chromium")
    assert chromium, "install Debian's package chromium"
    expect.set_options(timeout=20_000)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium, args=BROWSER_FLAGS)
        yield started
        started.close()
    expect.set_options(timeout=5_000)


@pytest.fixture
def browser() -> Browser:
    """Debian's chromium. A page may take long to show what it will; where a test bounds it, it says so."""
    return _shared.one(_chromium)


@contextmanager
def _lab() -> Iterator[Lab]:
    with tempfile.TemporaryDirectory(prefix="mirror-lab-") as folder:
        running = Lab(Path(folder))
        try:
            running.find(ADDRESS)
            yield running
        finally:
            running.close()


@pytest.fixture
def lab() -> Lab:
    """``mirror lab`` with a few devices; each test adds devices with names of its own."""
    return _shared.one(_lab)


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
