"""``kill -9`` with a history: what was acknowledged has its row, once, and the silence in between is told."""

from __future__ import annotations

import random
import threading
import time
from datetime import datetime
from functools import partial
from itertools import pairwise
from typing import Any

import httpx
import orjson
import pytest
from process_load import SWITCH, Load
from process_server import (
    PATIENCE_SECONDS,
    Application,
    ServerProcess,
    decoded,
    run_command,
    wait_until,
)

pytestmark = pytest.mark.process

LEVEL = "/3202/0/5600"
KILLS = 3


class Teller:
    """A device that tells one value after the other without being asked; each is set until that is acknowledged."""

    def __init__(self, application: Application, device_id: str) -> None:
        self.told: list[str] = []
        self._application = application
        self._device_id = device_id
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        number = 0
        url = f"/sim/v1/devices/{self._device_id}/resources{LEVEL}"
        while not self._stop.is_set():
            # A value that was not acknowledged may have been told: the next one is another.
            number += 1
            try:
                answer = self._application.http.put(url, json={"value": str(number)})
            except httpx.TransportError:
                self._stop.wait(0.005)
                continue
            if answer.status_code == 204:
                self.told.append(str(number))


def seconds_of(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def history_of(application: Application) -> list[dict[str, Any]]:
    """All rows of the history, in the order in which they happened to the service."""
    answer = application.http.get("/v3/device-echo/history", headers={"Accept": "application/x-ndjson"})
    assert answer.status_code == 200, answer.text
    lines = [orjson.loads(line) for line in answer.text.splitlines()]
    assert lines[-1]["object"] == "history-end"
    return sorted((line for line in lines if line["object"] == "history-row"), key=lambda row: row["revision"])


def test_kills_at_random_moments_leave_each_row_once(start_server) -> None:
    chance = random.Random(17)
    server: ServerProcess = start_server("--simulate", "0", "--keep-history", "1d")
    application = server.application()
    device_ids = [
        application.add_device(
            f"load-{number}",
            {"path": SWITCH, "value": "0", "writable": True, "observable": True},
            {"path": LEVEL, "value": "0", "auto_observable": True},
        )
        for number in range(3)
    ]
    application.patch_device(device_ids[1], latency_seconds=0.01)
    application.json("PUT", f"/v2/subscriptions/{device_ids[0]}{SWITCH}")
    loads = [Load(server, application.key, device_id, seed) for seed, device_id in enumerate(device_ids)]
    teller = Teller(server.client(application.key), device_ids[2])

    def accepted() -> int:
        return sum(len(load.accepted) for load in loads) + len(teller.told)

    def enough(wanted: int) -> bool:
        return accepted() >= wanted

    dead: list[tuple[float, float]] = []
    for _ in range(KILLS):
        wait_until(partial(enough, accepted() + chance.randint(20, 150)), "requests to be accepted")
        server.kill()
        killed_at = time.time()
        assert run_command("check", "--database", server.database_url).returncode == 0
        server.start()
        dead.append((killed_at, time.time()))
    for each in (*loads, teller):
        each.stop()
    placed = [async_id for load in loads for async_id in load.accepted]
    wait_until(lambda: len(application.responses()) >= len(placed), "all async responses")

    rows = history_of(application)
    for load in loads:
        ends = [row for row in rows if row["what"] == "desired" and row["device_id"] == load.device_id]
        assert [decoded(row["value"]) for row in ends] == load.written
        assert {row["status"] for row in ends} == {1}
        assert all(earlier["requested_at"] <= later["requested_at"] for earlier, later in pairwise(ends))
    told = [decoded(row["value"]) for row in rows if row["what"] == "reported" and row["path"] == LEVEL]
    assert len(told) == len(set(told))
    assert set(teller.told) <= set(told)
    assert told == sorted(told, key=int)
    gaps = [row for row in rows if row["what"] == "gap"]
    assert len(gaps) == KILLS
    for gap, (killed_at, back_at) in zip(gaps, dead, strict=True):
        assert "device_id" not in gap
        assert seconds_of(gap["changed_at"]) <= killed_at
        assert killed_at <= seconds_of(gap["until"]) <= back_at
    assert run_command("check", "--database", server.database_url).returncode == 0
    assert "Traceback" not in server.stderr
