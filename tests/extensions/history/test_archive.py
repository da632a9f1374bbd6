"""The archive: reads by other programs, deletion during reads, and failures of the storage."""

import errno
from collections.abc import Callable
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import duckdb
import fsspec
import pandas as pd
import polars as pl
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from histories import DAY, NOW, PATHS, StoredHistory, expected, found, rows_of

from mirror_sdk.arrow_tables.history import HISTORY_SCHEMA
from mirror_sdk.errors import InvalidValue
from mirror_sdk.sql import HistoryArchive
from mirror_server.extensions.history import consistency, eraser
from mirror_server.extensions.history.archive import Archive
from mirror_server.extensions.history.compaction import Compaction
from mirror_server.extensions.history.eraser import HistoryEraser
from mirror_server.extensions.history.offload import Offload
from mirror_server.extensions.history.selection import HistorySelection
from mirror_server.extensions.history.service import HistoryService
from mirror_server.extensions.history.store import history, segments
from mirror_server.extensions.history.store.history import StoredHistoryRow
from mirror_server.store.backend import NotLeader, StorageFailed
from mirror_server.store.database import Database
from mirror_server.store.session import LEADER, Session

TEXT = StoredHistoryRow(0, "a", None, PATHS[0], NOW, 0, "reported", "observation", b"21.5", "text/plain")
BYTES = TEXT._replace(device_id="b", value=b"\xff\x00", content_type="application/octet-stream")
WRITE = TEXT._replace(what="desired", origin="write", status=2, category="DEVICE_ERROR", app_id="app", requested_at=NOW)
GAP = StoredHistoryRow(0, None, None, None, NOW, 0, "gap", until=NOW + 5)


@pytest.fixture
def stored(new_history: Callable[..., StoredHistory]) -> StoredHistory:
    """A history with an archived day."""
    earlier = (TEXT._replace(changed_at=NOW - hours * 3_600_000) for hours in range(0, 40, 2))
    made = with_an_archived_day(new_history(), TEXT, BYTES, WRITE, GAP, *earlier)
    assert made.named_files()
    return made


def with_an_archived_day(stored: StoredHistory, *rows: StoredHistoryRow) -> StoredHistory:
    stored.record(*rows)
    stored.pass_time(DAY)
    stored.round()
    return stored


def test_archive_is_readable_by_other_programs(stored):
    folder = stored.folder / "archive"
    count = len(stored.recorded.rows)
    arrow = ds.dataset(folder, partitioning="hive").to_table()
    assert (arrow.num_rows, str(arrow.schema.field("changed_at").type)) == (count, "timestamp[ms, tz=UTC]")
    frame = pd.read_parquet(folder)
    assert len(frame) == count
    assert str(frame["changed_at"].dtype) == "datetime64[ms, UTC]"
    assert set(frame["day"]) == {"other", "2026-01-04", "2026-01-05"}
    failed = frame[frame["status"] == "failure"].iloc[0]
    assert (failed["device_id"], failed["value"], failed["category"]) == ("a", "21.5", "DEVICE_ERROR")
    assert frame[frame["device_id"] == "b"].iloc[0]["value_binary"] == b"\xff\x00"
    query = f"SELECT count(*), max(received_at), count(value) FROM read_parquet('{folder}/*/*.parquet')"
    row_count, last_at, texts = duckdb.sql(query).fetchall()[0]
    assert (row_count, round(last_at.timestamp() * 1000), texts) == (count, NOW, count - 2)
    lazy = pl.scan_parquet(folder).filter(pl.col("device_id") == "a").select("revision").collect()
    assert sorted(lazy["revision"]) == sorted(row.revision for row in stored.recorded.rows if row.device_id == "a")


def test_sql_reads_the_archive_as_a_history(stored):
    archive = HistoryArchive(stored.folder / "archive")
    rows = stored.recorded.rows
    found = archive.sql("from history", as_="arrow")
    assert found.schema.names == HISTORY_SCHEMA.names
    assert sorted(found["revision"].to_pylist()) == sorted(row.revision for row in rows)
    failed = archive.sql("select * from history where status = 'failure'", as_="arrow").to_pylist()
    assert [(row["event"], row["value_num"], row["category"]) for row in failed] == [("write", 21.5, "DEVICE_ERROR")]
    query = f"select count(*) as n from history where device_id = 'a' and changed_at >= make_timestamptz({NOW} * 1000)"
    assert archive.sql(query)["n"].tolist() == [sum(row.device_id == "a" and row.changed_at >= NOW for row in rows)]
    assert "device_id" in archive.sql(query, explain=True)["fetched"][0]
    with pytest.raises(InvalidValue, match=f"at least {len(rows)} rows"):
        archive.sql("from history", max_rows=1)


def test_open_query_reads_files_that_were_trimmed(stored):
    """Trimmed files are deleted when their last reader ends."""
    before, files = expected(stored.recorded.rows), stored.named_files()
    with closing(stored.service.open(HistorySelection())) as opened:
        batches = opened.batches()
        first = list(rows_of([next(batches)]))
        stored.pass_time(60 * DAY)
        stored.record(TEXT._replace(changed_at=stored.now))
        stored.round()
        stored.round()
        assert stored.named_files() == []
        assert stored.files() == files
        assert first + list(rows_of(batches)) == before
    stored.round()
    assert stored.files() == []
    assert found(stored.service) == expected(stored.recorded.rows)


def test_file_deleted_during_read_is_skipped(stored):
    """Another process has trimmed it."""
    count = len(stored.recorded.rows)
    with closing(stored.service.open(HistorySelection())) as opened:
        batches = opened.batches()
        stored.pass_time(60 * DAY)
        stored.open()
        for _ in range(3):
            stored.round()
        assert stored.files() == []
        assert len(list(rows_of(batches))) < count


def test_missing_or_damaged_file_is_named(stored, caplog):
    name = stored.named_files()[0]
    path = stored.folder / "archive" / name
    content = path.read_bytes()
    path.unlink()
    with pytest.raises(StorageFailed):
        found(stored.service)
    assert name in caplog.text
    (missing,) = map(str, stored.violations())
    assert missing.startswith(
        f"a segment or file of the history cannot be read: 1\n  {name}: [Errno 2] Failed to open local file"
    )
    path.write_bytes(content[:100] + bytes(20) + content[120:])
    assert [each.kind for each in stored.violations()] == ["a segment or file of the history cannot be read"]
    path.write_bytes(content)
    assert stored.violations() == []


@pytest.mark.parametrize("is_there", [True, False])
def test_failing_archive_leaves_rows_in_database(stored, is_there, caplog, monkeypatch):
    folder, aside = stored.folder / "archive", stored.folder / "aside"
    stored.record(TEXT, BYTES)
    stored.pass_time(DAY)
    if is_there:
        monkeypatch.setattr(Path, "open", Mock(side_effect=OSError(errno.ENOSPC, "refused")))
    else:
        folder.rename(aside)
    fails_to_archive(stored, caplog)
    monkeypatch.undo()
    if not is_there:
        aside.rename(folder)
    assert found(stored.service) == expected(stored.recorded.rows)
    stored.round()
    assert "can archive the history again" in caplog.text
    assert found(stored.service) == expected(stored.recorded.rows)


def fails_to_archive(stored: StoredHistory, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        stored.retention.round()
    assert list(stored.retention.failures) == ["archive the history"]
    assert caplog.text.count("cannot archive the history") == 1


def test_unwritable_archive_is_logged_before_first_completed_day(new_history, tmp_path, caplog, monkeypatch):
    folder = tmp_path / "named"
    monkeypatch.setattr("os.access", lambda path, mode: Path(path) != folder)
    stored = new_history(location=None)
    stored.location = str(folder)
    stored.open()
    fails_to_archive(stored, caplog)
    assert str(folder) in caplog.text
    monkeypatch.undo()
    stored.retention.round()
    assert stored.retention.failures == {}


def test_files_of_killed_process_are_deleted(new_history, tmp_path):
    folder = tmp_path / "house [1] *"
    stored = with_an_archived_day(new_history(location=str(folder)), TEXT, BYTES)
    ours = folder / f"{stored.named_files()[0].rpartition('-')[0]}-0077.parquet"
    unfinished, theirs = ours.with_suffix(".unfinished"), ours.with_name("devices-0badcafe-000001-0000.parquet")
    left = ours, unfinished, theirs
    for path in left:
        path.write_bytes(b"left")
    stored.open()
    stored.round()
    assert [path.exists() for path in left] == [False, False, True]
    assert found(stored.service) == expected(stored.recorded.rows)


def test_failed_deletion_of_file_keeps_device_recorded_as_erased(stored, monkeypatch):
    """An erasure that is repeated reports that nothing is left, so nothing may be left."""
    stored.erase("a", "b")
    history_eraser = HistoryEraser(stored.recorded.database, stored.archive())
    with monkeypatch.context() as patched:
        patched.setattr(Archive, "delete", Mock(side_effect=OSError(errno.EACCES, "refused")))
        for _ in range(2):
            with pytest.raises(OSError, match="refused"):
                history_eraser.erase()
            assert set(stored.recorded.database.query(segments.erasures)) == {"a", "b"}
    assert found(stored.service) == expected(stored.recorded.rows)
    assert stored.archived_devices() == {"a", "b"}
    history_eraser.erase()
    assert stored.files() == stored.named_files()
    assert stored.archived_devices() == set()
    assert stored.recorded.database.query(segments.erasures) == {}
    assert stored.recorded.database.query(segments.replaced_files) == []


def test_erasure_deletes_files_of_killed_process(stored, monkeypatch):
    """An erasure reports that nothing is left, also without a running server."""
    stored.erase("a")
    with monkeypatch.context() as killed:
        killed.setattr(segments, "put_files", lambda _, files: files and 1 / 0)
        with pytest.raises(ZeroDivisionError):
            HistoryEraser(stored.recorded.database, stored.archive()).erase()
    assert set(stored.files()) - set(stored.named_files())
    stored.erase("b")
    HistoryEraser(stored.recorded.database, stored.archive()).erase()
    assert "b" not in stored.archived_devices()
    assert stored.files() == stored.named_files()
    assert found(stored.service) == expected(stored.recorded.rows)


@pytest.mark.parametrize("holds", [True, False])
def test_erasure_keeps_trimmed_file_with_open_reader(stored, holds):
    name = stored.named_files()[0]
    stored.recorded.database.write(lambda session: segments.forget_files(session, [name]))
    stored.erase("a")
    HistoryEraser(stored.recorded.database, stored.archive(), lambda: {name} if holds else ()).erase()
    assert (name in stored.files()) == holds


def test_damaged_part_does_not_prevent_erasure_of_others(stored):
    names = stored.named_files()
    damaged = stored.folder / "archive" / names[0]
    content = damaged.read_bytes()
    stored.recorded.database.write(lambda session: history.erase(session, ["a", "b"]))
    damaged.write_bytes(content[:-1])
    stored.retention.round()
    stored.retention.round()
    assert list(stored.retention.failures) == ["delete erased rows from the history"]
    for name in set(stored.named_files()) - {names[0]}:
        assert set(pd.read_parquet(stored.folder / "archive" / name)["device_id"].dropna()) == set()
    assert set(stored.recorded.database.query(segments.erasures)) == {"a", "b"}


@pytest.mark.parametrize("change", ["trimmed", "erased"])
def test_file_changed_during_check_is_not_damaged(stored, monkeypatch, change):
    """Checking a database in use does not report changes by its server as damage."""
    other = HistoryService(stored.recorded.database, stored.clock, stored.archive())
    stored.open()
    changed: list[bool] = []
    read = consistency.batches_of

    def changed_before(*arguments: Any) -> Any:
        if not changed:
            changed.append(True)
            if change == "trimmed":
                stored.pass_time(60 * DAY)
            else:
                stored.erase("a")
            for _ in range(3):
                stored.retention.round()
        return read(*arguments)

    monkeypatch.setattr(consistency, "batches_of", changed_before)
    assert stored.violations() == []
    assert changed
    assert stored.violations() == []
    assert found(other) == found(stored.service)


def test_read_during_erasure_returns_other_devices(stored):
    """Both the file that existed at the start of the read and its replacement have been deleted since."""
    files = set(stored.named_files())
    with (
        closing(stored.service.open(HistorySelection())) as opened,
        closing(stored.service.open(HistorySelection(), stored.now)) as state,
    ):
        stored.erase("b")
        stored.round()
        between = set(stored.named_files())
        stored.erase("a")
        stored.round()
        assert between - files - set(stored.files())
        # A gap of the service has no device, and remains.
        assert list(rows_of(opened.batches())) == expected(stored.recorded.rows) != []
        assert list(state.batches())
    assert stored.archived_devices() == set()


def test_missing_replacement_file_is_named(stored, caplog):
    with closing(stored.service.open(HistorySelection())) as opened:
        stored.erase("a")
        stored.round()
        (stored.folder / "archive" / stored.named_files()[0]).unlink()
        with pytest.raises(StorageFailed):
            list(opened.batches())
    assert "of the history cannot be read" in caplog.text


def test_files_of_former_leader_are_deleted_within_an_hour(stored):
    left = stored.folder / "archive" / f"{stored.named_files()[0].rpartition('.')[0]}-0123456789ab.parquet"
    left.write_bytes(b"rows of a device that was erased")
    stored.round()
    stored.pass_time(3_600_000)
    stored.round()
    assert stored.files() == stored.named_files()


def test_unsupported_archive_url_is_named_without_password():
    with pytest.raises(ValueError, match="cannot open the archive nothing://user@bucket/mirror") as caught:
        Archive("nothing://user:very-secret@bucket/mirror")
    assert "very-secret" not in str(caught.value)


def test_archive_in_any_fsspec_location(new_history):
    location = f"memory://history-{id(new_history)}"
    stored = with_an_archived_day(new_history(location=location), TEXT, BYTES, WRITE, GAP)
    stored.erase("a")
    stored.round()
    (name,) = stored.named_files()
    with fsspec.open(f"{stored.location}/{name}") as file:
        assert pq.ParquetFile(file).metadata.num_rows == 2
    assert found(stored.service) == expected(stored.recorded.rows)
    assert stored.violations() == []
    stored.pass_time(60 * DAY)
    stored.round()
    stored.round()
    assert not fsspec.filesystem("memory").exists(f"{stored.location}/{name}")


class OfLeader:
    """The database for the process with a token. When another process leads, it stores nothing."""

    def __init__(self, database: Database, token: str) -> None:
        self.read = database.read
        self.process_id = database.process_id
        self._database = database
        self._token = token

    def submit_durable(self, work: Callable[[Session], Any]) -> Any:
        def while_it_leads(session: Session) -> Any:
            if session.setting(LEADER) != self._token:
                raise NotLeader("another process is the leader")
            return work(session)

        return self._database.submit_durable(while_it_leads)


@pytest.mark.sqlite
@pytest.mark.parametrize(("location", "then"), [("file", "leads again"), ("block", "leads no more")])
def test_former_leader_restores_nothing_erased(stored, monkeypatch, location, then):
    """The process slept between reading the remaining rows and writing them, while another one led and erased."""
    database, archive, token = stored.recorded.database, stored.archive(), own(stored, 1)
    if location == "block":
        # The gap has no device, so the block remains.
        stored.record(TEXT, BYTES, GAP)
        Compaction(database, 3).compact(stored.now, 0)
    slow = HistoryEraser(OfLeader(database, token) if then == "leads no more" else database, archive)  # type: ignore[arg-type] # what it needs of one
    quick = HistoryEraser(database, archive)
    lead(stored, token)
    stored.erase("b")
    encode, erased = eraser.encoded, []

    def encoded(rows: Any, *more: Any) -> bytes:
        content = encode(rows, *more)
        # Blocks are erased first. The last file is a special case, because no operation follows it.
        if not erased and (location == "block" or more):
            erased.append("a")
            lead(stored, "another process-2 options")
            stored.erase("a")
            assert quick.erase()
            if then == "leads again":
                lead(stored, own(stored, 3))
        return content

    monkeypatch.setattr(eraser, "encoded", encoded)
    with pytest.raises(NotLeader) if then == "leads no more" else nullcontext():
        slow.erase()
    assert erased
    assert stored.archived_devices() == set()
    assert stored.files() == stored.named_files()
    assert found(stored.service) == expected(stored.recorded.rows)
    with database.read() as session:
        assert segments.erasures(session) == {}
        blocks = session.rows("SELECT segment_id, block FROM history_blocks")
        assert not any(b"21.5" in segments.content(session, *at) for at in blocks)
    assert stored.violations() == []


@pytest.mark.sqlite
@pytest.mark.parametrize("location", ["", None], ids=["file", "block"])
def test_concurrent_erasures_finish_after_all_is_deleted(new_history, monkeypatch, location):
    """The other erasure knows of one device only, and replaces a file that this one has read to erase two."""
    # The gap has no device, so one row is left.
    stored = with_an_archived_day(new_history(location=location), TEXT, BYTES, GAP)
    history_eraser = HistoryEraser(stored.recorded.database, stored.archive())
    stored.erase("a", "b")
    of_a = {"a": stored.recorded.database.query(segments.erasures)["a"]}
    encode = eraser.encoded

    def encoded(rows: Any, *more: Any) -> bytes:
        monkeypatch.setattr(eraser, "encoded", encode)
        content = encode(rows, *more)
        with monkeypatch.context() as patched:
            patched.setattr(segments, "erasures", lambda _: of_a)
            assert history_eraser.erase()
        return content

    monkeypatch.setattr(eraser, "encoded", encoded)
    assert history_eraser.erase()
    assert eraser.encoded is encode
    assert stored.archived_devices() == set()
    assert found(stored.service) == expected(stored.recorded.rows)


def lead(stored: StoredHistory, token: str) -> None:
    stored.recorded.database.write(lambda session: session.put_setting(LEADER, token))


def own(stored: StoredHistory, number: int) -> str:
    """The token of this process, which will lead again."""
    return f"{stored.recorded.database.process_id}-{number} options"


@pytest.mark.sqlite
def test_former_leader_writes_no_file_of_new_leader(new_history, monkeypatch):
    stored = new_history()
    stored.record(TEXT, BYTES, WRITE)
    stored.pass_time(DAY)
    slow, quick = (Offload(stored.recorded.database, stored.archive()) for _ in range(2))
    names: list[str] = []
    write = Archive.writing

    def writing(self: Archive, name: str) -> Any:
        names.append(name)
        if len(names) == 1:
            lead(stored, own(stored, 2))
            assert quick.move(stored.now)
        return write(self, name)

    Compaction(stored.recorded.database, 5).compact(stored.now, 0)
    lead(stored, own(stored, 1))
    monkeypatch.setattr(Archive, "writing", writing)
    assert not slow.move(stored.now)
    named = stored.named_files()
    assert named
    assert len(names) == len(set(names)) == 2 * len(named)
    assert set(stored.files()) == set(names)
    assert found(stored.service) == expected(stored.recorded.rows)
    # The changes of the first process are ignored, and the leader removes them.
    quick.delete_unknown()
    assert stored.files() == sorted(named)
    assert found(stored.service) == expected(stored.recorded.rows)


@pytest.mark.sqlite
def test_former_leader_deletes_and_moves_nothing(stored, monkeypatch):
    moving = Offload(stored.recorded.database, stored.archive())
    folder = stored.folder / "archive" / "day=2026-01-05"
    left = folder / f"{Path(stored.named_files()[-1]).name.rpartition('-')[0]}-0077.parquet"
    left.write_bytes(b"about to be told to the database")
    lead(stored, own(stored, 1))
    listed = Archive.names

    def names(self: Archive, mirror: str) -> set[str]:
        found_names = listed(self, mirror)
        lead(stored, own(stored, 2))
        return found_names

    with monkeypatch.context() as patched:
        patched.setattr(Archive, "names", names)
        moving.delete_unknown()
    assert left.exists()
    lead(stored, "another process-3 options")
    stored.record(TEXT)
    stored.pass_time(DAY)
    Compaction(stored.recorded.database, 5).compact(stored.now, 0)
    assert not moving.move(stored.now)
    lead(stored, own(stored, 4))
    moving.delete_unknown()
    assert not left.exists()
    assert moving.move(stored.now)
