"""The demo server on PostgreSQL."""

from __future__ import annotations

import signal

import databases
import pytest
from process_server import read_exports
from test_process_demo import StartDemo, start_demo  # noqa: F401 - a fixture

from mirror_sdk import AuthenticationError, MirrorClient

pytestmark = pytest.mark.process


def test_on_postgresql_the_key_is_another_at_each_start_which_is_said(
    start_demo: StartDemo,  # noqa: F811
) -> None:
    option = f"--database={databases.new_postgresql_url()}"
    first = start_demo(option)
    old = read_exports(first)
    first.read_line()
    assert first.read_line().startswith("# The key is not kept beside a PostgreSQL database")
    first.send(signal.SIGTERM)
    first.wait()
    new = read_exports(start_demo(option))
    assert new["API_KEY"].split("_")[1] == old["API_KEY"].split("_")[1]
    with MirrorClient(new["API_HOST"], old["API_KEY"]) as client, pytest.raises(AuthenticationError):
        client.devices.list()
