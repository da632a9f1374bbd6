"""The pytest plugin: the fixtures that ``mirror help testing`` describes and the options of the conformance tests.

pytest loads it in every project once the package is installed. So until a fixture is used, it imports nothing but
pytest and the standard library. The actual fixtures have long names that no project uses. The short names are
aliases. No fixture here uses an alias, so a project may define its own ``clock``.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest

if TYPE_CHECKING:
    from mirror_sdk._client import MirrorClient
    from mirror_sdk.testing.clock import Clock
    from mirror_sdk.testing.device import FleetDevice
    from mirror_sdk.testing.faults import Faults
    from mirror_sdk.testing.mirror import Mirror

_CONFORMANCE = Path(__file__).parent / "conformance"


class AddFleet(Protocol):
    """The function of the fixture ``fleet``."""

    def __call__(self, n: int, seed: int = 0) -> list[FleetDevice]:
        """Add simulated devices; see :meth:`Mirror.add_fleet`."""
        ...


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the conformance tests."""
    group = parser.getgroup("mirror", "conformance of a device state mirror")
    group.addoption(
        "--mirror-url",
        metavar="URL",
        help="Run the conformance tests of mirror_sdk.testing against this server, unless you name other tests."
        " By default the tests use the environment variable API_HOST.",
    )
    group.addoption(
        "--mirror-key",
        metavar="KEY",
        help="Access key for the conformance tests, preferably one that nothing else uses. By default the tests"
        " use the environment variable API_KEY. With the scope admin they control the server's simulated devices, if it"
        " has any.",
    )
    group.addoption(
        "--mirror-device",
        metavar="ID",
        help="Device that the conformance tests may read. By default the tests add a simulated device, or use the first"
        " registered device of the directory.",
    )
    group.addoption(
        "--mirror-cassettes",
        metavar="MODE",
        choices=["once", "replay", "record", "none"],
        default="once",
        help="Whether tests with the marker mirror_cassette replay their cassettes (replay), record them again"
        " (record), replay the existing ones and record the others (once), or connect to the service (none). Recording"
        " uses API_HOST and API_KEY of the environment.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and select the conformance tests if a server is named and no tests are."""
    config.addinivalue_line(
        "markers",
        "mirror_cassette(file): the cassette of the fixtures mirror_cassette and mirror_cassette_file; a relative path"
        " is one from the folder of the test",
    )
    if config.getoption("--mirror-url") and config.args_source is not pytest.Config.ArgsSource.ARGS:
        config.args = sorted(str(path) for path in _CONFORMANCE.glob("test_*.py"))


@pytest.fixture
def mirror_in_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mirror]:
    """A mirror of this test alone: server, devices and clients in this process, with a clock that stands still."""
    # Imported here: every project on the machine loads this module.
    from mirror_sdk.testing.mirror import Mirror

    with Mirror(tmp_path_factory.mktemp("mirror")) as running:
        yield running


@pytest.fixture
def mirror_clock(mirror_in_process: Mirror) -> Clock:
    """The clock of the mirror; ``mirror_clock.advance("1h")``."""
    return mirror_in_process.clock


@pytest.fixture
def mirror_fleet(mirror_in_process: Mirror) -> AddFleet:
    """Adds simulated devices of all kinds to the mirror; ``mirror_fleet(6, seed=1)``."""
    return mirror_in_process.add_fleet


@pytest.fixture
def mirror_faults(mirror_in_process: Mirror) -> Faults:
    """The faults of the mirror; ``mirror_faults.drop("response")``."""
    return mirror_in_process.faults


@pytest.fixture
def mirror(mirror_in_process: Mirror) -> Mirror:
    """Short for ``mirror_in_process``; a project may override it."""
    return mirror_in_process


@pytest.fixture
def clock(mirror_clock: Clock) -> Clock:
    """Short for ``mirror_clock``; a project may override it."""
    return mirror_clock


@pytest.fixture
def fleet(mirror_fleet: AddFleet) -> AddFleet:
    """Short for ``mirror_fleet``; a project may override it."""
    return mirror_fleet


@pytest.fixture
def faults(mirror_faults: Faults) -> Faults:
    """Short for ``mirror_faults``; a project may override it."""
    return mirror_faults


@pytest.fixture
def mirror_cassette_file(request: pytest.FixtureRequest) -> Path:
    """The path in the marker of the test."""
    marker = request.node.get_closest_marker("mirror_cassette")
    if marker is None or len(marker.args) != 1:
        raise pytest.UsageError('the test needs the name of its cassette: @pytest.mark.mirror_cassette("name.zip")')
    file: Path = request.path.parent / marker.args[0]
    return file


@pytest.fixture
def mirror_cassette(mirror_cassette_file: Path, request: pytest.FixtureRequest) -> Iterator[MirrorClient]:
    """A client that replays the cassette of the test without a service, or records it if it does not exist.

    If the test fails, the recording is discarded.
    """
    from mirror_sdk._client import MirrorClient

    mode = request.config.getoption("--mirror-cassettes")
    client = MirrorClient.from_cassette(mirror_cassette_file, mode=mode)
    yield client
    has_failed = request.node.stash.get(_FAILED, False)
    client._session.end(is_saved=not has_failed)


_FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Store whether a test failed, for the teardown of its fixtures."""
    report = yield
    if report.when == "call":
        item.stash[_FAILED] = report.failed
    return report
