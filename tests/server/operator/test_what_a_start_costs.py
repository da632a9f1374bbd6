"""A server that starts leaves alone what takes long and is seldom needed."""

import ssl
from pathlib import Path
from typing import Any

import pytest
from databases import new_database_url

from mirror_server.config import Settings
from mirror_server.notifications.outbound import Caller
from mirror_server.services import Services
from mirror_server.web.app import create_app


@pytest.fixture
def certificates_read(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    read: list[Any] = []
    load = ssl.create_default_context

    def note(*arguments: Any, **options: Any) -> ssl.SSLContext:
        read.append(arguments)
        return load(*arguments, **options)

    monkeypatch.setattr(ssl, "create_default_context", note)
    return read


def test_the_certificates_of_the_system_are_read_with_the_first_call_alone(
    tmp_path: Path, certificates_read: list[Any]
) -> None:
    services = Services(Settings(database_url=new_database_url(tmp_path), simulate=0, manual_clock=True))
    services.start()
    create_app(services).test_client().get("/healthz")
    services.close()
    assert certificates_read == []
    caller = Caller(services.webhooks._policy)
    assert caller._connections() is caller._connections()
    assert len(certificates_read) == 1
