"""The pytest plugin.

It provides the fixtures that ``mirror help testing`` describes, and the options of the conformance tests.

pytest loads the plugin in every project once the package is installed. Until a fixture is used, the plugin therefore
imports only pytest and the standard library. The actual fixtures have long names that no project uses. The short names
are aliases. No fixture in this module uses an alias, so a project may define a fixture such as ``clock`` itself.
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
    """The function that the fixture ``fleet`` returns."""

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
    """Register the marker.

    If a server but no test is specified on the command line, select the conformance tests.
    """
    config.addinivalue_line(
        "markers",
        "mirror_cassette(file): the cassette of the fixtures mirror_cassette and mirror_cassette_file; a relative path"
        " is one from the folder of the test",
    )
    if config.getoption("--mirror-url") and config.args_source is not pytest.Config.ArgsSource.ARGS:
        config.args = sorted(str(path) for path in _CONFORMANCE.glob("test_*.py"))


@pytest.fixture
def mirror_in_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mirror]:
    """A mirror for this test, with a server, devices and clients in this process and a clock that stands still."""
    # The mirror is imported here, because every project on the machine loads this module.
    from mirror_sdk.testing.mirror import Mirror

    with Mirror(tmp_path_factory.mktemp("mirror")) as running:
        yield running


@pytest.fixture
def mirror_clock(mirror_in_process: Mirror) -> Clock:
    """The clock of the mirror. Example: ``mirror_clock.advance("1h")``."""
    return mirror_in_process.clock


@pytest.fixture
def mirror_fleet(mirror_in_process: Mirror) -> AddFleet:
    """A function that adds simulated devices of all kinds to the mirror. Example: ``mirror_fleet(6, seed=1)``."""
    return mirror_in_process.add_fleet


@pytest.fixture
def mirror_faults(mirror_in_process: Mirror) -> Faults:
    """The faults of the mirror. Example: ``mirror_faults.drop("response")``."""
    return mirror_in_process.faults


@pytest.fixture
def mirror(mirror_in_process: Mirror) -> Mirror:
    """A short alias of ``mirror_in_process``, which a project may override."""
    return mirror_in_process


@pytest.fixture
def clock(mirror_clock: Clock) -> Clock:
    """A short alias of ``mirror_clock``, which a project may override."""
    return mirror_clock


@pytest.fixture
def fleet(mirror_fleet: AddFleet) -> AddFleet:
    """A short alias of ``mirror_fleet``, which a project may override."""
    return mirror_fleet


@pytest.fixture
def faults(mirror_faults: Faults) -> Faults:
    """A short alias of ``mirror_faults``, which a project may override."""
    return mirror_faults


@pytest.fixture
def mirror_cassette_file(request: pytest.FixtureRequest) -> Path:
    """The path of the cassette in the marker of the test."""
    marker = request.node.get_closest_marker("mirror_cassette")
    if marker is None or len(marker.args) != 1:
        raise pytest.UsageError('the test needs the name of its cassette: @pytest.mark.mirror_cassette("name.zip")')
    file: Path = request.path.parent / marker.args[0]
    return file


@pytest.fixture
def mirror_cassette(mirror_cassette_file: Path, request: pytest.FixtureRequest) -> Iterator[MirrorClient]:
    """A client that replays the cassette of the test without a service.

    If the cassette does not exist, the client records it.

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
    """Store whether a test failed, so that the teardown of its fixtures can use it."""
    report = yield
    if report.when == "call":
        item.stash[_FAILED] = report.failed
    return report
