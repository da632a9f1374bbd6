"""Transactions of several processes on one PostgreSQL database that are open beside each other, and what readers see.

``test_shared_database.py`` has work that is alone, and what leads.
"""

import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from typing import Any

import databases
import psycopg
import pyarrow as pa
import pytest
from devices_on_loopback import until as wait_for

from mirror_server.clock import ManualClock
from mirror_server.core.commands import CommandRequest
from mirror_server.extensions.directory.service import DirectoryService
from mirror_server.extensions.history.selection import HistorySelection
from mirror_server.extensions.history.service import HistoryService
from mirror_server.extensions.history.store import history
from mirror_server.extensions.history.store.history import StoredHistoryRow
from mirror_server.extensions.postgresql.store import backend
from mirror_server.extensions.postgresql.store.backend import _ALONE, _MAX_CONFLICT_KEYS, _locks_of
from mirror_server.extensions.requests.conditional import check_revision
from mirror_server.extensions.requests.store import waiting
from mirror_server.extensions.simulator.control import SimulatorControl
from mirror_server.extensions.simulator.device import SimulatedResource
from mirror_server.extensions.snapshots.arrow import arrow_stream
from mirror_server.extensions.snapshots.service import SnapshotSelection, SnapshotService
from mirror_server.hooks import Extensions, open_database
from mirror_server.server import Services
from mirror_server.service import keys
from mirror_server.service.commands import CommandSubmission
from mirror_server.service.keys import Scope
from mirror_server.service.long_reads import Slots
from mirror_server.store import devices, logs
from mirror_server.store import resources as stored_resources
from mirror_server.store.database import Database
from mirror_server.store.devices import DeviceRow
from mirror_server.store.maintenance import violations
from mirror_server.store.resources import ReceivedValue
from mirror_server.store.session import COUNT, Session

PATH = "/3311/0/5850"
DEVICES = [f"d{number}" for number in range(6)]


@pytest.fixture
def processes(url: str) -> Iterator[list[Database]]:
    """Three processes, with devices, and the log of an application."""
    opened = [open_database(url) for _ in range(3)]

    def work(session: Session) -> None:
        for device_id in DEVICES:
            devices.put(session, DeviceRow(device_id, device_id, "x", 1, 0, 60, 0, 0, 0, 0, "test"))
        for app_id in ("a", "b"):
            logs.create(session, app_id)

    opened[0].write(work)
    yield opened
    for database in opened:
        database.close()


def report(session: Session, device_id: str, value: bytes = b"1") -> int:
    """Store a value; gives its number."""
    return stored_resources.report(session, [ReceivedValue(value, "text/plain", "read", 1, None, device_id, PATH)])


def begin(database: Database, device_id: str) -> Future[int]:
    """Store a value in a transaction that touches this device alone."""
    return database.submit(partial(report, device_id=device_id), conflict_keys=(device_id,))


@contextmanager
def held(database: Database, device_id: str = "d0", *, value: bytes = b"1", alone: bool = False) -> Iterator[int]:
    """The number of a value that is stored, whose transaction stays open until the block ends."""
    number: Future[int] = Future()
    go_on = threading.Event()

    def hold(session: Session) -> None:
        number.set_result(report(session, device_id, value))
        assert go_on.wait(60)

    database.backend._connection.run("SET idle_in_transaction_session_timeout = 0")  # type: ignore[attr-defined]
    open_one = database.submit(hold, conflict_keys=None if alone else (device_id,))
    try:
        yield number.result(60)
    finally:
        go_on.set()
        open_one.result(60)


def seen(database: Database, after: int = -1) -> tuple[int, dict[str, int]]:
    """Up to which change a reader sees all, and the devices that changed after a number."""
    with database.read(with_revision=True) as session:
        rows = session.rows("SELECT device_id, revision FROM devices WHERE revision > :after", after=after)
        return session.last_revision(), dict(rows)


def waits_for_lock(url: str) -> bool:
    ((count,),) = databases.query(url, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
    return bool(count)


def test_what_touches_something_else_does_not_wait_and_what_touches_the_same_does(url, processes):
    first, second, third = processes
    with held(first) as one:
        number = begin(second, "d1").result(60)
        assert number > one
        same = second.submit(partial(report, device_id="d0"), conflict_keys=("d1", "d0"))
        wait_for(lambda: waits_for_lock(url))
        assert not same.done()
    assert same.result(60) > number
    with held(first):
        alone = third.submit(lambda session: session.put_setting("alone", "yes"))
        wait_for(lambda: waits_for_lock(url))
        assert not alone.done()
    alone.result(60)
    with held(first, alone=True):
        beside = begin(second, "d1")
        wait_for(lambda: waits_for_lock(url))
        assert not beside.done()
    beside.result(60)


def test_one_that_has_to_be_alone_makes_all_of_its_group_so(url, processes):
    first, second, _ = processes
    with held(first):
        with held(second, "d1"):
            # They come together into the next transaction.
            group = [begin(second, "d2") for _ in range(3)]
            group.append(second.submit(lambda session: report(session, "d3")))
        wait_for(lambda: waits_for_lock(url))
        assert not any(future.done() for future in group)
    assert len({future.result(60) for future in group}) == 4


def test_nobody_is_told_of_a_change_behind_one_that_is_yet_to_come(processes):
    first, second, reading = processes
    before, _ = seen(reading)
    with held(first) as one:
        assert one == before + 1
        later = begin(second, "d1").result(60)
        assert later == before + 2
        last, newer = seen(reading, before)
        assert (last, newer) == (before, {"d1": later}), "what is told last is seen, and nothing below it is to come"
    last, newer = seen(reading, last)
    assert (last, newer) == (later, {"d0": one, "d1": later})


def test_no_table_is_held_of_which_a_part_is_yet_to_be_stored(processes):
    """Two changes of one page, of which the one with the smaller number is stored last."""
    first, second, reading = processes
    snapshots = SnapshotService(reading, ManualClock(0), Slots.of_downloads(share=1))

    def told() -> dict[str, list[bytes]]:
        with closing(snapshots.open("a", SnapshotSelection())) as snapshot:
            stream = b"".join(arrow_stream(snapshot, "none", snapshots.encoded_pages, b"{}"))
        rows = pa.ipc.open_stream(stream).read_all().to_pylist()
        return {row["device_id"]: [each["reported_value"] for each in row["resources"]] for row in rows}

    with held(first, value=b"new"):
        second.submit(partial(report, device_id="d1", value=b"new"), conflict_keys=("d1",)).result(60)
        assert (told()["d0"], told()["d1"]) == ([], [b"new"])
    assert told()["d0"] == told()["d1"] == [b"new"]
    assert list(snapshots.encoded_pages._entries), "what is whole is held"


def test_later_pages_of_a_history_have_all_rows_that_its_first_one_saw(processes):
    """A request that is under way beside them, with a smaller number, holds up none of them."""
    first, second, reading = processes
    service = HistoryService(reading, ManualClock(0))

    def happen(session: Session, path: str) -> int:
        value = ReceivedValue(b"1", "text/plain", "read", 1, None, "d1", path)
        revision = stored_resources.report(session, [value])
        history.add(session, [StoredHistoryRow(revision, "d1", None, path, 1, 1, "reported", "read", b"1")])
        return revision

    with held(first):
        numbers = [
            second.submit(partial(happen, path=path), conflict_keys=("d1", logs.EVERY)).result(60)
            for path in ("/1/0/1", "/1/0/2")
        ]
        with closing(service.open(HistorySelection())) as opened:
            known = opened.revision
        later = second.submit(partial(happen, path="/1/0/3"), conflict_keys=("d1", logs.EVERY)).result(60)
        with closing(service.open(HistorySelection(revision=known))) as opened:
            told = [number for batch in opened.batches() for number in batch.column("revision").to_pylist()]
    assert told == numbers
    with closing(service.open(HistorySelection())) as opened:
        assert opened.revision >= later


@pytest.mark.parametrize("end", ["undone", "lost"])
def test_numbers_of_what_was_not_stored_hold_up_nothing_and_are_not_given_again(url, processes, end):
    first, second, reading = processes
    before, _ = seen(reading)

    def fail(session: Session) -> None:
        report(session, "d0")
        report(session, "d0")
        if end == "lost":
            databases.query(url, f"SELECT pg_terminate_backend({session.scalar('SELECT pg_backend_pid()')}, 5000)")
            session.scalar("SELECT 1")
        raise ValueError

    failed = first.submit(fail, conflict_keys=("d0",))
    assert failed.exception(60) is not None
    # A lost connection stored nothing; of work that was undone alone, how far was counted is on disk with its group.
    told, newer = seen(reading, before)
    assert (told, newer) == (before if end == "lost" else told, {})
    number = begin(second, "d1").result(60)
    assert number > max(told, before + 2)
    assert seen(reading, before) == (number, {"d1": number})
    assert begin(first, "d0").result(60) == number + 1


def test_who_counts_looks_once_at_how_far_was_counted(url, processes):
    """By the difference of two looks a number is given again that another one took in between."""
    count = COUNT.replace(":count", "1")
    plan = databases.query(url, f"EXPLAIN (VERBOSE, COSTS OFF) {count}")
    assert sum("Scan on public.revision_numbers" in line for (line,) in plan) == 1


def test_who_asks_which_changes_it_sees_waits_for_nobody_who_writes(url, processes):
    """It is the thread of the web server that asks, and a commit may hang on a disk, or on a replica."""
    first, second, reading = processes
    ((locks,),) = databases.query(
        url,
        "SELECT array_agg(DISTINCT locked[1]) FROM pg_proc,"
        r" regexp_matches(prosrc, '_lock(?:_shared)?\((\d{12,})\)', 'g') AS locked WHERE proname LIKE '%\_writing'",
    )
    assert len(locks) > 1
    with held(first) as one:
        number = begin(second, "d1").result(60)
        assert seen(reading, one - 1) == (one - 1, {"d1": number})
    with closing(psycopg.connect(url)) as writing:
        for lock in locks:
            writing.execute("SELECT pg_advisory_xact_lock(%s)", (lock,))
        assert seen(reading)[0] == number


@contextmanager
def looking(
    url: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Future[tuple[int, dict[str, int]]]]:
    """A look for which changes are seen that stands, in the middle, until the block ends."""
    stand = "SELECT pg_advisory_xact_lock(1)"
    begin = backend._BEGIN_READING_NUMBERS.replace("COMMIT; ", f"COMMIT; BEGIN; {stand}; COMMIT; ", 1)
    monkeypatch.setattr(backend, "_BEGIN_READING_NUMBERS", begin)
    with closing(psycopg.connect(url)) as held_up, ThreadPoolExecutor(1) as thread:
        held_up.execute(stand.encode())
        told = thread.submit(seen, database)
        try:
            wait_for(lambda: waits_for_lock(url))
            yield told
        finally:
            held_up.rollback()


def test_what_ended_in_the_middle_of_a_look_is_looked_for_again(url, processes, monkeypatch):
    first, _, reading = processes
    with looking(url, reading, monkeypatch) as told:
        number = first.write(partial(report, device_id="d0"))
    last, newest = told.result(60)
    assert last == newest["d0"] == number


def test_what_ended_in_the_middle_of_every_look_may_be_behind_the_number_that_is_told(url, processes, monkeypatch):
    first, second, reading = processes
    monkeypatch.setattr(backend, "_MOST_LOOKS", 0)
    with held(first) as one:
        with looking(url, reading, monkeypatch) as told:
            later = begin(second, "d1").result(60)
        last, newest = told.result(60)
        assert (last, newest["d1"]) == (one - 1, later)
    with looking(url, reading, monkeypatch) as told:
        number = first.write(partial(report, device_id="d0"))
    last, newest = told.result(60)
    assert (last, newest["d0"]) == (later, number)


def test_a_device_has_its_resources_in_one_order_whichever_was_changed_last(url, processes):
    _, second, reading = processes
    paths = [f"/1/0/{number}" for number in range(1, 6)]
    for path in paths[::-1] + paths:
        value = ReceivedValue(b"1", "text/plain", "read", 1, None, "d0", path)
        second.submit(partial(stored_resources.report, values=[value]), conflict_keys=("d0",)).result(60)
        # So few are not looked for by their index, as PostgreSQL learns by and by.
        databases.execute(url, "ANALYZE resources")
        found = reading.query(lambda session: devices.object_of(session, "d0"))
        assert found is not None
        told = [resource.path for resource in found[1]]
        assert told == sorted(told)
    assert told == paths


def test_what_is_touched_is_locked_in_one_order_and_too_much_of_it_has_to_be_alone():
    assert _locks_of(DEVICES) == _locks_of(DEVICES[::-1])
    assert _locks_of(set()) == "'{}'"
    many = [str(number) for number in range(_MAX_CONFLICT_KEYS + 1)]
    assert _locks_of(many[:-1]).count(",") == _MAX_CONFLICT_KEYS - 1
    assert _locks_of(many) == _ALONE
    assert _locks_of(None) == _ALONE


def test_readers_of_numbers_of_logs_and_of_devices_miss_nothing_of_three_that_write_at_once(processes):
    """A model keeps what was stored; a copy of the devices, and one of each log, are kept up by asking for newer."""
    chance = random.Random(7)
    expected: dict[str, list[tuple[int, bytes]]] = {device_id: [] for device_id in DEVICES}

    def tell(session: Session, number: int, told: list[str], app_id: str) -> list[tuple[str, int, bytes]]:
        given = [(device_id, report(session, device_id, b"%d" % number), b"%d" % number) for device_id in told]
        end = logs.append(session, app_id, [(told[0], b"%d" % number)], kind="k", at=number, read_seq=0)
        assert end is not None
        return given

    def take_in(copy: dict[str, bytes], after: int) -> int:
        with processes[-1].read(with_revision=True) as session:
            newer = (
                "SELECT d.device_id, r.reported_value FROM devices d JOIN resources r ON r.device_id = d.device_id"
                " WHERE d.revision > :after"
            )
            copy |= dict(session.rows(newer, after=after))
            return session.last_revision()

    def read_on(told: list[int], app_id: str) -> None:
        with processes[-1].read() as session:
            told += [seq for seq, *_ in logs.read(session, app_id, len(told), 10_000, 1 << 30)[1]]

    futures: list[tuple[int, str, Future[Any]]] = []
    copy: dict[str, bytes] = {}
    read: dict[str, list[int]] = {"a": [], "b": []}
    after, looks = 0, []
    for number in range(240):
        told = chance.sample(DEVICES, chance.randint(1, 3))
        app_id = chance.choice("ab")
        work = partial(tell, number=number, told=told, app_id=app_id)
        database = chance.choice(processes)
        # Who names the application instead of all logs appends beside the other.
        future = database.submit(work, conflict_keys=None if chance.random() < 0.05 else (*told, app_id))
        futures.append((number, app_id, future))
        if number % 4 == 0:
            after = take_in(copy, after)
            looks.append(after)
            read_on(read[app_id], app_id)
    for _, _, future in futures:
        for device_id, revision, value in future.result(60):
            expected[device_id].append((revision, value))
    after = take_in(copy, after)
    assert looks == sorted(looks)
    assert after >= looks[-1]
    assert copy == {device_id: max(told)[1] for device_id, told in expected.items()}
    for app_id, told in read.items():
        read_on(told, app_id)
        assert told == list(range(1, 1 + sum(each == app_id for _, each, _ in futures)))
    numbers = [revision for told in expected.values() for revision, _ in told]
    assert len(set(numbers)) == len(numbers)


@pytest.fixture
def services(open_services: Callable[..., Services]) -> list[Services]:
    return [open_services(), open_services()]


@pytest.fixture
def app_id(services: list[Services]) -> str:
    key = keys.create(services[0].database, "test", tuple(Scope), services[0].clock.now())
    services[0].log.ensure_log(key.split("_")[1])
    return key.split("_")[1]


def add_devices(services: Services, number: int) -> list[str]:
    resource = SimulatedResource(
        path=PATH, value="0", observable=True, auto_observable=True, writable=True, executable=False
    )
    added = [services.part(SimulatorControl).backend.add(f"lamp-{at}", "", False, [resource]) for at in range(number)]
    assert services.database.settle(60)
    return added


def test_requests_that_two_processes_take_at_once_are_each_answered_once(services, app_id):
    """Against a model: each request has one answer, each device its last write, and no number is missing."""
    leader, other = services
    ids = add_devices(leader, 5)
    chance = random.Random(3)
    last_write: dict[str, bytes] = {}
    placed: dict[str, Future[Any]] = {}
    entries: list[Any] = []
    for number in range(120):
        device_id = chance.choice(ids)
        request = CommandRequest("GET", PATH)
        if chance.random() > 0.3:
            last_write[device_id] = b"%d" % number
            request = CommandRequest("PUT", PATH, payload=last_write[device_id], content_type="text/plain")
        # Those for one device in turns: which of two that are under way is accepted first, nobody says.
        process = services[ids.index(device_id) % 2]
        placed[f"{number}"] = process.commands.submit(CommandSubmission(app_id, device_id, request, f"{number}"))
        if number % 10 == 9:
            # As many wait for a device as may.
            [future.result(60) for future in placed.values()]
            entries += other.log.read(app_id, len(entries)).entries
    assert [future.result(60).async_id for future in placed.values()] == list(placed)
    wait_for(lambda: not waiting_requests(leader, app_id))
    entries += leader.log.read(app_id, len(entries)).entries
    assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
    assert sorted(entry.body["id"] for entry in entries if entry.kind == "async-responses") == sorted(placed)
    with other.database.read() as session:
        assert list(violations(session, Extensions().storages)) == []
        for device_id, value in last_write.items():
            _, (row,) = devices.object_of(session, device_id)
            assert (row.desired_value, row.desired_status) == (value, 1)


def waiting_requests(process, app_id):
    with process.database.read() as session:
        return waiting(session, app_id, device_id=None, after=0, limit=1)


def test_of_two_that_ask_two_processes_for_the_same_at_once_one_gets_it(services, app_id):
    """A request's id, a write of what both saw, a name of a query, rules that both saw."""
    first, second = services
    lamp, other = add_devices(first, 2)
    for turn in range(10):
        with first.database.read() as session:
            _, (row,) = devices.object_of(session, lamp)
        _, tag = first.subscriptions.rules(app_id)
        write = CommandRequest("PUT", PATH, payload=b"%d" % turn)
        conflicts = [
            first.commands.submit(CommandSubmission(app_id, lamp, CommandRequest("GET", PATH), f"{turn}")),
            second.commands.submit(CommandSubmission(app_id, other, CommandRequest("GET", PATH), f"{turn}")),
        ]
        is_as_seen = partial(check_revision, app_id=app_id, expected=row.desired_revision or 0)
        writes = [
            each.commands.submit(CommandSubmission(app_id, lamp, write, f"{turn}-{at}", checks=(is_as_seen,)))
            for at, each in enumerate(services)
        ]
        queries = [each.part(DirectoryService).save_query(f"{turn}", f"id={at}") for at, each in enumerate(services)]
        rules = [
            each.subscriptions.put_rules(app_id, f'[{{"endpoint-name":"{turn}-{at}"}}]', matches_tag=tag.__eq__)
            for at, each in enumerate(services)
        ]
        for code, futures in ((409, conflicts), (412, writes), (400, queries), (412, rules)):
            refused = [getattr(future.exception(60), "code", None) for future in futures]
            assert sorted(refused, key=str) == [code, None], (code, refused)
        wait_for(lambda: not waiting_requests(first, app_id))
