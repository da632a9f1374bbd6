"""The archive: what other programs read of it, what is deleted while it is read, and what happens where it fails."""

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
from histories import DAY, NOW, PATHS, Kept, expected, found, rows_of

from mirror_server.extensions.history import checking, erasing
from mirror_server.extensions.history.archive import Archive
from mirror_server.extensions.history.compaction import Compaction
from mirror_server.extensions.history.erasing import Erasing
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
def kept(new_history: Callable[..., Kept]) -> Kept:
    """A history with an archived day."""
    earlier = (TEXT._replace(changed_at=NOW - hours * 3_600_000) for hours in range(0, 40, 2))
    made = with_an_archived_day(new_history(), TEXT, BYTES, WRITE, GAP, *earlier)
    assert made.named_files()
    return made


def with_an_archived_day(kept: Kept, *rows: StoredHistoryRow) -> Kept:
    kept.tell(*rows)
    kept.pass_time(DAY)
    kept.round()
    return kept


def test_other_programs_read_it_as_it_is(kept):
    folder = kept.folder / "archive"
    count = len(kept.told.rows)
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
    told, last_at, texts = duckdb.sql(query).fetchall()[0]
    assert (told, round(last_at.timestamp() * 1000), texts) == (count, NOW, count - 2)
    lazy = pl.scan_parquet(folder).filter(pl.col("device_id") == "a").select("revision").collect()
    assert sorted(lazy["revision"]) == sorted(row.revision for row in kept.told.rows if row.device_id == "a")


def test_who_reads_ends_with_what_was_there(kept):
    """Trimmed files are deleted when nobody reads them any more."""
    before, files = expected(kept.told.rows), kept.named_files()
    with closing(kept.service.open(HistorySelection())) as opened:
        batches = opened.batches()
        first = list(rows_of([next(batches)]))
        kept.pass_time(60 * DAY)
        kept.tell(TEXT._replace(changed_at=kept.now))
        kept.round()
        kept.round()
        assert kept.named_files() == []
        assert kept.files() == files
        assert first + list(rows_of(batches)) == before
    kept.round()
    assert kept.files() == []
    assert found(kept.service) == expected(kept.told.rows)


def test_a_file_that_goes_meanwhile_is_passed_over(kept):
    """Another process has trimmed it."""
    count = len(kept.told.rows)
    with closing(kept.service.open(HistorySelection())) as opened:
        batches = opened.batches()
        kept.pass_time(60 * DAY)
        kept.open()
        for _ in range(3):
            kept.round()
        assert kept.files() == []
        assert len(list(rows_of(batches))) < count


def test_a_file_that_is_missing_or_damaged_is_named(kept, caplog):
    name = kept.named_files()[0]
    path = kept.folder / "archive" / name
    content = path.read_bytes()
    path.unlink()
    with pytest.raises(StorageFailed):
        found(kept.service)
    assert name in caplog.text
    (missing,) = map(str, kept.violations())
    assert missing.startswith(f"a part of the history cannot be read: 1\n  {name}: [Errno 2] Failed to open local file")
    path.write_bytes(content[:100] + bytes(20) + content[120:])
    assert [each.kind for each in kept.violations()] == ["a part of the history cannot be read"]
    path.write_bytes(content)
    assert kept.violations() == []


@pytest.mark.parametrize("is_there", [True, False])
def test_an_archive_that_fails_leaves_the_rows_in_the_database(kept, is_there, caplog, monkeypatch):
    folder, aside = kept.folder / "archive", kept.folder / "aside"
    kept.tell(TEXT, BYTES)
    kept.pass_time(DAY)
    if is_there:
        monkeypatch.setattr(Path, "open", Mock(side_effect=OSError(errno.ENOSPC, "refused")))
    else:
        folder.rename(aside)
    fails_to_archive(kept, caplog)
    monkeypatch.undo()
    if not is_there:
        aside.rename(folder)
    assert found(kept.service) == expected(kept.told.rows)
    kept.round()
    assert "could archive the history again" in caplog.text
    assert found(kept.service) == expected(kept.told.rows)


def fails_to_archive(kept: Kept, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        kept.retention.round()
    assert list(kept.retention.failures) == ["archive the history"]
    assert caplog.text.count("cannot archive the history") == 1


def test_an_archive_that_cannot_be_written_to_is_told_before_a_day_is_over(new_history, tmp_path, caplog, monkeypatch):
    folder = tmp_path / "named"
    monkeypatch.setattr("os.access", lambda path, mode: Path(path) != folder)
    kept = new_history(location=None)
    kept.location = str(folder)
    kept.open()
    fails_to_archive(kept, caplog)
    assert str(folder) in caplog.text
    monkeypatch.undo()
    kept.retention.round()
    assert kept.retention.failures == {}


def test_what_a_killed_process_left_is_deleted(new_history, tmp_path):
    folder = tmp_path / "house [1] *"
    kept = with_an_archived_day(new_history(location=str(folder)), TEXT, BYTES)
    ours = folder / f"{kept.named_files()[0].rpartition('-')[0]}-0077.parquet"
    unfinished, theirs = ours.with_suffix(".unfinished"), ours.with_name("devices-0badcafe-000001-0000.parquet")
    left = ours, unfinished, theirs
    for path in left:
        path.write_bytes(b"left")
    kept.open()
    kept.round()
    assert [path.exists() for path in left] == [False, False, True]
    assert found(kept.service) == expected(kept.told.rows)


def test_an_erased_device_is_in_no_file_that_cannot_be_deleted(kept, monkeypatch):
    """Who erases again is told that nothing is left, so that nothing may be."""
    kept.erase("a", "b")
    eraser = Erasing(kept.told.database, kept.archive())
    with monkeypatch.context() as patched:
        patched.setattr(Archive, "delete", Mock(side_effect=OSError(errno.EACCES, "refused")))
        for _ in range(2):
            with pytest.raises(OSError, match="refused"):
                eraser.erase()
            assert set(kept.told.database.query(segments.erasures)) == {"a", "b"}
    assert found(kept.service) == expected(kept.told.rows)
    assert kept.archived_devices() == {"a", "b"}
    eraser.erase()
    assert kept.files() == kept.named_files()
    assert kept.archived_devices() == set()
    assert kept.told.database.query(segments.erasures) == {}
    assert kept.told.database.query(segments.replaced_files) == []


def test_what_is_erased_is_in_nothing_that_a_killed_process_left(kept, monkeypatch):
    """Who erases is told that nothing is left, also without a server that tidies up."""
    kept.erase("a")
    with monkeypatch.context() as killed:
        killed.setattr(segments, "put_files", lambda _, files: files and 1 / 0)
        with pytest.raises(ZeroDivisionError):
            Erasing(kept.told.database, kept.archive()).erase()
    assert set(kept.files()) - set(kept.named_files())
    kept.erase("b")
    Erasing(kept.told.database, kept.archive()).erase()
    assert "b" not in kept.archived_devices()
    assert kept.files() == kept.named_files()
    assert found(kept.service) == expected(kept.told.rows)


@pytest.mark.parametrize("holds", [True, False])
def test_a_trimmed_file_that_somebody_reads_is_left_to_be_read_by_who_erases(kept, holds):
    name = kept.named_files()[0]
    kept.told.database.write(lambda session: segments.forget_files(session, [name]))
    kept.erase("a")
    Erasing(kept.told.database, kept.archive(), lambda: {name} if holds else ()).erase()
    assert (name in kept.files()) == holds


def test_what_is_damaged_holds_up_the_erasing_of_nothing_else(kept):
    names = kept.named_files()
    damaged = kept.folder / "archive" / names[0]
    content = damaged.read_bytes()
    kept.told.database.write(lambda session: history.erase(session, ["a", "b"]))
    damaged.write_bytes(content[:-1])
    kept.retention.round()
    kept.retention.round()
    assert list(kept.retention.failures) == ["delete what was erased from the history"]
    for name in set(kept.named_files()) - {names[0]}:
        assert set(pd.read_parquet(kept.folder / "archive" / name)["device_id"].dropna()) == set()
    assert set(kept.told.database.query(segments.erasures)) == {"a", "b"}


@pytest.mark.parametrize("change", ["trimmed", "erased"])
def test_a_file_that_changes_while_it_is_checked_is_not_damaged(kept, monkeypatch, change):
    """Checking a database that is served says nothing of what the server does meanwhile."""
    other = HistoryService(kept.told.database, kept.clock, kept.archive())
    kept.open()
    changed: list[bool] = []
    read = checking.batches_of

    def changed_before(*arguments: Any) -> Any:
        if not changed:
            changed.append(True)
            if change == "trimmed":
                kept.pass_time(60 * DAY)
            else:
                kept.erase("a")
            for _ in range(3):
                kept.retention.round()
        return read(*arguments)

    monkeypatch.setattr(checking, "batches_of", changed_before)
    assert kept.violations() == []
    assert changed
    assert kept.violations() == []
    assert found(other) == found(kept.service)


def test_who_reads_while_devices_are_erased_is_told_of_the_others(kept):
    """A file that was there when the reading began has gone since, and the one that took its place as well."""
    files = set(kept.named_files())
    with (
        closing(kept.service.open(HistorySelection())) as opened,
        closing(kept.service.open(HistorySelection(), kept.now)) as state,
    ):
        kept.erase("b")
        kept.round()
        between = set(kept.named_files())
        kept.erase("a")
        kept.round()
        assert between - files - set(kept.files())
        # A gap of the service is no device's, and left.
        assert list(rows_of(opened.batches())) == expected(kept.told.rows) != []
        assert list(state.batches())
    assert kept.archived_devices() == set()


def test_a_file_that_is_missing_where_another_took_its_place_is_named(kept, caplog):
    with closing(kept.service.open(HistorySelection())) as opened:
        kept.erase("a")
        kept.round()
        (kept.folder / "archive" / kept.named_files()[0]).unlink()
        with pytest.raises(StorageFailed):
            list(opened.batches())
    assert "of the history cannot be read" in caplog.text


def test_what_somebody_wrote_who_led_before_is_deleted_within_an_hour(kept):
    left = kept.folder / "archive" / f"{kept.named_files()[0].rpartition('.')[0]}-0123456789ab.parquet"
    left.write_bytes(b"rows of a device that was erased")
    kept.round()
    kept.pass_time(3_600_000)
    kept.round()
    assert kept.files() == kept.named_files()


def test_a_place_that_nothing_opens_is_named_without_its_password():
    with pytest.raises(ValueError, match="cannot open the archive nothing://user@bucket/mirror") as caught:
        Archive("nothing://user:very-secret@bucket/mirror")
    assert "very-secret" not in str(caught.value)


def test_any_place_that_fsspec_opens(new_history):
    location = f"memory://history-{id(new_history)}"
    kept = with_an_archived_day(new_history(location=location), TEXT, BYTES, WRITE, GAP)
    kept.erase("a")
    kept.round()
    (name,) = kept.named_files()
    with fsspec.open(f"{kept.location}/{name}") as file:
        assert pq.ParquetFile(file).metadata.num_rows == 2
    assert found(kept.service) == expected(kept.told.rows)
    assert kept.violations() == []
    kept.pass_time(60 * DAY)
    kept.round()
    kept.round()
    assert not fsspec.filesystem("memory").exists(f"{kept.location}/{name}")


class OfLeader:
    """The database as the process with a token has it: when another one leads, nothing of it is stored."""

    def __init__(self, database: Database, token: str) -> None:
        self.read = database.read
        self.process_id = database.process_id
        self._database = database
        self._token = token

    def submit_durable(self, work: Callable[[Session], Any]) -> Any:
        def while_it_leads(session: Session) -> Any:
            if session.setting(LEADER) != self._token:
                raise NotLeader("another process leads")
            return work(session)

        return self._database.submit_durable(while_it_leads)


@pytest.mark.sqlite
@pytest.mark.parametrize(("place", "then"), [("file", "leads again"), ("block", "leads no more")])
def test_a_leader_of_before_brings_back_nothing_that_was_erased(kept, monkeypatch, place, then):
    """It slept between reading what is left and writing it, while another one led and erased."""
    database, archive, token = kept.told.database, kept.archive(), own(kept, 1)
    if place == "block":
        # The gap is no device's, so that the block stays.
        kept.tell(TEXT, BYTES, GAP)
        Compaction(database, 3).seal(kept.now, 0)
    slow = Erasing(OfLeader(database, token) if then == "leads no more" else database, archive)  # type: ignore[arg-type] # what it needs of one
    quick = Erasing(database, archive)
    lead(kept, token)
    kept.erase("b")
    encode, erased = erasing.encoded, []

    def encoded(rows: Any, *more: Any) -> bytes:
        content = encode(rows, *more)
        # Blocks come first, and of one of them the most is known: that of the last file has nobody behind it.
        if not erased and (place == "block" or more):
            erased.append("a")
            lead(kept, "another process-2 options")
            kept.erase("a")
            assert quick.erase()
            if then == "leads again":
                lead(kept, own(kept, 3))
        return content

    monkeypatch.setattr(erasing, "encoded", encoded)
    with pytest.raises(NotLeader) if then == "leads no more" else nullcontext():
        slow.erase()
    assert erased
    assert kept.archived_devices() == set()
    assert kept.files() == kept.named_files()
    assert found(kept.service) == expected(kept.told.rows)
    with database.read() as session:
        assert segments.erasures(session) == {}
        blocks = session.rows("SELECT segment_id, block FROM history_blocks")
        assert not any(b"21.5" in segments.content(session, *at) for at in blocks)
    assert kept.violations() == []


@pytest.mark.sqlite
@pytest.mark.parametrize("location", ["", None], ids=["file", "block"])
def test_of_two_who_erase_none_says_so_before_all_is_gone(new_history, monkeypatch, location):
    """The other one knows of one device alone, and replaces what this one has read to erase two."""
    # The gap is no device's, so that something is left.
    kept = with_an_archived_day(new_history(location=location), TEXT, BYTES, GAP)
    eraser = Erasing(kept.told.database, kept.archive())
    kept.erase("a", "b")
    of_a = {"a": kept.told.database.query(segments.erasures)["a"]}
    encode = erasing.encoded

    def encoded(rows: Any, *more: Any) -> bytes:
        monkeypatch.setattr(erasing, "encoded", encode)
        content = encode(rows, *more)
        with monkeypatch.context() as patched:
            patched.setattr(segments, "erasures", lambda _: of_a)
            assert eraser.erase()
        return content

    monkeypatch.setattr(erasing, "encoded", encoded)
    assert eraser.erase()
    assert erasing.encoded is encode
    assert kept.archived_devices() == set()
    assert found(kept.service) == expected(kept.told.rows)


def lead(kept: Kept, token: str) -> None:
    kept.told.database.write(lambda session: session.put_setting(LEADER, token))


def own(kept: Kept, number: int) -> str:
    """A token of the process of this test, which leads for another time."""
    return f"{kept.told.database.process_id}-{number} options"


@pytest.mark.sqlite
def test_a_leader_of_before_writes_no_file_of_the_one_that_took_over(new_history, monkeypatch):
    kept = new_history()
    kept.tell(TEXT, BYTES, WRITE)
    kept.pass_time(DAY)
    slow, quick = (Offload(kept.told.database, kept.archive()) for _ in range(2))
    names: list[str] = []
    write = Archive.writing

    def writing(self: Archive, name: str) -> Any:
        names.append(name)
        if len(names) == 1:
            lead(kept, own(kept, 2))
            assert quick.move(kept.now)
        return write(self, name)

    Compaction(kept.told.database, 5).seal(kept.now, 0)
    lead(kept, own(kept, 1))
    monkeypatch.setattr(Archive, "writing", writing)
    assert not slow.move(kept.now)
    named = kept.named_files()
    assert named
    assert len(names) == len(set(names)) == 2 * len(named)
    assert set(kept.files()) == set(names)
    assert found(kept.service) == expected(kept.told.rows)
    # What the first one wrote counts for nothing, and the leader removes it.
    quick.delete_unknown()
    assert kept.files() == sorted(named)
    assert found(kept.service) == expected(kept.told.rows)


@pytest.mark.sqlite
def test_who_leads_no_more_deletes_and_moves_nothing(kept, monkeypatch):
    moving = Offload(kept.told.database, kept.archive())
    folder = kept.folder / "archive" / "day=2026-01-05"
    left = folder / f"{Path(kept.named_files()[-1]).name.rpartition('-')[0]}-0077.parquet"
    left.write_bytes(b"about to be told to the database")
    lead(kept, own(kept, 1))
    listed = Archive.names

    def names(self: Archive, mirror: str) -> set[str]:
        found_names = listed(self, mirror)
        lead(kept, own(kept, 2))
        return found_names

    with monkeypatch.context() as patched:
        patched.setattr(Archive, "names", names)
        moving.delete_unknown()
    assert left.exists()
    lead(kept, "another process-3 options")
    kept.tell(TEXT)
    kept.pass_time(DAY)
    Compaction(kept.told.database, 5).seal(kept.now, 0)
    assert not moving.move(kept.now)
    lead(kept, own(kept, 4))
    moving.delete_unknown()
    assert not left.exists()
    assert moving.move(kept.now)
