"""A server inside the test, one with a CoAP port, and several on one PostgreSQL database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import databases
import pytest

from mirror_server.hooks import read_settings
from mirror_server.server import Services
from mirror_server.web.flask_app import create_app
from tests.extensions.lwm2m.conftest import *  # noqa: F403 - fixtures
from tests.server.conftest import *  # noqa: F403 - fixtures


@pytest.fixture
def url() -> str:
    return databases.new_postgresql_url()


@pytest.fixture
def open_services(url: str) -> Iterator[Callable[..., Services]]:
    """Start servers on that database, and close them. The first one is the leader."""
    opened: list[Services] = []

    def start(**settings: Any) -> Services:
        services = Services(read_settings(database_url=url, simulate=0, **settings))
        services.coordinator.respond_with(create_app(services))
        opened.append(services)
        services.start()
        return services

    yield start
    for services in reversed(opened):
        if not services.coordinator.leadership._is_closing.is_set():
            services.close()
