"""A history during the life of a server: gaps, disabling and enabling, erasing, checking, upgrading."""

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import click
import databases
import pytest
from click.testing import CliRunner, Result
from devices_in_memory import advance
from histories import tail
from operator_commands import assert_fails, done
from waits import wait_until

from mirror_server.clock import SystemClock, wall_time
from mirror_server.config import options_of
from mirror_server.devices.interface import Content, Observation, Registration
from mirror_server.extensions.history import maintenance
from mirror_server.extensions.history.history_queries import HistoryQueries
from mirror_server.extensions.history.maintenance import Retention
from mirror_server.extensions.history.recorder import HistoryRecorder
from mirror_server.extensions.history.selection import HistorySelection
from mirror_server.extensions.history.settings import HistorySettings
from mirror_server.extensions.history.store import history
from mirror_server.extensions.history.store.history import StoredHistoryRow
from mirror_server.hooks import open_database, read_settings, setting_classes
from mirror_server.server import Services
from mirror_server.store.backend import StorageFailed
from mirror_server.store.database import Database
from mirror_server.store.resources import AnnouncedResource

PATH = "/3303/0/5700"
DAY_SECONDS = 86_400
SIX_MONTHS_SECONDS = 185 * DAY_SECONDS


class Life:
    """Consecutive servers on one database."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._running: Services | None = None

    def start(self, *, keep: bool = True, archive: Path | None = None, without: tuple[str, ...] = ()) -> Services:
        """Stop the running server and start another one, with or without a history."""
        self.stop()
        history_options = {"keep_history_seconds": 7 * DAY_SECONDS} if keep else {}
        history_options |= {"history_archive": str(archive)} if archive else {}
        self._running = Services(
            read_settings(database_url=self._url, manual_clock=True, without=without, **history_options)
        )
        self._running.start()
        assert self._running.database.settle(60)
        return self._running

    def stop(self) -> None:
        if self._running is not None:
            self._running.close()
            self._running = None


@pytest.fixture
def life(url: str) -> Iterator[Life]:
    made = Life(url)
    yield made
    made.stop()


def register(services: Services, name: str = "sensor") -> str:
    registration = Registration(name, "Sensor", False, 400 * DAY_SECONDS, (AnnouncedResource(PATH),), "test")
    return services.devices.registered(registration).result(60)


def record(services: Services, device_id: str, *values: str) -> None:
    now = services.clock.now()
    observations = [Observation(device_id, PATH, Content(value.encode()), now) for value in values]
    services.devices.observed(observations).result(10)


def test_interval_without_extension_is_gap_and_check_passes(url, life):
    services = life.start()
    device_id = register(services)
    record(services, device_id, "1")
    record(services, register(services, "deleted"), "1")
    services = life.start(keep=False, without=("history",))
    record(services, device_id, "2")
    services.database.write(
        lambda session: session.run("DELETE FROM devices WHERE endpoint_name = :name", name="deleted")
    )
    life.stop()
    assert done(url, "check").splitlines()[-1] == "no problems found"
    life.start()
    life.stop()
    assert done(url, "check").splitlines()[-1] == "no problems found"


def rows_in(database: Database) -> list[StoredHistoryRow]:
    with database.read() as session:
        return tail(session)


def gaps(services: Services) -> list[tuple[int, int | None]]:
    return [(row.changed_at, row.until) for row in rows_in(services.database) if row.what == "gap"]


def test_time_between_servers_is_gap_unless_zero(url, life):
    services = life.start()
    record(services, register(services), "1")
    services = life.start()
    assert gaps(services) == []
    advance(services, 100)
    life.stop()
    ended_at = services.clock.now()
    with closing(open_database(url)) as database:
        database.write(lambda session: session.put_setting("manual_clock_now", str(ended_at + 3_600_000)))
    again = life.start()
    assert gaps(again) == [(ended_at, ended_at + 3_600_000)]
    (gap,) = [row for row in rows_in(again.database) if row.what == "gap"]
    assert (gap.device_id, gap.path, gap.received_at) == (None, None, ended_at + 3_600_000)
    assert len(gaps(life.start())) == 1


def test_interval_with_disabled_history_is_gap_without_rows(url, life):
    services = life.start()
    device_id = register(services)
    record(services, device_id, "1")
    with services.database.read() as session:
        first_state = history.state(session)
    ended_at = services.clock.now()
    without = life.start(keep=False)
    with without.database.read() as session:
        assert not history.state(session).is_enabled
    record(without, device_id, "2")
    advance(without, 60)
    again = life.start()
    record(again, device_id, "3")
    rows = [("registration", None), ("reported", b"1"), ("gap", None), ("reported", b"3")]
    assert [(row.what, row.value) for row in rows_in(again.database)] == rows
    assert gaps(again) == [(ended_at, ended_at + 60_000)]
    with again.database.read(with_revision=True) as session:
        state = history.state(session)
        assert state.is_enabled
        assert first_state.started_revision < state.started_revision < session.last_revision()
    life.stop()
    done(url, "check")


def test_heartbeat_is_recorded_at_end_of_server(url):
    options = read_settings(database_url=url, keep_history_seconds=60)
    first = Services(options)
    first.start()
    assert first.database.settle(60)
    started_at = first.clock.now()
    while first.clock.now() == started_at:
        pass
    first.close()
    with closing(open_database(url)) as database:
        assert started_at < heartbeat_at(database) <= wall_time()
    with closing(Services(options)) as second:
        second.start()
        assert second.database.settle(60)
        ((stopped_at, until),) = gaps(second)
        assert started_at < stopped_at < (until or 0) <= wall_time()


def test_idle_server_records_heartbeat_every_ten_seconds(url):
    steady = 0

    def clocks() -> tuple[int, int]:
        return 1_000_000 + steady, steady

    with closing(open_database(url)) as database, closing(SystemClock(clocks)) as clock:
        recorder = HistoryRecorder(database, clock)
        recorder.start()
        for _ in range(3):
            steady += 10_000
            wait_until(lambda now=1_000_000 + steady: heartbeat_at(database) >= now, "a heartbeat")
        recorder.stop()
        assert database.settle(60)
        assert heartbeat_at(database) == 1_030_000


def heartbeat_at(database: Database) -> int:
    return database.query(history.covered_until) or 0


def measured(services: Services, name: str) -> Mapping[Any, float]:
    """Return the values of a metric by their labels."""
    (value,) = (each.value for each in chain(*services.measurements()) if each.name == name)
    assert isinstance(value, Mapping)
    return value


def compact_all(life: Life, archive: Path | None = None) -> tuple[Services, str, str]:
    """Compact yesterday's rows of two devices into segments or an archive; return the server and the ids."""
    services = life.start(archive=archive)
    first, second = register(services, "first"), register(services, "second")
    record(services, first, "11", "12")
    record(services, second, "21")
    advance(services, 2 * DAY_SECONDS)
    location = "segments" if archive is None else "archive"
    wait_until(lambda: measured(services, "mirror_history_rows").get((location,)) == 5)
    assert measured(services, "mirror_history_bytes")[(location,)]
    record(services, first, "13")
    return services, first, second


def returned_by(services: Services) -> set[str | None]:
    """Return the devices with rows in the history."""
    assert services.part(HistoryQueries).history is not None
    with closing(services.part(HistoryQueries).history.open(HistorySelection())) as opened:
        return {name for batch in opened.batches() for name in batch.column("endpoint_name").to_pylist()}


def test_server_erases_archived_rows_of_device_and_command_counts_them(url, life, tmp_path, monkeypatch):
    # An erasure does not wait for the next round.
    monkeypatch.setattr(maintenance, "_ROUND_SECONDS", 3600)
    services, first, second = compact_all(life, tmp_path / "archive")
    where = ["--history-archive", tmp_path / "archive"]
    receipt = json.loads(done(url, "erase", first, "--yes", *where))
    assert (receipt["rows"]["history"], receipt["purged"]) == (4, True)
    assert {row.device_id for row in rows_in(services.database)} <= {second}
    assert returned_by(services) == {"second"}
    done(url, "check", *where)
    assert_fails(url, "erase", first, "--yes", *where, message="nothing is stored")


@pytest.mark.sqlite
def test_command_erases_archived_rows_without_server(url, life, tmp_path):
    _, first, _ = compact_all(life, tmp_path / "archive")
    life.start(keep=False)
    where = ["--history-archive", tmp_path / "archive"]
    receipt = json.loads(done(url, "erase", first, "--yes", *where))
    assert (receipt["rows"]["history"], receipt["purged"]) == (4, True)
    assert done(url, "check", *where).startswith("history: 2 rows, 0 of them not compacted yet, 0 in segments")
    assert returned_by(life.start(archive=tmp_path / "archive")) == {"second"}


@pytest.mark.sqlite
def test_command_rewrites_history_once_for_several_devices(url, life, tmp_path, caplog):
    _, *both = compact_all(life, tmp_path / "archive")
    life.stop()
    with caplog.at_level("INFO"):
        receipts = done(url, "erase", *both, "--yes", "--history-archive", tmp_path / "archive").splitlines()
    assert sum(json.loads(each)["rows"]["history"] for each in receipts) == 6
    assert [text for text in caplog.messages if "erased devices are deleted" in text] == [
        "5 rows of 2 erased devices are deleted from the history"
    ]


@pytest.mark.sqlite
def test_device_is_erased_although_part_of_history_is_unreadable(url, life, tmp_path):
    """Everything else is deleted, and also the unreadable part when it is available again."""
    _, first, _ = compact_all(life, tmp_path / "archive")
    life.stop()
    where = ["--history-archive", tmp_path / "archive"]
    path = next((tmp_path / "archive").rglob("*.parquet"))
    content = path.read_bytes()
    for damaged in (content[:-3], None, b"", content.replace(b"device_id", b"devise_id")):
        path.unlink() if damaged is None else path.write_bytes(damaged)
        error = "from a backup. Then run this command again"
        assert json.loads(assert_fails(url, "erase", first, "--yes", *where, message=error).stdout)["purged"] is False
        assert_fails(url, "check", *where, message="cannot be read")
    path.write_bytes(content)
    assert_fails(url, "erase", first, "--yes", *where, message="nothing is stored")
    assert returned_by(life.start(archive=tmp_path / "archive")) == {"second"}


def test_missing_archive_option_is_error_before_erasure_and_read(url, life, tmp_path):
    services, first, _ = compact_all(life, tmp_path / "archive")
    for command in (["erase", first, "--yes"], ["check"]):
        assert_fails(url, *command, message="pass its location with --history-archive")
    assert returned_by(services) == {"first", "second"}
    now = services.clock.now()
    history_service = life.start().part(HistoryQueries).history
    assert history_service is not None
    for open_history in (history_service.open, partial(history_service.open, instant=now)):
        with pytest.raises(StorageFailed, match="with --history-archive"):
            open_history(HistorySelection())
    # A query without archived rows still works.
    history_service.open(HistorySelection(begin=now + DAY_SECONDS * 1000)).close()


def test_erase_reports_when_no_server_deletes_rows(url, life, monkeypatch):
    services, first, _ = compact_all(life)
    # Only the test compacts and deletes.
    retention = services.part(Retention)
    retention.stop()
    monkeypatch.setattr("mirror_server.extensions.history.archived_history._SERVER_SECONDS", 0.1)
    erased = assert_fails(url, "erase", first, "--yes", message="command again until it reports that nothing is stored")
    assert json.loads(erased.stdout)["purged"] is False
    assert returned_by(services) == {"second"}
    retention.start()
    monkeypatch.undo()
    assert_fails(url, "erase", first, "--yes", message="nothing is stored")


def test_check_reads_segments(url, life):
    compact_all(life)
    life.stop()
    done(url, "check")
    first = "SELECT content FROM history_blocks ORDER BY segment_id, block LIMIT 1"
    databases.execute(url, f"UPDATE history_blocks SET content = ({first})")
    assert_fails(url, "check", message="does not match the database")


def test_device_without_contact_for_six_months_has_no_history(url, life):
    services = life.start()
    silent, other = register(services, "silent"), register(services, "other")
    record(services, silent, "1")
    advance(services, SIX_MONTHS_SECONDS / 2)
    record(services, other, "1")
    advance(services, SIX_MONTHS_SECONDS / 2)
    assert {row.device_id for row in rows_in(services.database)} <= {other, None}
    with services.database.read() as session:
        assert [row[0] for row in session.rows("SELECT device_id FROM history_erasures")] in ([silent], [])
    done(url, "check")


FILE = "VALUES ('f', '2026-11-22', 'd', 'd', 5, 9, 1, 1, 1, 1, NULL, 1, 1)"
SEGMENT = "VALUES (77, 0, 'rows', NULL, NULL, 'd', 'd', 0, 0, 1, 1, 1, 1, NULL, 1)"


@pytest.mark.parametrize(
    ("damage", "error"),
    [
        ("UPDATE history SET device_number = 77", "refers to an unknown device"),
        ("UPDATE history SET kind = 77", "has an unknown kind"),
        ("UPDATE revisions SET last_revision = 1", "larger revision than the last change"),
        (
            "UPDATE history_state SET compacted_revision = 9999999999999999",
            "compacted revision of the history is larger",
        ),
        ("DELETE FROM history", "a reported value is not in the history"),
        ("UPDATE resources SET reported_revision = reported_revision - 1", "in the history differ"),
        (f"INSERT INTO history_files {FILE}", "has rows that are not compacted"),
        (f"INSERT INTO history_segments {SEGMENT}", "has no content"),
    ],
)
def test_check_finds_inconsistent_history(url, life, damage, error):
    services = life.start()
    record(services, register(services), "1", "2")
    life.stop()
    first, *others = done(url, "check").splitlines()
    assert first.startswith("history: 3 rows, 3 of them not compacted yet, 0 in segments (0.0 MB)")
    assert others == ["no problems found"]
    databases.execute(url, damage)
    assert_fails(url, "check", message=error)


def read_options(*arguments: str, **variables: str) -> Result:
    @click.command()
    @options_of("run", *setting_classes())
    def show(**settings: Any) -> None:
        click.echo(repr(read_settings(**settings).of(HistorySettings).keep_history_seconds))

    return CliRunner().invoke(show, arguments, env=variables)


@pytest.mark.parametrize(("text", "seconds"), [("30d", 2_592_000), ("12h", 43_200), ("90m", 5400), ("60s", 60)])
def test_retention_has_unit(text, seconds):
    assert read_options("--keep-history", text).output == f"{seconds}\n"
    assert read_options(MIRROR_KEEP_HISTORY=text).output == f"{seconds}\n"
    assert read_options().output == "None\n", "enabled by default"


def test_invalid_retention_is_rejected_with_example():
    for text, expected_message in (
        ("30", "is not a duration; write it like 24h, 30m, 7d or 0"),
        ("-1d", "is not a duration"),
        ("", "is not a duration"),
        ("0", "too short"),
        ("59s", "too short; use at least one minute"),
    ):
        result = read_options("--keep-history", text)
        assert result.exit_code == 2
        assert expected_message in " ".join(result.output.split())


def test_archive_without_history_is_rejected(url, tmp_path):
    with pytest.raises(match="add --keep-history 30d"):
        Services(read_settings(database_url=url, history_archive=str(tmp_path)))


def test_missing_packages_are_error_with_install_command(url, monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec", None)
    expected_message = (
        r"--keep-history belongs to .* history, .*fsspec is missing; pip install 'device-state-mirror\[history\]'"
    )
    with pytest.raises(match=expected_message):
        Services(read_settings(database_url=url, keep_history_seconds=60))


@pytest.mark.sqlite
def test_history_is_erased_without_optional_packages(url, life, monkeypatch):
    services = life.start()
    device_id = register(services)
    record(services, device_id, "1")
    life.stop()
    monkeypatch.setitem(sys.modules, "fsspec", None)
    assert json.loads(done(url, "erase", "--yes", device_id))["rows"]["history"] == 2
