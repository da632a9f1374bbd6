"""The history of several processes on one PostgreSQL database. Source: wire.md 10."""

from __future__ import annotations

from itertools import cycle

import databases
import pytest
from process_server import ServerProcess
from test_process_history import KEPT, add_device, lines_of

from mirror_sdk.wire.routes import SNAPSHOT

pytestmark = pytest.mark.process


def test_any_process_gives_any_page(tmp_path_factory: pytest.TempPathFactory) -> None:
    url = databases.new_postgresql_url()
    servers = [ServerProcess(tmp_path_factory.mktemp(f"s{n}"), *KEPT, database_url=url).start() for n in range(2)]
    try:
        first = servers[0].application()
        second = servers[1].client(first.key)
        add_device(second, "d", 20)
        whole, _ = lines_of(first.http)
        assert lines_of(second.http)[0] == whole
        rows, end = lines_of(second.http, limit=3)
        for application in cycle((first, second)):
            if end.after is None:
                break
            more, end = lines_of(application.http, limit=3, after=end.after)
            rows += more
        assert rows == whole
        query = {"as_of": whole[-1]["received_at"]}
        told = [application.http.get(SNAPSHOT, params=query) for application in (first, second)]
        assert [answer.status_code for answer in told] == [200, 200]
        assert told[0].content == told[1].content
        assert b'"value":"MDAwMDE5"' in told[0].content
    finally:
        for server in servers:
            server.close()
