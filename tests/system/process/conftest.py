"""Servers in separate processes, also several on one PostgreSQL database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import databases
import pytest
from process_server import CALLS_THIS_MACHINE, Application, ServerProcess

from tests.process.conftest import *  # noqa: F403 - fixtures

StartServers = Callable[..., list[ServerProcess]]


class Servers:
    """Several processes on one database. The first one is the leader."""

    def __init__(self, factory: pytest.TempPathFactory) -> None:
        self._factory = factory
        self._made: list[ServerProcess] = []

    def start(self, count: int, database_url: str, *options: str) -> list[ServerProcess]:
        options = (*(options or ("--simulate", "0")), *CALLS_THIS_MACHINE)
        folders = [self._factory.mktemp(f"server-{number}") for number in range(count)]
        servers = [ServerProcess(folder, *options, database_url=database_url) for folder in folders]
        self._made += servers
        servers[0].start()
        start_all(servers[1:])
        return servers

    def close(self) -> None:
        for server in self._made:
            server.close()


@pytest.fixture
def start_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartServers]:
    servers = Servers(tmp_path_factory)
    yield servers.start
    servers.close()


def start_all(servers: list[ServerProcess]) -> None:
    """Start all servers concurrently."""
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda server: server.start(), servers))


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[ServerProcess]]:
    """Two processes for all tests that do not kill them."""
    servers = Servers(tmp_path_factory)
    yield servers.start(2, databases.new_postgresql_url(), "--simulate", "0", "--keep-history", "7d")
    servers.close()


def clients(pair: list[ServerProcess]) -> tuple[Application, Application]:
    """Return a client of a new application for the leader, and one for the other process."""
    key = pair[0].key()
    return pair[0].client(key), pair[1].client(key)


@pytest.fixture
def applications(pair: list[ServerProcess]) -> tuple[Application, Application]:
    return clients(pair)
