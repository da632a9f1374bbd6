"""TLS certificates of several processes on one PostgreSQL database."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
import trustme
from databases import new_postgresql_url
from process_server import wait_until
from test_process_tls import Files, Server

pytestmark = pytest.mark.process


def test_two_processes_have_their_own_certificates(tmp_path: Path) -> None:
    authority = trustme.CA()
    url = new_postgresql_url()
    servers: list[Server] = []
    try:
        for name in ("one", "two"):
            folder = tmp_path / name
            folder.mkdir()
            files = Files(folder, authority)
            servers.append(Server(folder, *files.options, database_url=url))
        numbers = {server.serial_number(files.context()) for server in servers}
        assert len(numbers) == 2
        new_number = files.renew()
        for server in servers:
            server.child.send(signal.SIGHUP)
        wait_until(lambda: servers[1].serial_number(files.context()) == new_number, "the new certificate")
        assert servers[0].serial_number(files.context()) in numbers
    finally:
        for server in servers:
            server.close()
