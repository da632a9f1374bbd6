"""Slow work runs outside the event loop's thread, and ends in an orderly way when it is cancelled."""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partialmethod
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import httpx
import pytest
from changed_responses import Between, without_snapshots
from client_test_data import URL
from resource_paths import SWITCH

from mirror_sdk import AsyncMirrorClient, CompatibilityWarning, MirrorClient, UnknownDevice
from mirror_sdk._protocol.async_log_consumers import AsyncEvents, AsyncResponseRouter, AsyncWatch
from mirror_sdk._protocol.event_loop import MAX_BYTES_ON_LOOP
from mirror_sdk._protocol.operation_base import Operation
from mirror_sdk._protocol.response_matcher import ResponseMatcher
from mirror_sdk._run_in_thread import LONGEST_TIME_SLICE_SECONDS, TimeSlice, all_of, import_in_thread, run_in_thread
from mirror_sdk.errors import ConnectionFailed
from mirror_sdk.history import history_request
from mirror_sdk.history.batch_checks import RowChecker
from mirror_sdk.history.history_reader import HistoryReader, HistoryResult, history_metadata
from mirror_sdk.plan import async_in_flight_writes, async_plan, report, scheduler
from mirror_sdk.plan.checks import PlannedWrite
from mirror_sdk.recording import async_recorder
from mirror_sdk.recording.folder import RecordingFolder
from mirror_sdk.recording.recording_rules import RecordingRules
from mirror_sdk.recording.writer import RecordingWriter
from mirror_sdk.resource import Resource
from mirror_sdk.snapshot import device_selection, snapshot_request
from mirror_sdk.snapshot.arrow_streams import SizeLimit
from mirror_sdk.snapshot.dataset import DatasetWriter, SnapshotDataset
from mirror_sdk.wire.device_object import ResourceState
from mirror_sdk.wire.log_entries import Batch, Entries

pytestmark = pytest.mark.keeps_history

PATIENCE_SECONDS = 60
HEAVY = (
    *("difflib", "pandas", "pyarrow", "numpy"),
    *("mirror_sdk.frames", "mirror_sdk.plan", "mirror_sdk.recording", "mirror_sdk.snapshot"),
    *("mirror_sdk.history", "mirror_sdk.arrow_tables"),
)
"""Modules with slow functions: similar names, tables, files, checks."""
LIGHT_MODULES = {
    module.__name__
    for module in (
        *(snapshot_request, device_selection, history_request),
        *(async_plan, async_in_flight_writes, scheduler, report, async_recorder),
    )
}
LIGHT_FUNCTIONS = {
    function.__code__
    for function in (
        *(HistoryReader.__init__, HistoryReader._next_request, HistoryReader.next_operation.fget),
        *(HistoryReader.result.fget, HistoryResult.__init__, history_metadata, RowChecker.__init__, SizeLimit.__init__),
        *(PlannedWrite.may_be_sent.fget, PlannedWrite.is_awake.fget, RecordingWriter.warn_of_uncovered),
        # Slow work of these runs in a thread.
        *(RecordingRules.__init__, RecordingRules.start, RecordingRules.uncovered),
        *(RecordingFolder.position.fget, RecordingFolder.due_in_seconds.fget),
    )
}
"""Fast parts of heavy modules. They are not listed by name, because a rename would leave the names without a target."""


def run(scene: Awaitable[Any]) -> Any:
    async def complete() -> Any:
        return await asyncio.wait_for(scene, PATIENCE_SECONDS)

    return asyncio.run(complete())


def is_within(function: Callable[..., object], frame: FrameType | None) -> bool:
    while frame is not None and frame.f_code is not function.__code__:
        frame = frame.f_back
    return frame is not None


@contextmanager
def watched(seen: set[str]) -> Iterator[None]:
    """Record functions of heavy modules that run on this thread, except for reading small responses."""

    def note(frame: FrameType, happening: str, _: object) -> None:
        module = str(frame.f_globals.get("__name__"))
        is_light = module in LIGHT_MODULES or frame.f_code in LIGHT_FUNCTIONS
        is_heavy = module.startswith(HEAVY) and not is_light
        if happening == "call" and is_heavy and not is_within(Operation.finish, frame):
            seen.add(f"{module}.{frame.f_code.co_name}")

    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)


async def nothing(*_: Any) -> None:
    return None


async def now(client: AsyncMirrorClient, _: Path) -> datetime:
    return (await client.get_device("sensor-1")).created_at


async def planned(client: AsyncMirrorClient, _: Path) -> Any:
    return await client.plan([("sensor-1", SWITCH, True)])


async def started(client: AsyncMirrorClient, _: Path) -> list[Any]:
    return [await client.requests.begin_read("sensor-1", SWITCH)]


async def saved(client: AsyncMirrorClient, folder: Path) -> Path:
    (await planned(client, folder)).save(folder / "plan.json")
    return folder / "plan.json"


async def misnamed(awaitable: Awaitable[Any]) -> None:
    with suppress(UnknownDevice):
        await awaitable


CALLS: dict[str, tuple[Callable[..., Awaitable[Any]], Callable[..., Awaitable[Any]]]] = {
    "snapshot_dataset": (nothing, lambda c, _, folder: c.fleet.dataset(folder / "dataset")),
    "refresh": (lambda c, _: c.fleet.snapshot(), lambda c, frame, _: c.fleet.refresh(frame)),
    "history": (nothing, lambda c, _, __: c.history()),
    "as_of": (now, lambda c, instant, _: c.as_of(instant)),
    "changes": (now, lambda c, instant, _: c.changes(instant, instant)),
    "events_frame": (nothing, lambda c, _, __: c.notifications.events_frame(after=0, timeout=0)),
    "device_events_frame": (nothing, lambda c, _, __: c.devices.events_frame()),
    "requests_frame": (started, lambda c, requests, _: c.requests.frame(requests)),
    "load_plan": (saved, lambda c, path, _: c.plans.load(path)),
    "apply": (planned, lambda _, plan, __: plan.apply()),
    "undo": (planned, lambda _, plan, __: plan.undo()),
    "unknown names": (nothing, lambda c, _, __: misnamed(c.fleet.snapshot(["no", "body"]))),
    "plan of an unknown name": (nothing, lambda c, _, __: c.plan([("nobody", SWITCH, True)])),
    "record": (nothing, lambda c, _, folder: c.record(folder / "run.parquet")),
}
"""For each call: its preparation and the call itself."""


def test_it_is_not_done_on_the_thread_of_the_loop(mirror, device_id, tmp_path):
    async def scene() -> dict[str, set[str]]:
        found = {}
        async with AsyncMirrorClient(URL, mirror.new_key(), transport=mirror.async_transport) as client:
            await client.subscribe(device_id, SWITCH)
            for name, (prepare, call) in CALLS.items():
                seen: set[str] = set()
                # Some code runs only once in a process.
                await call(client, await prepare(client, tmp_path), tmp_path / name / "first")
                before = await prepare(client, tmp_path)
                with watched(seen):
                    await call(client, before, tmp_path / name / "second")
                found[name] = seen
        return found

    assert run(scene()) == {name: set() for name in CALLS}


PROGRAM = """
import asyncio, os, ssl, sys, threading, traceback, httpx
from mirror_sdk import AsyncMirrorClient

heavy = ("pandas", "pyarrow", "numpy", "pydantic.plugin", "anyio", "importlib.metadata", "certificates")
loop_thread, loaded, on_loop = threading.get_ident(), set(), []

def note(name):
    loaded.add(name)
    if name.startswith(heavy) and threading.get_ident() == loop_thread:
        on_loop.append(name)

class Noting:
    def find_spec(self, name, path=None, target=None):
        note(name)

def noting_load(*arguments, load=ssl.SSLContext.load_verify_locations, **options):
    note("certificates")
    return load(*arguments, **options)

sys.meta_path.insert(0, Noting())
ssl.SSLContext.load_verify_locations = noting_load

def respond(request):
    if "after" in request.url.params and request.url.path.endswith("/pull"):
        return httpx.Response(204, headers={"Mirror-Cursor": "7"})
    return httpx.Response(200, json={"object": "list", "data": [], "has_more": False})

async def main(call):
    transport = httpx.MockTransport(respond) if call in calls else None
    async with AsyncMirrorClient(sys.argv[1], "key", max_retries=0, transport=transport) as client:
        try:
            await eval(call)
        except Exception:
            pass
    wanted = {"pandas"} if call in calls else {"pydantic.plugin._loader", "anyio._backends._asyncio", "certificates"}
    assert (wanted - loaded, on_loop) == (set(), []), call

first, *calls = sys.argv[2:]
for call in (first, *calls):
    child = os.fork()
    if child == 0:
        try:
            asyncio.run(main(call))
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""
"""The first call uses a network, the others need pandas. Each runs in a separate process."""


def test_slow_imports_do_not_run_on_the_thread_of_the_loop(tmp_path):
    calls = [
        "client.requests.begin_write('0' * 32, '/3311/0/5850', True)",
        "client.fleet.snapshot()",
        "client.history()",
    ]
    calls += ["client.notifications.events_frame(timeout=0, limit=0)", "client.plan([])", "client.requests.frame([])"]
    calls.append("client.record('run.parquet', devices=[])")
    with socket.socket() as bound_socket:
        # Bound but not listening: no one responds, and no other process can use the port.
        bound_socket.bind(("127.0.0.1", 0))
        address = f"https://127.0.0.1:{bound_socket.getsockname()[1]}"
        command = [sys.executable, "-W", "ignore", "-c", PROGRAM, address, *calls]
        ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr


def test_requests_that_come_while_the_network_is_made_wait_for_the_same_one(monkeypatch):
    made, may_end = [], threading.Event()
    started = threading.Event()

    def slow(url: httpx.URL) -> None:
        made.append(url)
        started.set()
        assert may_end.wait(PATIENCE_SECONDS)

    monkeypatch.setattr("mirror_sdk._protocol.async_network.certificates_for", slow)

    async def scene() -> None:
        with socket.socket() as bound_socket:
            bound_socket.bind(("127.0.0.1", 0))
            async with AsyncMirrorClient(
                f"http://127.0.0.1:{bound_socket.getsockname()[1]}", "key", max_retries=0
            ) as client:
                first = asyncio.create_task(client.devices.list())
                assert await asyncio.to_thread(started.wait, PATIENCE_SECONDS)
                others = [asyncio.create_task(client.devices.list()) for _ in range(5)]
                await asyncio.sleep(0)
                # The caller that started it may end.
                first.cancel()
                await asyncio.sleep(0)
                assert not any(one.done() for one in (first, *others))
                may_end.set()
                ended = await asyncio.gather(first, *others, return_exceptions=True)
                assert [type(one) for one in ended] == [asyncio.CancelledError, *[ConnectionFailed] * 5]

    run(scene())
    assert len(made) == 1


def test_an_import_freezes_existing_objects_and_restores_them(tmp_path, monkeypatch):
    text = "import gc\nset_aside = gc.get_freeze_count()\nraise LookupError(set_aside)\n"
    monkeypatch.syspath_prepend(tmp_path)
    try:
        for change, name in ((gc.freeze, "frozen_before"), (gc.unfreeze, "not_frozen_before")):
            (tmp_path / f"{name}.py").write_text(text)
            change()
            with pytest.raises(LookupError) as raised:
                run(import_in_thread(name))
            assert raised.value.args[0] > 1000
            assert (gc.get_freeze_count() > 1000) is (change is gc.freeze)
    finally:
        gc.unfreeze()


@pytest.mark.parametrize(("bytes_more", "is_on_loop"), [(0, True), (1, False)])
def test_a_large_response_is_parsed_in_a_thread(monkeypatch, bytes_more, is_on_loop):
    threads = []
    finish = Operation.finish
    monkeypatch.setattr(
        Operation, "finish", lambda *arguments: threads.append(threading.get_ident()) or finish(*arguments)
    )
    body = json.dumps([{"uri": "/3/0/0", "obs": False}]).encode()
    body += b" " * (MAX_BYTES_ON_LOOP + bytes_more - len(body))

    async def scene() -> None:
        transport = httpx.MockTransport(lambda _: httpx.Response(200, content=body))
        async with AsyncMirrorClient(URL, "key", transport=transport) as client:
            (resource,) = await client.devices.resources("0" * 32)
        assert resource.uri == "/3/0/0"

    run(scene())
    assert (threads == [threading.get_ident()]) is is_on_loop


# TimeSlice


class ManyEventsReader:
    """A reader with many events in one message, and nothing after it."""

    has_position = True
    last_failure = None
    position: int | None = 1
    pause_seconds = 0.0

    def __init__(self, message: dict[str, list[Any]]) -> None:
        self._batches = iter([Batch(Entries(message), 1)])

    async def go_to_end(self, *_: float | None) -> None:
        """Do nothing, since the position is already at the end."""

    async def read(self, *_: float | None) -> Batch:
        batch = next(self._batches, None)
        if batch is None:
            await asyncio.sleep(0)
            return Batch()
        return batch


def slow_clock() -> Callable[[], float]:
    """Return a clock that advances by a fifth of a time slice at each call."""
    ticks = count()
    return lambda: next(ticks) * LONGEST_TIME_SLICE_SECONDS / 5


def test_between_the_events_of_one_message_others_have_their_turn(monkeypatch):
    monkeypatch.setattr("mirror_sdk._protocol.async_log_consumers.TimeSlice", lambda *_: TimeSlice(slow_clock()))
    message = {"registrations": [{"ep": f"device-{one}"} for one in range(1000)]}
    counts = Counter(listed=0, watched=0)

    async def count_events() -> None:
        async for _ in AsyncEvents(ManyEventsReader(message), timeout_seconds=0):
            counts["listed"] += 1

    async def scene() -> None:
        listing = asyncio.create_task(count_events())
        watch = AsyncWatch(ManyEventsReader(message), lambda _: counts.update(["watched"]), lambda _: True)
        turns = 0
        while min(counts.values()) < 1000:
            turns += 1
            await asyncio.sleep(0)
            # At most one turn of each is in between.
            assert max(counts.values()) <= turns * 10
        await listing
        await watch.stop()

    run(scene())


def test_events_of_a_message_share_its_time_and_unreadable_ones_warn_once():
    moments = iter([datetime(2026, 1, 5, hour, tzinfo=UTC) for hour in (8, 9)])
    message = {"blips": [1, 2], "registrations": [{"ep": "a"}]}

    async def scene() -> list[tuple[str, datetime]]:
        events = AsyncEvents(ManyEventsReader(message), timeout_seconds=0, now=lambda: next(moments))
        with pytest.raises(CompatibilityWarning, match="blips"):
            await anext(events)
        return [(event.kind, event.received_at) async for event in events]

    at = datetime(2026, 1, 5, 8, tzinfo=UTC)
    assert run(scene()) == [("unknown", at), ("unknown", at), ("registration", at)]


def test_a_wait_cancelled_during_delivery_loses_no_response(monkeypatch):
    monkeypatch.setattr("mirror_sdk._protocol.async_log_consumers.TimeSlice", lambda: TimeSlice(slow_clock()))

    async def scene() -> tuple[int, list[bool]]:
        matcher = ResponseMatcher()
        responses = [{"id": f"id-{one}", "status": 200} for one in range(1000)]
        router = AsyncResponseRouter(ManyEventsReader({"async-responses": responses}), matcher)
        expected = [await router.expect(f"id-{one}") for one in (0, 500, 999)]
        unknown = await router.expect("another")
        waiting = asyncio.create_task(router.wait(unknown, PATIENCE_SECONDS))
        while not any(one.response for one in expected):
            await asyncio.sleep(0)
        assert expected[-1].response is None
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await waiting
        return matcher.unclaimed, [one.response is not None for one in expected]

    assert run(scene()) == (997, [True, True, True])


# Cancellation


class Slow:
    """Work in a thread that ends when the test allows it."""

    def __init__(self, work: Callable[..., Any]) -> None:
        self._work = work
        self.started, self.may_end, self.has_ended = threading.Event(), threading.Event(), False

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        self.started.set()
        assert self.may_end.wait(PATIENCE_SECONDS)
        made = self._work(*arguments, **options)
        self.has_ended = True
        return made


async def cancelled(
    mirror: Any, slow: Slow, call: Callable[[AsyncMirrorClient], Any], afterwards: Any = nothing
) -> None:
    """Cancel a call during its slow work, and check that it ends only with the work. Then run the queued work."""
    async with AsyncMirrorClient(URL, mirror.new_key(), transport=mirror.async_transport) as client:
        calling = asyncio.create_task(call(client))
        assert await asyncio.to_thread(slow.started.wait, PATIENCE_SECONDS)
        calling.cancel()
        await asyncio.sleep(0)
        is_over = calling.done()
        slow.may_end.set()
        assert not is_over
        with pytest.raises(asyncio.CancelledError) as error:
            await calling
        assert slow.has_ended
        await afterwards(client)
        # Objects that the error refers to were alive until here.
        assert error.value.__traceback__ is not None


def test_errors_of_the_work_are_raised_and_ignored_after_a_cancellation(caplog):
    def fail() -> None:
        raise LookupError("so it is")

    async def scene() -> None:
        slow = Slow(fail)
        working = asyncio.create_task(run_in_thread(slow))
        assert await asyncio.to_thread(slow.started.wait, PATIENCE_SECONDS)
        working.cancel()
        slow.may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await working
        with pytest.raises(LookupError, match="so it is"):
            await run_in_thread(fail)

    run(scene())
    assert [record for record in caplog.records if record.name == "asyncio"] == []


@pytest.mark.parametrize("method", ["add", "finish"])
def test_a_cancelled_dataset_is_complete_or_absent(mirror, device_id, tmp_path, monkeypatch, method):
    slow = Slow(getattr(DatasetWriter, method))
    monkeypatch.setattr(DatasetWriter, method, partialmethod(slow))
    folder = tmp_path / "in"
    run(cancelled(mirror, slow, lambda client: client.fleet.dataset(folder / "fleet")))
    assert [path.name for path in folder.iterdir()] == (["fleet"] if method == "finish" else [])
    if method == "finish":
        assert SnapshotDataset(folder / "fleet").device_count == 1


def test_a_recording_that_is_cancelled_while_it_is_opened_frees_its_folder(mirror, device_id, tmp_path, monkeypatch):
    slow = Slow(RecordingWriter.__init__)
    monkeypatch.setattr(RecordingWriter, "__init__", partialmethod(slow))

    def record(client: AsyncMirrorClient) -> Any:
        return client.record(tmp_path / "run.parquet")

    run(cancelled(mirror, slow, record, afterwards=record))


# Garbage collection


def test_a_response_creates_no_reference_cycles():
    """A cycle is freed only by a garbage collection, which stops all loops of the process."""
    transport = httpx.MockTransport(lambda _: httpx.Response(200, json=[{"uri": "/3/0/0", "obs": False}]))

    def found_after(call: Callable[[], object]) -> int:
        call()
        gc.collect()
        gc.disable()
        try:
            for _ in range(5):
                call()
            return gc.collect()
        finally:
            gc.enable()

    # Garbage of a response is found each time, but not garbage of another thread.
    with MirrorClient(URL, "key", transport=transport) as client:
        assert not all(found_after(lambda: client.devices.resources("0" * 32)) for _ in range(5))
    with asyncio.Runner() as runner:
        twin = AsyncMirrorClient(URL, "key", transport=transport)
        assert not all(found_after(lambda: runner.run(twin.devices.resources("0" * 32))) for _ in range(5))
        runner.run(twin.aclose())


def resources_alive() -> int:
    return sum(type(one) in {Resource, ResourceState} for one in gc.get_objects())


@pytest.mark.filterwarnings("ignore::mirror_sdk.SnapshotWarning")
def test_only_used_parts_of_a_device_are_retained(mirror, simulator):
    """Objects that outlive others make garbage collections longer, which stop all loops."""
    resources = [{"path": f"/3303/{one}/5700", "value": "21.5"} for one in range(10)]
    fleet = [simulator.add_device(f"device-{number}", resources) for number in range(40)]
    alive = []

    def count_garbage(request, respond):
        """Count the objects of earlier devices that are still alive."""
        if request.url.path.endswith("/echo"):
            alive.append(resources_alive())
        return without_snapshots(request, respond)

    async def scene() -> Any:
        async with AsyncMirrorClient(URL, mirror.new_key(), transport=Between(mirror, count_garbage)) as client:
            plan = await client.plan([(one, "/3303/100/5700", 1) for one in fleet])
            return plan, await client.fleet.snapshot(fleet)

    gc.freeze()  # What was there before the test is not looked through each time.
    try:
        plan, snapshot = run(scene())
    finally:
        gc.unfreeze()
    assert alive == [0] * 80
    assert set(plan.frame["device_id"]) == set(snapshot["device_id"]) == set(fleet)


@pytest.mark.parametrize("fails", [True, False])
def test_all_of_ends_every_coroutine_after_a_failure_or_a_cancellation(fails):
    async def scene() -> list[str]:
        ended: list[str] = []

        async def go_on(name: str) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                ended.append(name)

        async def fail() -> None:
            await asyncio.sleep(0)
            raise LookupError("so it is")

        doing = asyncio.create_task(all_of([go_on("a"), *([fail()] if fails else []), go_on("b")]))
        if not fails:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            doing.cancel()
        with pytest.raises(LookupError if fails else asyncio.CancelledError):
            await doing
        return sorted(ended)

    assert run(scene()) == ["a", "b"]
