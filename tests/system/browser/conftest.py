"""Fixtures: a browser and a JupyterLab. All tests of this folder share them, because they start slowly."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect, sync_playwright
from process_lab import ADDRESS, Lab
from process_server import PATIENCE_SECONDS

from tests.process.conftest import *  # noqa: F403 - fixtures

HERE = Path(__file__).parent
BROWSER_FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]


_opened = ExitStack()


@cache
def _shared(make: Callable[[], AbstractContextManager[Any]]) -> Any:
    """The resources that the tests of this folder share, from their first use to the last test."""
    return _opened.enter_context(make())


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    # Not later: while playwright runs, no other event loop can run, and JupyterLab and its mirror would take their
    # time.
    if nextitem is None or not nextitem.path.is_relative_to(HERE):
        _shared.cache_clear()
        _opened.close()


@contextmanager
def _chromium() -> Iterator[Browser]:
    chromium = shutil.which("chromium")
    expect.set_options(timeout=PATIENCE_SECONDS * 1000)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium, args=BROWSER_FLAGS)
        yield started
        started.close()
    expect.set_options(timeout=5_000)


@pytest.fixture
def browser() -> Browser:
    """Debian's chromium, with a long default timeout. A test that limits a time sets its own."""
    started: Browser = _shared(_chromium)
    return started


@contextmanager
def _lab() -> Iterator[Lab]:
    with tempfile.TemporaryDirectory(prefix="mirror-lab-") as folder:
        running = Lab(Path(folder), "--devices=12")
        try:
            running.find(ADDRESS)
            yield running
        finally:
            running.close()


@pytest.fixture
def lab() -> Lab:
    """A process of ``mirror lab`` with the devices of its notebooks. Each test adds devices with its own names."""
    running: Lab = _shared(_lab)
    return running
