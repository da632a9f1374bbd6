"""Fixtures and settings of all tests.

A test that stops, kills or fills up nothing uses ``shared_server``, one per module, with its own key:
``shared_server.key()``. In ``tests/server`` that server runs in the process of the test, in ``tests/process`` in a
separate one. A test that needs a server for itself uses ``server``, ``mirror`` or ``start_server``. Their databases are
copies of one that is created once.
"""

import gc
import logging
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

import databases
import pytest
from hypothesis import HealthCheck, settings
from werkzeug.routing import Rule

from mirror_server.hooks import Extensions
from mirror_server.store import schema
from mirror_server.store.backend import Storage

TESTS = Path(__file__).parent
SYSTEM = TESTS / "system"
BROWSER = SYSTEM / "browser"
WITHOUT_SHARED_LAB = (
    "test_binder_image.py", "test_launcher_tile.py", "test_notebooks_in_lab.py", "test_page_in_browser.py",
)  # fmt: skip
"""Files of BROWSER that start their own JupyterLab or server."""

THREAD_END_SECONDS = 60
"""Time for threads to end. A stopped watch ends with its open poll, after half a minute at most."""
LASTING_THREADS = ("Dask-Offload", "IPythonHistorySavingThread", "download", "tqdm_monitor")
"""Threads that libraries, and the server for its downloads, start once and use until the process ends."""

# Servers, workers and the next run load bytecode, as installed programs do. Otherwise each of hundreds of processes
# compiles the entire package, and each worker rewrites every assertion.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Tests of the test kit run pytest themselves.
pytest_plugins = ["pytester", "failures"]

# The duration of an example, and of its creation, says more about the machine than about the code.
settings.register_profile("mirror", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
if settings.get_current_profile_name() == "default":
    settings.load_profile("mirror")


@pytest.fixture(autouse=True)
def _databases_of_a_test() -> Iterator[None]:
    """Drop the PostgreSQL databases that the test created. Those of its module are dropped with the server."""
    first = databases.mark()
    yield
    databases.drop_since(first)


@pytest.fixture(autouse=True, scope="module")
def _nothing_outlives_its_module(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a module whose threads or processes, including those of its shared servers, still run at its end.

    Browsers, labs and clusters of tests/system last longer.
    """
    if SYSTEM in request.path.parents:
        yield
        return
    threads, processes = set(threading.enumerate()), child_processes()
    yield
    check_threads_ended(threads)
    left = child_processes() - processes - {getattr(resource_tracker._resource_tracker, "_pid", None)}
    assert not left, [(Path("/proc") / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ") for pid in left]


@pytest.fixture(autouse=True)
def _no_thread_outlives_its_test(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that does not end its threads. Threads of a shared fixture may run until the end of their module."""
    threads = set(threading.enumerate())
    yield
    if SYSTEM not in request.path.parents and not uses_shared_fixture(request.node):
        check_threads_ended(threads)


@pytest.fixture
def next_version(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the program a newer version of the core's schema, and one more extension, than the test databases have."""
    databases.make_template()
    folder = tmp_path_factory.mktemp("next")
    added, before = Storage(branch=databases.extension(folder, 2)), Extensions().storages
    monkeypatch.setattr(schema, "CORE", databases.next_core(folder))
    monkeypatch.setattr(Extensions, "storages", [*before, added])


@pytest.fixture(autouse=True)
def _log_is_as_before() -> Iterator[None]:
    """Restore the logging setup after the test, because commands that run in its process change it."""
    loggers = [logging.getLogger(name) for name in (None, "mirror_server", "mirror_server.requests")]
    levels, handlers = [logger.level for logger in loggers], list(logging.root.handlers)
    yield
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)
    for handler in list(logging.root.handlers):
        if handler not in handlers:
            logging.root.removeHandler(handler)
            handler.close()


def uses_shared_fixture(item: Any) -> bool:
    fixtures = item._fixtureinfo.name2fixturedefs
    return any(found[-1].scope == "module" for name, found in fixtures.items() if not name.startswith("_"))


def check_threads_ended(before: set[threading.Thread]) -> None:
    deadline = time.monotonic() + THREAD_END_SECONDS
    started = [
        thread
        for thread in threading.enumerate()
        if thread not in before and not thread.name.startswith(LASTING_THREADS)
    ]
    for thread in started:
        thread.join(max(0, deadline - time.monotonic()))
    left = [thread.name for thread in started if thread.is_alive()]
    assert not left, f"threads that outlive their test: {left}"


def child_processes() -> set[int]:
    """Return the ids of this process's children; empty on systems without Linux's /proc."""
    found: set[int] = set()
    for file in Path("/proc/self/task").glob("*/children"):
        # A thread may end in the meantime.
        with suppress(OSError):
            found.update(map(int, file.read_text().split()))
    return found


def pytest_runtest_setup(item: pytest.Item) -> None:
    if databases.ON_POSTGRESQL and item.get_closest_marker("sqlite"):
        pytest.skip("tests the SQLite file")
    for marker in item.iter_markers("with_extension"):
        # The tests of an extension pass without the others. Tests of two extensions together need both.
        if find_spec(f"mirror_server.extensions.{marker.args[0]}") is None:
            pytest.skip(f"the extension {marker.args[0]} was deleted")


_compile_builder = Rule._compile_builder
_builders: dict[tuple[object, ...], Any] = {}


def _compile_builder_once(rule: Rule, append_unknown: bool = True) -> Any:
    """Compile the builder of a route once for all apps, since this takes longest when a server starts.

    All servers of the tests have the same routes.
    """
    key = (rule.rule, rule.subdomain, rule.host, repr(rule.defaults), append_unknown)
    if key not in _builders:
        _builders[key] = _compile_builder(rule, append_unknown)
    return _builders[key]


Rule._compile_builder = _compile_builder_once  # type: ignore[method-assign]


def shares_lab(file: Path) -> bool:
    """Return whether the tests of this file use the JupyterLab that several files share."""
    return file.is_relative_to(BROWSER) and file.name not in WITHOUT_SHARED_LAB


def rank(item: pytest.Item) -> int:
    """Return the order of a test. The slowest come first: browsers, then processes."""
    if item.path.is_relative_to(BROWSER):
        return 0
    return 2 - bool(item.get_closest_marker("process"))


class SameOnEveryDatabase(pytest.Module):
    """A test file that does not depend on the database, and is not even imported."""

    def collect(self) -> list[pytest.Item]:
        return []


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    relative_path = module_path.relative_to(TESTS).as_posix() if module_path.is_relative_to(TESTS) else ""
    if databases.ON_POSTGRESQL and relative_path.startswith(databases.SAME_ON_EVERY_DATABASE):
        return SameOnEveryDatabase.from_parent(parent, path=module_path)
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=rank)


def pytest_collection_finish() -> None:
    # What was imported and collected stays to the end: without this, each full collection takes up to a second.
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Let one worker run all tests of the shared JupyterLab, from the start; the others run a file at a time."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling  # noqa: PLC0415 - only where there are workers

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            return "shared lab" if shares_lab(config.rootpath / file) else file

    config.option.loadscopereorder = False
    return Scheduling(config, log)


def pytest_unconfigure() -> None:
    databases.remove_templates()
