"""The history of several processes on one PostgreSQL database. Source: wire.md 10."""

from __future__ import annotations

import json
from itertools import cycle
from typing import Any

import databases
import httpx
import pytest
from process_server import ServerProcess

from mirror_sdk.wire.history import HistoryEnd
from mirror_sdk.wire.routes import HISTORY, SNAPSHOT
from mirror_sdk.wire.snapshot import NDJSON

pytestmark = pytest.mark.process

KEPT = ("--simulate", "0", "--keep-history", "7d")
TEMPERATURE = "/3303/0/5700"


def lines_of(http: httpx.Client, **query: Any) -> tuple[list[Any], HistoryEnd]:
    """The rows, without the cursors among them, and the end."""
    answer = http.get(HISTORY, params=query, headers={"Accept": NDJSON})
    assert answer.status_code == 200, answer.text
    *lines, end = [json.loads(line) for line in answer.text.splitlines()]
    return [line for line in lines if line["object"] == "history-row"], HistoryEnd.model_validate(end)


def test_any_process_gives_any_page(tmp_path_factory: pytest.TempPathFactory) -> None:
    url = databases.new_postgresql_url()
    servers = [ServerProcess(tmp_path_factory.mktemp(f"s{n}"), *KEPT, database_url=url).start() for n in range(2)]
    try:
        first = servers[0].application()
        second = servers[1].client(first.key)
        resource = {"path": TEMPERATURE, "value": "0", "observable": True, "auto_observable": True}
        device_id = second.add_device("d", resource)
        for number in range(20):
            path = f"/sim/v1/devices/{device_id}/resources{TEMPERATURE}"
            second.json("PUT", path, json={"value": f"{number:06}"})
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
