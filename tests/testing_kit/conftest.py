"""Fixtures of the kit for its own tests, and pytest runs of projects that have the package installed."""

import os
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from mirror_sdk import MirrorClient
from mirror_sdk.testing.in_process import InProcessServer
from mirror_sdk.testing.plugin import (
    clock,
    faults,
    fleet,
    mirror,
    mirror_clock,
    mirror_faults,
    mirror_fleet,
    mirror_in_process,
)

__all__ = [
    "clock",
    "faults",
    "fleet",
    "mirror",
    "mirror_clock",
    "mirror_faults",
    "mirror_fleet",
    "mirror_in_process",
]

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True, scope="session")
def _modules_are_loaded(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Load the modules of the server and the client.

    ``pytester`` forgets the modules that were first imported while it was in use. A later test would import them again,
    and then each class would exist twice.
    """
    server = InProcessServer(tmp_path_factory.mktemp("loaded"))
    client = MirrorClient("http://mirror.test", server.new_key(["read"]), transport=server)
    client.devices.list()
    client.close()
    server.stop()


@pytest.fixture
def run_project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Callable[..., pytest.RunResult]:
    """Run pytest in a new folder and a separate process, like a project in which the package is installed.

    For pytest, an installed package is the entry point that the project declares. Other plugins are disabled.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    site = pytester.mkdir("site")
    info = site / "device_state_mirror_here-0.dist-info"
    info.mkdir()
    declared = "\n".join(f"{name} = {module}" for name, module in project["entry-points"]["pytest11"].items())
    (info / "entry_points.txt").write_text(f"[pytest11]\n{declared}\n")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: device-state-mirror-here\nVersion: 0\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(site)]))
    for name in ["API_HOST", "API_KEY", "PYTEST_ADDOPTS", "PYTEST_PLUGINS"]:
        monkeypatch.delenv(name, raising=False)
    others = [plugin for plugin in ("schemathesis", "hypothesispytest", "anyio") for plugin in ("-p", f"no:{plugin}")]

    def run(*arguments: str) -> pytest.RunResult:
        return pytester.runpytest_subprocess("-p", "no:cacheprovider", *others, *arguments, timeout=60)

    return run


@pytest.fixture
def run_here(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Callable[..., pytest.RunResult]:
    """Run pytest in a new folder with the plugin, in this process, which saves its start."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    for name in ["API_HOST", "API_KEY", "PYTEST_ADDOPTS", "PYTEST_PLUGINS"]:
        monkeypatch.delenv(name, raising=False)
    plugins = ["-p", "mirror_sdk.testing.plugin", "-p", "no:cacheprovider"]
    # The assertions of these modules are already rewritten, or not at all.
    plugins += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    return lambda *arguments: pytester.runpytest_inprocess(*plugins, *arguments)
