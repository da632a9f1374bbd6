"""Concurrent transactions of several processes on one PostgreSQL database, and the changes that readers see.

``test_shared_database.py`` has single transactions, and leadership.
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
from mirror_server.extensions.requests.conditional_writes import check_revision
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
from mirror_server.service.slow_reads import Slots
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
    """Three processes on one database, with devices and the logs of two applications."""
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
    """Store a value, and return its revision."""
    return stored_resources.report(session, [ReceivedValue(value, "text/plain", "read", 1, None, device_id, PATH)])


def submit_report(database: Database, device_id: str) -> Future[int]:
    """Store a value in a transaction with only this device as its conflict key."""
    return database.submit(partial(report, device_id=device_id), conflict_keys=(device_id,))


@contextmanager
def open_transaction(
    database: Database, device_id: str = "d0", *, value: bytes = b"1", exclusive: bool = False
) -> Iterator[int]:
    """Yield the revision of a stored value. Its transaction stays open until the block ends."""
    number: Future[int] = Future()
    may_commit = threading.Event()

    def keep_open(session: Session) -> None:
        number.set_result(report(session, device_id, value))
        assert may_commit.wait(60)

    database.backend._connection.run("SET idle_in_transaction_session_timeout = 0")  # type: ignore[attr-defined]
    future = database.submit(keep_open, conflict_keys=None if exclusive else (device_id,))
    try:
        yield number.result(60)
    finally:
        may_commit.set()
        future.result(60)


def visible_changes(database: Database, after: int = -1) -> tuple[int, dict[str, int]]:
    """Return the revision up to which a reader sees all changes, and the devices changed after a revision."""
    with database.read(with_revision=True) as session:
        rows = session.rows("SELECT device_id, revision FROM devices WHERE revision > :after", after=after)
        return session.last_revision(), dict(rows)


def waits_for_lock(url: str) -> bool:
    ((count,),) = databases.query(url, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
    return bool(count)


def test_only_transactions_with_common_conflict_keys_wait(url, processes):
    first, second, third = processes
    with open_transaction(first) as one:
        number = submit_report(second, "d1").result(60)
        assert number > one
        same = second.submit(partial(report, device_id="d0"), conflict_keys=("d1", "d0"))
        wait_for(lambda: waits_for_lock(url))
        assert not same.done()
    assert same.result(60) > number
    with open_transaction(first):
        exclusive = third.submit(lambda session: session.put_setting("alone", "yes"))
        wait_for(lambda: waits_for_lock(url))
        assert not exclusive.done()
    exclusive.result(60)
    with open_transaction(first, exclusive=True):
        concurrent = submit_report(second, "d1")
        wait_for(lambda: waits_for_lock(url))
        assert not concurrent.done()
    concurrent.result(60)


def test_exclusive_transaction_makes_its_group_exclusive(url, processes):
    first, second, _ = processes
    with open_transaction(first):
        with open_transaction(second, "d1"):
            # They are grouped into the next transaction.
            group = [submit_report(second, "d2") for _ in range(3)]
            group.append(second.submit(lambda session: report(session, "d3")))
        wait_for(lambda: waits_for_lock(url))
        assert not any(future.done() for future in group)
    assert len({future.result(60) for future in group}) == 4


def test_reader_revision_stops_before_uncommitted_changes(processes):
    first, second, reading = processes
    before, _ = visible_changes(reading)
    with open_transaction(first) as one:
        assert one == before + 1
        later = submit_report(second, "d1").result(60)
        assert later == before + 2
        last, newer = visible_changes(reading, before)
        assert (last, newer) == (before, {"d1": later}), "all changes up to the reported revision are visible"
    last, newer = visible_changes(reading, last)
    assert (last, newer) == (later, {"d0": one, "d1": later})


def test_snapshot_page_with_uncommitted_changes_is_not_cached(processes):
    """Of two changes on one page, the one with the smaller revision is committed last."""
    first, second, reading = processes
    snapshots = SnapshotService(reading, ManualClock(0), Slots.of_downloads(share=1))

    def snapshot_values() -> dict[str, list[bytes]]:
        with closing(snapshots.open("a", SnapshotSelection())) as snapshot:
            stream = b"".join(arrow_stream(snapshot, "none", snapshots.encoded_pages, b"{}"))
        rows = pa.ipc.open_stream(stream).read_all().to_pylist()
        return {row["device_id"]: [each["reported_value"] for each in row["resources"]] for row in rows}

    with open_transaction(first, value=b"new"):
        second.submit(partial(report, device_id="d1", value=b"new"), conflict_keys=("d1",)).result(60)
        assert (snapshot_values()["d0"], snapshot_values()["d1"]) == ([], [b"new"])
    assert snapshot_values()["d0"] == snapshot_values()["d1"] == [b"new"]
    assert list(snapshots.encoded_pages._entries), "a complete page is cached"


def test_later_history_pages_have_all_rows_of_the_first_revision(processes):
    """An open transaction with a smaller revision does not delay them."""
    first, second, reading = processes
    service = HistoryService(reading, ManualClock(0))

    def report_with_history(session: Session, path: str) -> int:
        value = ReceivedValue(b"1", "text/plain", "read", 1, None, "d1", path)
        revision = stored_resources.report(session, [value])
        history.add(session, [StoredHistoryRow(revision, "d1", None, path, 1, 1, "reported", "read", b"1")])
        return revision

    with open_transaction(first):
        numbers = [
            second.submit(partial(report_with_history, path=path), conflict_keys=("d1", logs.EVERY)).result(60)
            for path in ("/1/0/1", "/1/0/2")
        ]
        with closing(service.open(HistorySelection())) as opened:
            first_revision = opened.revision
        later = second.submit(partial(report_with_history, path="/1/0/3"), conflict_keys=("d1", logs.EVERY)).result(60)
        with closing(service.open(HistorySelection(revision=first_revision))) as opened:
            revisions = [number for batch in opened.batches() for number in batch.column("revision").to_pylist()]
    assert revisions == numbers
    with closing(service.open(HistorySelection())) as opened:
        assert opened.revision >= later


@pytest.mark.parametrize("failure", ["undone", "lost"])
def test_revisions_of_failed_transactions_block_nothing_and_are_not_reused(url, processes, failure):
    first, second, reading = processes
    before, _ = visible_changes(reading)

    def fail(session: Session) -> None:
        report(session, "d0")
        report(session, "d0")
        if failure == "lost":
            databases.query(url, f"SELECT pg_terminate_backend({session.scalar('SELECT pg_backend_pid()')}, 5000)")
            session.scalar("SELECT 1")
        raise ValueError

    failed = first.submit(fail, conflict_keys=("d0",))
    assert failed.exception(60) is not None
    # A lost connection stores nothing. After a rollback of one work item, the counter is stored with its group.
    revision, newer = visible_changes(reading, before)
    assert (revision, newer) == (before if failure == "lost" else revision, {})
    number = submit_report(second, "d1").result(60)
    assert number > max(revision, before + 2)
    assert visible_changes(reading, before) == (number, {"d1": number})
    assert submit_report(first, "d0").result(60) == number + 1


def test_revision_counter_is_read_once_per_statement(url, processes):
    """With two reads, a revision that another transaction used in between would be used again."""
    count = COUNT.replace(":count", "1")
    plan = databases.query(url, f"EXPLAIN (VERBOSE, COSTS OFF) {count}")
    assert sum("Scan on public.revision_numbers" in line for (line,) in plan) == 1


def test_revision_reader_does_not_wait_for_writers(url, processes):
    """Readers run on the thread of the web server, and a commit may wait for a disk or a replica."""
    first, second, reading = processes
    ((locks,),) = databases.query(
        url,
        "SELECT array_agg(DISTINCT locked[1]) FROM pg_proc,"
        r" regexp_matches(prosrc, '_lock(?:_shared)?\((\d{12,})\)', 'g') AS locked WHERE proname LIKE '%\_writing'",
    )
    assert len(locks) > 1
    with open_transaction(first) as one:
        number = submit_report(second, "d1").result(60)
        assert visible_changes(reading, one - 1) == (one - 1, {"d1": number})
    with closing(psycopg.connect(url)) as writing:
        for lock in locks:
            writing.execute("SELECT pg_advisory_xact_lock(%s)", (lock,))
        assert visible_changes(reading)[0] == number


@contextmanager
def paused_revision_read(
    url: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Future[tuple[int, dict[str, int]]]]:
    """Yield the result of a read of the visible changes, which is paused until the block ends."""
    wait_statement = "SELECT pg_advisory_xact_lock(1)"
    begin = backend._BEGIN_READING_NUMBERS.replace("COMMIT; ", f"COMMIT; BEGIN; {wait_statement}; COMMIT; ", 1)
    monkeypatch.setattr(backend, "_BEGIN_READING_NUMBERS", begin)
    with closing(psycopg.connect(url)) as blocker, ThreadPoolExecutor(1) as thread:
        blocker.execute(wait_statement.encode())
        result = thread.submit(visible_changes, database)
        try:
            wait_for(lambda: waits_for_lock(url))
            yield result
        finally:
            blocker.rollback()


def test_commit_during_revision_read_is_read_again(url, processes, monkeypatch):
    first, _, reading = processes
    with paused_revision_read(url, reading, monkeypatch) as result:
        number = first.write(partial(report, device_id="d0"))
    last, newest = result.result(60)
    assert last == newest["d0"] == number


def test_commit_during_last_revision_read_may_exceed_reported_revision(url, processes, monkeypatch):
    first, second, reading = processes
    monkeypatch.setattr(backend, "_MAX_ATTEMPTS", 0)
    with open_transaction(first) as one:
        with paused_revision_read(url, reading, monkeypatch) as result:
            later = submit_report(second, "d1").result(60)
        last, newest = result.result(60)
        assert (last, newest["d1"]) == (one - 1, later)
    with paused_revision_read(url, reading, monkeypatch) as result:
        number = first.write(partial(report, device_id="d0"))
    last, newest = result.result(60)
    assert (last, newest["d0"]) == (later, number)


def test_resources_of_device_are_sorted_by_path(url, processes):
    _, second, reading = processes
    paths = [f"/1/0/{number}" for number in range(1, 6)]
    for path in paths[::-1] + paths:
        value = ReceivedValue(b"1", "text/plain", "read", 1, None, "d0", path)
        second.submit(partial(stored_resources.report, values=[value]), conflict_keys=("d0",)).result(60)
        # With statistics, PostgreSQL does not use the index for so few rows.
        databases.execute(url, "ANALYZE resources")
        found = reading.query(lambda session: devices.object_of(session, "d0"))
        assert found is not None
        found_paths = [resource.path for resource in found[1]]
        assert found_paths == sorted(found_paths)
    assert found_paths == paths


def test_conflict_keys_are_locked_in_order_and_too_many_lock_exclusively():
    assert _locks_of(DEVICES) == _locks_of(DEVICES[::-1])
    assert _locks_of(set()) == "'{}'"
    many = [str(number) for number in range(_MAX_CONFLICT_KEYS + 1)]
    assert _locks_of(many[:-1]).count(",") == _MAX_CONFLICT_KEYS - 1
    assert _locks_of(many) == _ALONE
    assert _locks_of(None) == _ALONE


def test_incremental_readers_miss_nothing_of_three_concurrent_writers(processes):
    """Copies of the devices and logs, updated with newer entries only, must equal a model of the stored data."""
    chance = random.Random(7)
    expected: dict[str, list[tuple[int, bytes]]] = {device_id: [] for device_id in DEVICES}

    def report_and_log(session: Session, number: int, ids: list[str], app_id: str) -> list[tuple[str, int, bytes]]:
        changes = [(device_id, report(session, device_id, b"%d" % number), b"%d" % number) for device_id in ids]
        end = logs.append(session, app_id, [(ids[0], b"%d" % number)], kind="k", at=number, read_seq=0)
        assert end is not None
        return changes

    def update_copy(copy: dict[str, bytes], after: int) -> int:
        with processes[-1].read(with_revision=True) as session:
            newer = (
                "SELECT d.device_id, r.reported_value FROM devices d JOIN resources r ON r.device_id = d.device_id"
                " WHERE d.revision > :after"
            )
            copy |= dict(session.rows(newer, after=after))
            return session.last_revision()

    def read_newer(seqs: list[int], app_id: str) -> None:
        with processes[-1].read() as session:
            seqs += [seq for seq, *_ in logs.read(session, app_id, len(seqs), 10_000, 1 << 30)[1]]

    futures: list[tuple[int, str, Future[Any]]] = []
    copy: dict[str, bytes] = {}
    read: dict[str, list[int]] = {"a": [], "b": []}
    after, revisions = 0, []
    for number in range(240):
        ids = chance.sample(DEVICES, chance.randint(1, 3))
        app_id = chance.choice("ab")
        work = partial(report_and_log, number=number, ids=ids, app_id=app_id)
        database = chance.choice(processes)
        # Work with the application as its key, instead of all logs, appends concurrently.
        future = database.submit(work, conflict_keys=None if chance.random() < 0.05 else (*ids, app_id))
        futures.append((number, app_id, future))
        if number % 4 == 0:
            after = update_copy(copy, after)
            revisions.append(after)
            read_newer(read[app_id], app_id)
    for _, _, future in futures:
        for device_id, revision, value in future.result(60):
            expected[device_id].append((revision, value))
    after = update_copy(copy, after)
    assert revisions == sorted(revisions)
    assert after >= revisions[-1]
    assert copy == {device_id: max(changes)[1] for device_id, changes in expected.items()}
    for app_id, seqs in read.items():
        read_newer(seqs, app_id)
        assert seqs == list(range(1, 1 + sum(each == app_id for _, each, _ in futures)))
    numbers = [revision for changes in expected.values() for revision, _ in changes]
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


def test_concurrent_requests_at_two_processes_get_one_response_each(services, app_id):
    """Compared with a model: each request has one response, each device its last write, and no entry is missing."""
    leader, other = services
    ids = add_devices(leader, 5)
    chance = random.Random(3)
    last_write: dict[str, bytes] = {}
    submitted: dict[str, Future[Any]] = {}
    entries: list[Any] = []
    for number in range(120):
        device_id = chance.choice(ids)
        request = CommandRequest("GET", PATH)
        if chance.random() > 0.3:
            last_write[device_id] = b"%d" % number
            request = CommandRequest("PUT", PATH, payload=last_write[device_id], content_type="text/plain")
        # Requests for one device use one process: the order of concurrent ones is undefined.
        process = services[ids.index(device_id) % 2]
        submitted[f"{number}"] = process.commands.submit(CommandSubmission(app_id, device_id, request, f"{number}"))
        if number % 10 == 9:
            # The number of waiting requests per device is limited.
            [future.result(60) for future in submitted.values()]
            entries += other.log.read(app_id, len(entries)).entries
    assert [future.result(60).async_id for future in submitted.values()] == list(submitted)
    wait_for(lambda: not pending_requests(leader, app_id))
    entries += leader.log.read(app_id, len(entries)).entries
    assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
    assert sorted(entry.body["id"] for entry in entries if entry.kind == "async-responses") == sorted(submitted)
    with other.database.read() as session:
        assert list(violations(session, Extensions().storages)) == []
        for device_id, value in last_write.items():
            _, (row,) = devices.object_of(session, device_id)
            assert (row.desired_value, row.desired_status) == (value, 1)


def pending_requests(process, app_id):
    with process.database.read() as session:
        return waiting(session, app_id, device_id=None, after=0, limit=1)


def test_concurrent_conflicting_requests_at_two_processes_succeed_once(services, app_id):
    """The conflicts are the id of a request, the revision of a value, the name of a query, and the tag of the rules."""
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
            codes = [getattr(future.exception(60), "code", None) for future in futures]
            assert sorted(codes, key=str) == [code, None], (code, codes)
        wait_for(lambda: not pending_requests(first, app_id))
