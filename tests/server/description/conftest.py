"""The description of all routes there are, those of the bench included."""

from typing import Any

import pytest


@pytest.fixture(scope="module")
def shared_server(shared_simulated_server: Any) -> Any:
    return shared_simulated_server
