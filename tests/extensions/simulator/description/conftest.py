"""The description of a server with simulated devices."""

from typing import Any

import pytest

from tests.server.description.conftest import *  # noqa: F403 - fixtures


@pytest.fixture(scope="module")
def shared_server(shared_simulated_server: Any) -> Any:
    return shared_simulated_server
