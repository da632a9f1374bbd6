"""Applications that keep a server busy during its restarts."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import databases
import httpx
from process_server import PATIENCE_SECONDS, Application, ServerProcess, decoded, wait_until
from resource_paths import SWITCH


def pending_without_command(server: ServerProcess) -> list[Any]:
    """Return the desired values in the database that are pending although no command waits for them."""
    return databases.query(
        server.database_url,
        "SELECT device_id, path FROM resources WHERE desired_status = 0 AND NOT EXISTS (SELECT * FROM commands"
        " WHERE command_id = desired_command_id AND finished_at IS NULL)",
    )


class Load:
    """The requests for one device, one after the other. Each is repeated with its async-id until it is accepted.

    Every second load waits for the response with the request; ``immediate_responses`` contains those that had one.
    """

    def __init__(self, server: ServerProcess, key: str, device_id: str, seed: int) -> None:
        self.device_id = device_id
        self.accepted: list[str] = []
        self.written: list[str] = []
        self.immediate_responses: dict[str, Any] = {}
        self.unexpected: list[str] = []
        self._client = server.client(key)
        if seed % 2:
            self._client.http.headers["Prefer"] = "wait=1"
        self._random = random.Random(seed)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def last_written(self) -> str:
        """Return the value that is written last; ``0`` before the first one."""
        return self.written[-1] if self.written else "0"

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            number += 1
            async_id = f"{self.device_id[-8:]}-{number}"
            if self._random.random() < 0.6:
                self.written.append(str(number))
                submit = partial(self._client.write, self.device_id, SWITCH, self.written[-1], async_id)
            else:
                submit = partial(self._client.read, self.device_id, SWITCH, async_id)
            self._until_accepted(async_id, submit)

    def _until_accepted(self, async_id: str, submit: Callable[[], httpx.Response]) -> None:
        while True:
            try:
                response = submit()
            except httpx.TransportError:
                self._stop.wait(0.005)
                continue
            if response.status_code == 202:
                self.accepted.append(async_id)
                if "Preference-Applied" in response.headers:
                    self.immediate_responses[async_id] = response.json()["async-response"]
                return
            if response.status_code not in {429, 503}:
                self.unexpected.append(f"{response.status_code} {response.text}")
                return
            self._stop.wait(0.005)


class Reader:
    """A reader of the log with its own position, which survives every restart."""

    def __init__(self, server: ServerProcess, key: str) -> None:
        self.uids: dict[str, list[str]] = {}
        self.after = 0
        self.gaps: list[str] = []
        self._client = server.client(key)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                response = self._client.poll(after=self.after, hold=1)
            except httpx.TransportError:
                self._stop.wait(0.005)
                continue
            if response.status_code == 503:
                self._stop.wait(0.005)
                continue
            if "Mirror-Gap" in response.headers or not response.is_success:
                self.gaps.append(f"{response.status_code} {response.headers} {response.text}")
                return
            if response.status_code == 200:
                for kind, entries in response.json().items():
                    self.uids.setdefault(kind, []).extend(entry["uid"] for entry in entries)
                self.after = int(response.headers["Mirror-Cursor"])


def check_load(application: Application, loads: list[Load], readers: list[Reader]) -> list[tuple[str, Any]]:
    """Wait for the end of all requests, check that nothing was lost or duplicated, and return the log."""
    for load in loads:
        load.stop()
    accepted = [async_id for load in loads for async_id in load.accepted]
    wait_until(lambda: len(application.responses()) >= len(accepted), "all async responses")
    entries = list(application.entries())
    wait_until(lambda: all(reader.after >= len(entries) for reader in readers), "the readers to get everything")
    uids: dict[str, list[str]] = {}
    for kind, entry in entries:
        uids.setdefault(kind, []).append(entry["uid"])
    assert {kind: len(set(listed)) for kind, listed in uids.items()} == {kind: len(uids[kind]) for kind in uids}
    for reader in readers:
        reader.stop()
        assert (reader.gaps, reader.uids) == ([], uids)
    responses = application.responses()
    assert {async_id: len(found) for async_id, found in responses.items()} == dict.fromkeys(accepted, 1)
    assert {found[0]["status"] for found in responses.values()} == {200}
    for load in loads:
        assert load.unexpected == []
        desired = application.resource(load.device_id, SWITCH)["desired"]
        assert (desired["status"], decoded(desired["value"])) == (1, load.last_written)
        assert application.simulated_values(load.device_id)[SWITCH] == load.last_written
    return entries
