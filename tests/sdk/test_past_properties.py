"""Generated runs on a real server: what it says of the past is what a naive replay of its history says, and a recording
made beside it says the same. Source: wire.md 10."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from changed_answers import LIGHT, TEMPERATURE
from databases import new_database_url
from httpx import WSGITransport
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mirror_sdk import Bench, MirrorClient
from mirror_sdk.errors import MirrorError
from mirror_sdk.recording import Recording
from mirror_server.config import Settings
from mirror_server.service import keys
from mirror_server.service.keys import Scope
from mirror_server.services import Services
from mirror_server.web.app import create_app

NAMES, PATHS = ("a", "b"), (TEMPERATURE, LIGHT, "/3/0/0")
VALUES = {TEMPERATURE: ["21.5", "22.5", "warm"], LIGHT: ["0", "1"], "/3/0/0": ["one", "two"]}
RESOURCES = [
    {"path": TEMPERATURE, "value": "21.5", "observable": True},
    {"path": LIGHT, "value": "0", "observable": True, "writable": True},
    {"path": "/3/0/0", "value": "one", "observable": True},
]
MILLISECOND = timedelta(milliseconds=1)

names = st.sampled_from(NAMES)
changes = st.sampled_from(PATHS).flatmap(
    lambda path: st.tuples(st.just("set"), names, st.just(path), st.sampled_from(VALUES[path]))
)
steps = st.one_of(
    changes,
    st.tuples(st.just("advance"), st.sampled_from([0.001, 1, 2])),
    st.tuples(st.just("online"), names, st.booleans()),
    st.tuples(st.just("read"), names, st.sampled_from(PATHS)),
    st.tuples(st.just("write"), names, st.booleans()),
    st.tuples(st.sampled_from(["register", "update", "deregister"]), names),
)
runs = st.lists(steps, min_size=4, max_size=14)
heard_runs = st.lists(steps.filter(lambda step: step[0] != "read"), min_size=4, max_size=14)
"""Without reads, of which the log tells when they were answered, and not of when the value is."""


class World:
    """A mirror with a history, two devices that are observed, and what plays them."""

    def __init__(self, folder: Path) -> None:
        self.services = Services(
            Settings(
                database_url=new_database_url(folder), simulate=0, manual_clock=True, keep_history_seconds=7 * 86_400
            )
        )
        self.services.start()
        key = keys.create(self.services.database, "test", tuple(Scope), self.services.clock.now())
        self.app = create_app(self.services)
        self.client = MirrorClient("http://mirror.localhost", key, transport=WSGITransport(app=self.app))
        self.bench = Bench(self.client)
        self.client.put_presubscriptions([{"resource_path": ["*"]}])
        self.ids: dict[str, str] = {name: self.bench.add_device(name, RESOURCES) for name in NAMES}
        self.bench.advance(1)

    def play(self, run: list[Any]) -> None:
        for step, *given_ in run:
            getattr(self, step)(*given_)
        for name in NAMES:
            self.online(name, is_online=True)
        self.bench.advance(1)

    def set(self, name: str, path: str, value: str) -> None:
        self.bench.set_value(self.ids[name], path, value)

    def advance(self, amount: float) -> None:
        self.bench.advance(amount)

    def online(self, name: str, is_online: bool) -> None:
        self.bench.set_online(self.ids[name], is_online)

    def read(self, name: str, path: str) -> None:
        self._ask(lambda: self.client.begin_read(self.ids[name], path, expiry_seconds=5))

    def write(self, name: str, value: bool) -> None:
        self._ask(lambda: self.client.begin_write(self.ids[name], LIGHT, value, expiry_seconds=5))

    def register(self, name: str) -> None:
        self._ask(lambda: self.bench.register(self.ids[name]))

    def update(self, name: str) -> None:
        self._ask(lambda: self.bench.update_registration(self.ids[name]))

    def deregister(self, name: str) -> None:
        self._ask(lambda: self.bench.deregister(self.ids[name]))

    def close(self) -> None:
        self.client.close()
        # The poll of a recorder ends with its server: by itself it is held for half a minute, in which other tests run.
        self.app.stop_waiting()
        self.services.close()

    def _ask(self, ask: Any) -> None:
        """What a device that is away does not take is nobody's concern here."""
        with suppress(MirrorError):
            ask()


@contextmanager
def world() -> Iterator[World]:
    with tempfile.TemporaryDirectory() as folder:
        made = World(Path(folder))
        try:
            yield made
        finally:
            made.close()


def rows_of(frame: pd.DataFrame) -> list[dict[str, Any]]:
    plain = frame.astype(object)
    found: list[dict[str, Any]] = plain.where(plain.notna(), None).to_dict("records")
    return found


def value_of(row: dict[str, Any], prefix: str) -> tuple[Any, ...]:
    return tuple(row[f"{prefix}_{kind}"] for kind in ("num", "text", "bool"))


def reported_at(rows: list[dict[str, Any]], instant: datetime) -> dict[tuple[str, str], tuple[Any, ...]]:
    """The last values by an instant, out of the rows of a history."""
    told = [row for row in rows if row["what"] == "reported" and row["changed_at"] <= instant]
    told.sort(key=lambda row: (row["changed_at"], row["revision"]))
    return {(row["device_id"], row["path"]): value_of(row, "value") for row in told}


def desired_at(
    rows: list[dict[str, Any]], present: list[dict[str, Any]], instant: datetime
) -> dict[tuple[str, str], tuple[Any, ...]]:
    """The last writes asked for by an instant, and what had become of them."""
    writes = [
        (row["requested_at"], row["revision"], row, row["changed_at"]) for row in rows if row["what"] == "desired"
    ]
    writes += [
        (row["requested_at"], row["desired_revision"], row, None)
        for row in present
        if row["desired_status"] == "pending"
    ]
    found = {}
    for requested, _, row, ended in sorted(writes, key=lambda one: one[:2]):
        if requested <= instant:
            status = row["status"] if ended is not None and ended <= instant else "pending"
            prefix = "value" if ended is not None else "desired"
            found[row["device_id"], row["path"]] = (*value_of(row, prefix), status)
    return found


def instants_of(rows: list[dict[str, Any]], oldest: datetime, latest: datetime) -> list[datetime]:
    """Each at which something was told to happen, and those around it."""
    told = {row[name] for row in rows for name in ("changed_at", "requested_at") if row[name] is not None}
    around = {one + step * MILLISECOND for one in told for step in (-1, 0, 1)}
    return sorted(one for one in around if oldest <= one <= latest)


def state_of(frame: pd.DataFrame) -> tuple[dict[Any, Any], dict[Any, Any]]:
    rows = rows_of(frame)
    reported = {
        (row["device_id"], row["path"]): value_of(row, "reported") for row in rows if row["value_kind"] != "none"
    }
    desired = {
        (row["device_id"], row["path"]): (*value_of(row, "desired"), row["desired_status"])
        for row in rows
        if row["desired_status"] is not None
    }
    return reported, desired


@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
@given(runs, st.data())
def test_the_state_and_the_changes_at_any_instants_are_those_of_a_naive_replay(run, data):
    with world() as mirror:
        mirror.play(run)
        frame = mirror.client.history()
        rows, present = rows_of(frame), rows_of(mirror.client.snapshot())
        oldest = datetime.fromisoformat(frame.attrs["mirror"]["oldest_at"])
        instants = instants_of(rows, oldest, mirror.bench.get_clock())
        for instant in instants[:: max(1, len(instants) // 12)]:
            reported, desired = state_of(mirror.client.as_of(instant))
            assert reported == reported_at(rows, instant), instant
            assert desired == desired_at(rows, present, instant), instant
        for _ in range(3):
            begin, end = sorted(data.draw(st.tuples(st.sampled_from(instants), st.sampled_from(instants))))
            found = rows_of(mirror.client.changes(begin, end))
            between = [row for row in rows if row["what"] == "reported" and begin < row["changed_at"] <= end]
            keys_of = sorted({(row["device_id"], row["path"]) for row in between})
            assert [(row["device_id"], row["path"]) for row in found] == keys_of
            before, after = reported_at(rows, begin), reported_at(rows, end)
            for row in found:
                key = row["device_id"], row["path"]
                times = [one["changed_at"] for one in between if (one["device_id"], one["path"]) == key]
                assert (row["observations"], row["first_at"], row["last_at"]) == (len(times), min(times), max(times))
                assert value_of(row, "before") == before.get(key, (None, None, None))
                assert value_of(row, "after") == after[key]


TOLD = ["device_id", "endpoint_name", "path", "unit", "changed_at", "what", "value_num", "value_text", "value_bool"]


def told_in_both(frame: pd.DataFrame) -> list[tuple[Any, ...]]:
    """The rows without what the log does not tell."""
    rows = [row for row in rows_of(frame) if row["what"] not in {"desired", "gap"}]
    return [tuple(row[name] for name in [*TOLD, "value_kind", "origin"]) for row in rows]


@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
@given(heard_runs)
def test_a_recording_made_beside_it_tells_the_same(run):
    with world() as mirror, tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.parquet"
        mirror.bench.advance(1)
        begin = mirror.bench.get_clock()
        with mirror.client.record(path):
            mirror.bench.advance(1)
            mirror.play(run)
        end = mirror.bench.get_clock()
        recording = Recording(path)
        after = begin + MILLISECOND
        assert told_in_both(recording.history(begin=after)) == told_in_both(mirror.client.history(begin=after))
        instants = instants_of(rows_of(recording.history(begin=after)), begin, end)
        for instant in instants[:: max(1, len(instants) // 5)]:
            assert state_of(recording.as_of(instant))[0] == state_of(mirror.client.as_of(instant))[0]
            assert rows_of(recording.changes(begin, instant)) == rows_of(mirror.client.changes(begin, instant))


pytestmark = pytest.mark.filterwarnings("ignore::mirror_sdk.NotSubscribedWarning")
