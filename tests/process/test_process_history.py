"""The history of real servers: a cut connection, a kill, several processes. Source: wire.md 10."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from process_server import Application, ServerProcess

from mirror_sdk.wire.history import HistoryCursor, HistoryEnd
from mirror_sdk.wire.routes import HISTORY
from mirror_sdk.wire.snapshot import NDJSON

pytestmark = pytest.mark.process
KEPT = ("--simulate", "0", "--keep-history", "7d")
TEMPERATURE = "/3303/0/5700"
LARGE = "x" * 60_000
VALUES = 200


def add_device(application: Application, name: str, count: int, size: int = 1) -> str:
    """A device that tells so many values, of so many characters."""
    resource = {"path": TEMPERATURE, "value": "0", "observable": True, "auto_observable": True}
    device_id = application.add_device(name, resource)
    for number in range(count):
        value = f"{number:06}" + "x" * (size - 6)
        application.json("PUT", f"/sim/v1/devices/{device_id}/resources{TEMPERATURE}", json={"value": value})
    return device_id


def lines_of(http: httpx.Client, **query: Any) -> tuple[list[Any], HistoryEnd]:
    """The rows, without the cursors among them, and the end."""
    answer = http.get(HISTORY, params=query, headers={"Accept": NDJSON})
    assert answer.status_code == 200, answer.text
    *lines, end = [json.loads(line) for line in answer.text.splitlines()]
    rows = [line for line in lines if line["object"] == "history-row"]
    found = HistoryEnd.model_validate(end)
    assert found.row_count == len(rows)
    return rows, found


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Its history is larger than all that is buffered on the way."""
    running = ServerProcess(tmp_path_factory.mktemp("history"), *KEPT).start()
    add_device(running.application(), "d", VALUES, len(LARGE))
    yield running
    running.close()


def test_what_is_cut_lacks_its_end_and_goes_on_behind_the_last_cursor(server: ServerProcess) -> None:
    http = server.application().http
    whole, _ = lines_of(http)
    lines = []
    with http.stream("GET", HISTORY, headers={"Accept": NDJSON}) as answer:
        for line in answer.iter_lines():
            lines.append(json.loads(line))
            if lines[-1]["object"] == "history-cursor" and len(lines) > VALUES // 3:
                break
    assert "history-end" not in {line["object"] for line in lines}
    after = HistoryCursor.model_validate(lines[-1]).after
    begun = [line for line in lines if line["object"] == "history-row"]
    rest, _ = lines_of(http, after=after)
    assert len(rest) > VALUES // 3
    assert begun + rest == whole


def test_after_a_kill_it_has_all_that_was_told_and_says_when_nothing_could_be_heard(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path, *KEPT).start()
    try:
        application = server.application()
        device_id = add_device(application, "d", 20)
        before, first = lines_of(application.http, limit=5)
        whole, _ = lines_of(application.http)
        server.kill()
        server.start()
        http = server.client(application.key).http
        found, _ = lines_of(http)
        gap, *told = [row for row in found if row["what"] != "reg_update"]
        assert told[: len(whole)] == whole
        assert gap["what"] == "gap"
        assert whole[-1]["received_at"] <= gap["changed_at"] < gap["until"]
        # What an earlier read had begun, its other pages have as it was.
        assert before + lines_of(http, after=first.after)[0] == whole
        assert {row["device_id"] for row in told} == {device_id}
    finally:
        server.close()
