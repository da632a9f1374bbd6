"""For all tests."""

from collections.abc import Iterator

import databases
import pytest
from hypothesis import settings

# Tests of the test kit run pytest themselves.
pytest_plugins = ["pytester"]

# How long an example takes says more about the machine than about the code.
settings.register_profile("mirror", deadline=None)
if settings.get_current_profile_name() == "default":
    settings.load_profile("mirror")


@pytest.fixture(autouse=True)
def _databases_of_a_test() -> Iterator[None]:
    """Drops what a test made in PostgreSQL; what its module made goes with the server."""
    first = databases.mark()
    yield
    databases.drop_since(first)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if databases.ON_POSTGRESQL and item.get_closest_marker("sqlite"):
        pytest.skip("tells of the SQLite file")


def pytest_unconfigure() -> None:
    databases.remove_cluster()
