"""The demo server on PostgreSQL."""

from __future__ import annotations

import re
import signal

import databases
import pytest
from process_server import read_exports
from test_process_demo import StartDemo, start_demo  # noqa: F401 - a fixture

from mirror_sdk import AuthenticationError, MirrorClient

pytestmark = pytest.mark.process


def test_demo_on_postgresql_creates_a_new_key_at_each_start(
    start_demo: StartDemo,  # noqa: F811
) -> None:
    option = f"--database={databases.new_postgresql_url()}"
    first = start_demo(option)
    old = read_exports(first)
    first.read_line()
    assert re.match(r"# The key of a demo on PostgreSQL is not stored", first.read_line())
    first.send(signal.SIGTERM)
    first.wait()
    new = read_exports(start_demo(option))
    assert new["API_KEY"].split("_")[1] == old["API_KEY"].split("_")[1]
    with MirrorClient(new["API_HOST"], old["API_KEY"]) as client, pytest.raises(AuthenticationError):
        client.devices.list()
