"""Fixtures of the tests of the interface: suspended polls, restarts after some time, stored rows."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import databases
import pytest

from mirror_server.config import Settings
from mirror_server.hooks import open_database
from mirror_server.store.session import MANUAL_CLOCK
from mirror_server.views.deferred_responses import DEFER, DeferredResponse
from mirror_server.web.asgi_bridge import ASGIBridge


@pytest.fixture
def bridge(server: Any) -> ASGIBridge:
    return ASGIBridge(server.app, Settings(max_body_bytes=1000, max_parked_polls=100))


@pytest.fixture
def hold_seconds(server: Any) -> Callable[[str, str], float]:
    """Return how long a poll would wait at most, without waiting."""

    def request(key: str, query: str) -> float:
        deferred_responses: list[DeferredResponse] = []
        environ = {DEFER: lambda deferred: deferred_responses.append(deferred) is None}
        server.call(key, "GET", f"/v2/notification/pull{query}", environ_overrides=environ)
        (deferred,) = deferred_responses
        deferred.release()
        return deferred.timeout_seconds

    return request


@pytest.fixture
def restart_later(server: Any) -> Callable[[float], None]:
    """Restart the server on the same database, some seconds of domain time later."""

    def restart(seconds: float) -> None:
        until_at = server.now + round(seconds * 1000)
        server.services.close()
        database = open_database(server.settings.database_url)
        database.write(lambda session: session.put_setting(MANUAL_CLOCK, str(until_at)))
        database.close()
        server.open()

    return restart


@pytest.fixture
def unchanged(unchanged_from: Callable[[], AbstractContextManager[None]], key: str) -> Iterator[None]:
    """Check at the end that the stored rows have not changed."""
    with unchanged_from():
        yield


@pytest.fixture
def unchanged_from(server: Any) -> Callable[[], AbstractContextManager[None]]:
    """Return a context that checks that the stored rows do not change in it."""

    def dump() -> dict[str, list[str]]:
        with server.services.database.read() as session:
            # The history is compacted concurrently, on its own thread. Its rows follow other changes.
            tables = [name for name in databases.tables(server.settings.database_url) if not name.startswith("history")]
            return {table: sorted(map(repr, session.rows(f"SELECT * FROM {table}"))) for table in tables}

    @contextmanager
    def checked() -> Iterator[None]:
        assert server.services.database.settle(60)
        before = dump()
        yield
        assert dump() == before

    return checked
