"""What the tests of the service over WSGI share: more servers, strict error bodies, polls that are held open."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mirror_sdk.wire.errors import ERROR_TYPES, ErrorBody
from mirror_server.bench import CLOCK_SETTING
from mirror_server.store import settings as stored_settings
from mirror_server.store.database import Database
from mirror_server.views.deferred import PARK, Deferred


@pytest.fixture
def new_server(server: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Makes a server with other settings, on a database of its own."""
    made: list[Any] = []

    def make(**settings: Any) -> Any:
        folder = tmp_path / f"other-{len(made)}"
        folder.mkdir()
        made.append(type(server)(folder, **settings))
        return made[-1]

    yield make
    for other in made:
        other.services.close()


@pytest.fixture(scope="session")
def refused() -> Callable[..., ErrorBody]:
    """Checks that an answer is an error of this code, in every detail the interface gives; gives its body."""

    def check(answer: Any, code: int, *fields: str) -> ErrorBody:
        assert answer.status_code == code, (answer.request.method, answer.request.path, answer.get_data())
        assert answer.headers["Content-Type"] == "application/json"
        body = ErrorBody.model_validate(answer.json, extra="forbid", strict=True)
        assert body.code == code
        assert body.type == ("validation_error" if body.fields and code == 400 else ERROR_TYPES[code])
        assert body.request_id
        assert re.fullmatch("[0-9a-f]{32}", body.request_id)
        assert answer.headers["X-Request-ID"] == body.request_id
        assert body.message
        assert all(field.message for field in body.fields)
        if fields:
            assert tuple(field.name for field in body.fields) == fields
        return body

    return check


@pytest.fixture
def hold_seconds(server: Any) -> Callable[[str, str], float]:
    """How long a poll would be held at most, without waiting for it."""

    def ask(key: str, query: str) -> float:
        parked: list[Deferred] = []
        environ = {PARK: lambda deferred: parked.append(deferred) is None}
        server.call(key, "GET", f"/v2/notification/pull{query}", environ_overrides=environ)
        (deferred,) = parked
        deferred.release()
        return deferred.timeout_seconds

    return ask


@pytest.fixture
def restart_later(server: Any) -> Callable[[float], None]:
    """Closes the server and opens it again on the same file, some seconds of domain time later."""

    def restart(seconds: float) -> None:
        until_at = server.now + round(seconds * 1000)
        server.services.close()
        database = Database(server.settings.database_url)
        database.write(lambda session: stored_settings.put(session, CLOCK_SETTING, str(until_at)))
        database.close()
        server.open()

    return restart
