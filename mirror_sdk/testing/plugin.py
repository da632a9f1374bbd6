"""The pytest plugin: the fixtures of :mod:`mirror_sdk.testing` and the options of the conformance tests.

pytest finds it by itself once the package is installed. Until a fixture is asked for, it loads nothing but the client.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from mirror_sdk.testing.clock import Clock
from mirror_sdk.testing.device import FleetDevice
from mirror_sdk.testing.faults import Faults
from mirror_sdk.testing.mirror import Mirror

_CONFORMANCE = Path(__file__).parent / "conformance"


class AddFleet(Protocol):
    """What the fixture ``fleet`` gives."""

    def __call__(self, n: int, seed: int = 0) -> list[FleetDevice]:
        """Add simulated devices; see :meth:`Mirror.add_fleet`."""
        ...


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the conformance tests."""
    group = parser.getgroup("mirror", "conformance of a device state mirror")
    group.addoption(
        "--mirror-url",
        metavar="URL",
        help="Run the conformance tests of mirror_sdk.testing against this server, unless other tests are named."
        " Without it they take API_HOST of the environment.",
    )
    group.addoption(
        "--mirror-key",
        metavar="KEY",
        help="Access key for the conformance tests, best one of their own. Without it they take API_KEY of the"
        " environment. The scope admin lets them play the server's simulated devices, if it has any.",
    )
    group.addoption(
        "--mirror-device",
        metavar="ID",
        help="Device that the conformance tests may read. Without it they add a simulated one, or take the first"
        " registered one of the directory.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Take the conformance tests where a server is named and no tests are."""
    if config.getoption("--mirror-url") and config.args_source is not pytest.Config.ArgsSource.ARGS:
        config.args = sorted(str(path) for path in _CONFORMANCE.glob("test_*.py"))


@pytest.fixture
def mirror(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mirror]:
    """A mirror of this test alone: server, devices and clients in this process, on a clock that stands still."""
    with Mirror(tmp_path_factory.mktemp("mirror")) as running:
        yield running


@pytest.fixture
def clock(mirror: Mirror) -> Clock:
    """The clock of the mirror; ``clock.advance("1h")``."""
    return mirror.clock


@pytest.fixture
def fleet(mirror: Mirror) -> AddFleet:
    """Adds simulated devices of all kinds to the mirror; ``fleet(6, seed=1)``."""
    return mirror.add_fleet


@pytest.fixture
def faults(mirror: Mirror) -> Faults:
    """What is to go wrong in the mirror; ``faults.drop("answer")``."""
    return mirror.faults
