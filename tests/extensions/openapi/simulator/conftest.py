"""The description of a server with simulated devices."""

from collections.abc import Sequence
from typing import Any

import pytest

from mirror_server.hooks import installed

if "simulator" in installed():
    from tests.extensions.simulator.conftest import shared_simulated_server  # noqa: F401 - a fixture
else:
    collect_ignore_glob: Sequence[str] = ["test_*"]


@pytest.fixture(scope="module")
def shared_server(shared_simulated_server: Any) -> Any:
    return shared_simulated_server
