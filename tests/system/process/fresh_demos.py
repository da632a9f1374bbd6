"""A plugin for the run of nbval: each notebook has a demo server of its own, on a clock that stands still."""

import os
import signal
import tempfile
from pathlib import Path

import pytest
from process_server import Child, read_exports


class FreshDemos:
    """Gives the environment of the kernel that is about to start the way to a new server."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._notebook: Path | None = None
        self._demo: Child | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Before the first cell of a notebook, for which nbval starts the kernel."""
        if item.path != self._notebook:
            self._stop()
            self._notebook = item.path
            self._demo = Child("demo", "--port=0", "--clock=manual", stderr_path=self._folder / "demo-stderr.txt")
            os.environ |= read_exports(self._demo)

    def pytest_sessionfinish(self) -> None:
        """After the last cell of all."""
        self._stop()

    def _stop(self) -> None:
        if self._demo is not None:
            self._demo.send(signal.SIGTERM)
            self._demo.wait()
            self._demo.close()


def pytest_configure(config: pytest.Config) -> None:
    folder = tempfile.TemporaryDirectory(prefix="mirror-notebooks-")
    config.add_cleanup(folder.cleanup)
    config.pluginmanager.register(FreshDemos(Path(folder.name)))
