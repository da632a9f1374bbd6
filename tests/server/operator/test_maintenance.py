"""What an operator does to a database: backup, restore, check, erase. Source: specification 1.5, 2.1."""

import json
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from uuid import uuid4

import databases
import pytest
from devices_in_memory import DevicesInMemory
from filelock import FileLock
from operator_commands import done, erased_rows, is_nothing_left, refused, refused_in_one_line, run, stored_bytes

from mirror_server.core.commands import CommandRequest
from mirror_server.core.errors import ApiError
from mirror_server.devices.link import Registration
from mirror_server.hooks import open_database, read_settings
from mirror_server.server import Services
from mirror_server.service import keys
from mirror_server.service.commands import CommandSubmission
from mirror_server.service.keys import Scope
from mirror_server.store import logs, schema
from mirror_server.store.backend import LOCATIONS, DatabaseError, shown
from mirror_server.store.database import Database
from mirror_server.views import serialize

SECRET = b"the-user-sleeps-at-21-degrees"
PATH = "/3303/0/5750"


@pytest.fixture
def restored(tmp_path: Path) -> str:
    """A database that is not there before a backup is restored to it."""
    return f"sqlite:///{tmp_path}/restored.db"


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    """The backup of a database without anything in it."""
    open_database(f"sqlite:///{tmp_path}/copy.db").close()
    return tmp_path / "copy.db"


def is_well(url: str) -> bool:
    return done(url, "check") == "all is well\n"


def last_revision(database: Database) -> int:
    with database.read(with_revision=True) as session:
        return session.last_revision()


@contextmanager
def served(url: str) -> Iterator[tuple[Services, DevicesInMemory]]:
    """A server that was not there before or is there again, to which devices can come."""
    with closing(Services(read_settings(database_url=url, manual_clock=True))) as running:
        devices = DevicesInMemory()
        devices.join(running)
        running.start()
        yield running, devices


@pytest.fixture
def running(url: str) -> Iterator[tuple[Services, DevicesInMemory]]:
    with served(url) as running:
        yield running


@pytest.fixture
def services(running: tuple[Services, DevicesInMemory]) -> Services:
    return running[0]


@pytest.fixture
def devices(running: tuple[Services, DevicesInMemory]) -> DevicesInMemory:
    return running[1]


def new_application(services: Services) -> str:
    """The id of an application whose log is kept."""
    key = keys.create(services.database, "test", tuple(Scope), services.clock.now())
    identity = key.split("_")[1]
    services.log.ensure_log(identity)
    return identity


@pytest.fixture
def app_id(services: Services) -> str:
    return new_application(services)


def put_webhook(services: Services, app_id: str) -> None:
    told = '{"url":"http://127.0.0.1:1/"}'
    services.database.write(lambda session: logs.put_webhook(session, app_id, told, services.clock.now()))


def write(services: Services, app_id: str, device_id: str, value: bytes) -> None:
    """A write that is stored, answered and logged."""
    request = CommandRequest("PUT", PATH, payload=value, content_type="text/plain")
    services.commands.submit(CommandSubmission(app_id, device_id, request, uuid4().hex)).result(60)
    assert services.database.settle(60)


@pytest.fixture
def device_ids(services: Services, devices: DevicesInMemory, app_id: str) -> list[str]:
    """Two devices with a written value each, the first one's a secret."""
    resource = {"path": PATH, "writable": True, "observable": True}
    device_ids = [devices.add(name, resource) for name in ("light-1", "light-2")]
    for device_id in device_ids:
        devices.update(device_id)
        assert services.database.settle(60)
        services.subscriptions.subscribe(app_id, device_id, PATH).result(60)
    assert services.database.settle(60)
    write(services, app_id, device_ids[0], SECRET)
    write(services, app_id, device_ids[1], b"plain")
    return device_ids


@pytest.mark.sqlite
def test_a_backup_of_a_running_server_is_restored_with_all_it_held(
    services, app_id, device_ids, tmp_path, url, restored
):
    before = services.devices.device_object(app_id, device_ids[0], serialize.device_content)
    done(url, "backup", tmp_path / "copy.db")
    done(restored, "restore", tmp_path / "copy.db")
    assert is_well(restored)
    with closing(Services(read_settings(database_url=restored, manual_clock=True))) as again:
        assert again.devices.device_object(app_id, device_ids[0], serialize.device_content) == before


@pytest.mark.sqlite
def test_neither_backup_nor_restore_overwrites_a_file(services, backup, tmp_path, url):
    taken = tmp_path / "taken.db"
    taken.write_text("mine")
    refused(url, "backup", taken, told="exists already")
    told = "already exists and is not overwritten"
    assert "-wal" in refused(url, "restore", backup, told=told).output
    assert taken.read_text() == "mine"


@pytest.mark.sqlite
def test_erasing_leaves_nothing_of_the_device_and_all_of_the_others(services, device_ids, tmp_path, url):
    erased, kept = device_ids
    assert SECRET in stored_bytes(tmp_path)
    rows = erased_rows(url, erased)
    assert (rows["devices"], rows["commands"]) == (1, 1)
    assert rows["notifications"] >= 2
    with pytest.raises(ApiError):
        services.devices.device(erased)
    assert services.devices.device(kept).device_id == kept
    assert is_nothing_left(tmp_path, SECRET.decode(), erased)
    assert is_well(url)


def test_readers_are_told_of_the_gap_that_erasing_made(services, app_id, device_ids, url):
    write(services, app_id, device_ids[0], b"again")
    every = services.log.read(app_id, 0).cursor
    done(url, "erase", device_ids[1], "--yes")
    seen, missed, after = [], [], 0
    while after < every:
        page = services.log.read(app_id, after)
        missed += range(page.gap[0], page.gap[1] + 1) if page.gap else []
        seen += [entry.seq for entry in page.entries]
        after = page.cursor
    assert missed
    assert sorted(seen + missed) == list(range(1, every + 1))


def test_erasing_asks_first_and_says_when_there_is_nothing(services, device_ids, url):
    assert run(url, "erase", device_ids[0], input="n\n").exit_code == 1
    assert services.devices.device(device_ids[0])
    refused(url, "erase", "nobody", "--yes", told="nothing is stored")


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        ("UPDATE resources SET desired_status = 0", "a desired value is pending"),
        ("UPDATE commands SET finished_at = NULL", "a write command waits"),
        ("UPDATE logs SET last_seq = 1", "beyond its last number"),
        ("UPDATE logs SET stored_bytes = stored_bytes + 1", "not the sum of its entries"),
        ("UPDATE logs SET position = 1000", "a position is beyond"),
        ("DELETE FROM subscriptions", "nobody is subscribed to it"),
        ("DELETE FROM logs", "belongs to no log"),
        pytest.param("DELETE FROM devices", "a device that is not there", marks=pytest.mark.sqlite),
    ],
)
def test_check_finds_what_is_wrong(services, device_ids, url, damage, told):
    done(url, "check")
    databases.execute(url, damage)
    refused(url, "check", told=told)


def test_check_counts_what_is_wrong_and_shows_the_first_twenty(services, app_id, url):
    row = "INSERT INTO notifications (app_id, seq, logged_at, device_id, kind, body) VALUES ('none', ?, 0, 'd', 'n', ?)"
    rows = [(seq, b"") for seq in range(1, 1235)]
    services.database.write(lambda session: session.run_many(row, rows))
    found = refused(url, "check", told="an entry belongs to no log: 1,234\n")
    _, *examples, more = found.stdout.splitlines()
    assert len(examples) == len(set(examples)) == 20
    assert all(example.startswith("  none ") for example in examples)
    assert more == "  and 1,214 more"
    assert "found 1,234 problems; restore a backup" in found.stderr


def test_a_database_or_backup_of_a_newer_version_is_refused_with_a_cure(tmp_path, url, backup, restored):
    branch = schema.CORE
    for one in (url, f"sqlite:///{backup}"):
        databases.execute(one, f"UPDATE mirror_schema SET version = '9999' WHERE branch = '{branch.name}'")
    newer = (
        f"was written by a newer version (its schema is 9999, and this version knows {branch.newest} at most);"
        " install the newer version"
    )
    told = f"the database {shown(url).removeprefix('sqlite:///')} {newer}"
    for command in (["check"], ["keys", "list"], ["backup", tmp_path / "another.db"]):
        refused_in_one_line(url, *command, told=told)
    refused(restored, "restore", backup, told=newer)
    assert not (tmp_path / "restored.db").exists()


NO_DATABASE = "this is not a database, it is a text that is long enough to be looked at"


def test_a_database_that_cannot_be_opened_is_one_clear_error(tmp_path):
    (tmp_path / "no.db").write_text(NO_DATABASE)
    for name in ("missing/mirror.db", "no.db"):
        with pytest.raises(DatabaseError, match="cannot open"):
            open_database(f"sqlite:///{tmp_path}/{name}")


def test_a_url_that_names_no_database_is_one_clear_error(monkeypatch):
    for scheme in ("postgresql", "postgres"):
        monkeypatch.delitem(LOCATIONS, scheme, raising=False)
    for url, told in (
        ("mysql://x", "write it as sqlite:///FILE"),
        ("sqlite:///:memory:", "write it as sqlite:///FILE"),
        ("postgresql://me:secret@host/db", "postgresql://me@host/db: the extension postgresql is missing"),
        ("postgres://me:secret@host/db", "write the database as sqlite:///FILE"),
    ):
        for arguments in (["keys", "list"], ["check"]):
            assert "secret" not in refused_in_one_line(url, *arguments, told=told)


def test_a_shown_url_has_no_password():
    for url in (
        "postgresql://me:secret@host/db",
        "postgresql://me:se@cret@host:5432/db?sslmode=require",
        "postgres://:secret@/db?host=/run",
        "postgresql:///db?user=me&password=secret&host=h",
    ):
        assert "cret" not in shown(url)
    for url in ("sqlite:///mirror.db", "postgresql://me@host/db", "postgresql:///db?host=/run"):
        assert shown(url) == url


def test_what_is_read_still_is_not_purged_and_told_until_it_is(services, device_ids, tmp_path, url, monkeypatch):
    monkeypatch.setattr(sys.modules[type(services.database.backend).__module__], "BUSY_SECONDS", 0.1)
    erase = (url, "erase", device_ids[0], "--yes")
    with services.database.read() as session:
        session.scalar("SELECT count(*) FROM devices")
        assert json.loads(refused(*erase, told="run this again").stdout)["purged"] is False
        assert databases.ON_POSTGRESQL or SECRET in stored_bytes(tmp_path)
    refused(*erase, told="nothing is stored")
    assert is_nothing_left(tmp_path, SECRET.decode())


def test_a_mistyped_database_is_told_and_not_made(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for arguments in (
        ["backup", "copy.db"],
        ["check"],
        ["erase", "d", "--yes"],
        ["keys", "list"],
    ):
        refused("sqlite:///mirorr.db", *arguments, told="there is no database mirorr.db")
        assert list(tmp_path.iterdir()) == []


@pytest.mark.sqlite
def test_a_backup_of_an_older_version_is_of_that_version_and_is_upgraded_where_it_is_restored(
    tmp_path, url, restored, next_version
):
    done(url, "backup", tmp_path / "copy.db")
    done(restored, "restore", tmp_path / "copy.db")
    assert is_well(restored)
    upgraded = ["names" in databases.tables(one) for one in (url, f"sqlite:///{tmp_path}/copy.db", restored)]
    assert upgraded == [False, False, True]


def test_what_was_counted_after_a_backup_is_not_counted_again_when_it_is_restored(tmp_path, backup, restored):
    """Who asks what has changed since a number that is lost would not hear of the changes counted up to it anew."""
    databases.execute(
        f"sqlite:///{backup}",
        "UPDATE revisions SET last_revision = 11",
        "INSERT INTO devices (device_id, endpoint_name, endpoint_type, registered, queue_mode, lifetime_seconds,"
        " created_at, updated_at, last_contact_at, registration_expires_at, backend, revision)"
        " VALUES ('d', 'd', 'D', 1, 0, 60, 1, 1, 1, 9, 'test', 7)",
        "INSERT INTO logs (app_id, last_seq) VALUES ('a', 5)",
    )
    done(restored, "restore", backup)
    numbers = "SELECT last_revision, revision, last_seq FROM revisions, devices, logs"
    ((last, of_device, last_seq),) = databases.query(restored, numbers)
    assert last == of_device > 1_000_000_000
    assert last_seq > 1_000_000
    again = f"sqlite:///{tmp_path}/again.db"
    done(again, "restore", tmp_path / "restored.db")
    ((later, of_device, _),) = databases.query(again, numbers)
    assert last < later == of_device < 2**53
    assert is_well(again)


def happen(services: Services, times: int) -> None:
    """Something that all applications are told."""
    for _ in range(times):
        services.devices.registered(Registration("light-3", "Light", False, 3600, (), "test")).result(60)


def test_a_database_that_was_put_back_by_other_means_can_be_told_so(url):
    with served(url) as (services, _):
        app_id, idle = new_application(services), new_application(services)
        happen(services, 3)
        end = services.log.last_seq(idle)
        services.database.write(lambda session: logs.set_position(session, idle, end))
        services.log.note_read(idle, end)
        read_up_to = services.log.last_seq(app_id) + 2
        revision = last_revision(services.database)
        put_webhook(services, app_id)
        assert services.webhooks.backlog(app_id) == 3
        refused(url, "mark-restored", told="stop it first")
    done(url, "mark-restored")
    with closing(Services(read_settings(database_url=url, manual_clock=True))) as running:
        assert running.webhooks.backlog(app_id) == 3
        assert (running.webhooks.backlog(idle), running.polls.count_waiting(idle)) == (0, 0)
        assert last_revision(running.database) > revision + 1_000_000
        assert is_well(url)
    with served(url) as (services, _):
        # Who has read more than there is now misses nothing that is new, and hears of what is lost.
        end = services.log.last_seq(app_id)
        missed = services.log.read(app_id, read_up_to)
        assert (missed.gap, missed.entries, missed.cursor) == ((read_up_to + 1, end), [], end)
        happen(services, 2)
        assert [entry.seq for entry in services.log.read(app_id, read_up_to).entries] == [end + 1, end + 2]


def test_a_new_database_has_none_of_the_numbers_of_one_that_was_lost(tmp_path):
    """Its devices may be the same: what was taken of the lost one would show as unchanged what is another one here."""
    folders = [tmp_path / name for name in ("lost", "new")]
    for folder in folders:
        folder.mkdir()
    urls = list(map(databases.new_database_url, folders))
    with served(urls[0]) as (lost, _):
        happen(lost, 10)
        taken = last_revision(lost.database)
    with served(urls[1]) as (new, _):
        happen(new, 1)
        of_devices = new.database.query(lambda session: session.rows("SELECT revision FROM devices"))
        assert [taken < revision for (revision,) in of_devices] == [True]
        assert taken < last_revision(new.database) < 2**53


@pytest.mark.process
def test_a_restore_that_is_killed_leaves_no_part_of_a_database_and_is_done_again(tmp_path, backup, restored):
    """A part would be in the way of the next restore, and a server would begin with an empty one."""
    target = tmp_path / "restored.db"
    databases.execute(f"sqlite:///{backup}", "INSERT INTO settings VALUES ('kept', 'x')")
    program = """
import os, signal, sqlite3, sys
from pathlib import Path
from uuid import uuid4
from mirror_server.store import schema, logs
from mirror_server.store.sqlite import files

class Dying(sqlite3.Connection):
    def backup(self, target):
        super().backup(target, pages=5, progress=lambda *_: os.kill(os.getpid(), signal.SIGKILL))

connect = sqlite3.connect
sqlite3.connect = lambda *arguments, **options: connect(*arguments, factory=Dying, **options)
files.copy(Path(sys.argv[1]), Path(sys.argv[2]), [schema.CORE])
"""
    killed = subprocess.run([sys.executable, "-c", program, backup, target], timeout=60, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert not target.exists()
    done(restored, "restore", backup)
    assert databases.query(restored, "SELECT value FROM settings WHERE name = 'kept'") == [("x",)]


def test_what_is_no_backup_is_not_restored(tmp_path, restored):
    for name, content in (("text.db", NO_DATABASE), ("empty.db", "")):
        (tmp_path / name).write_text(content)
        refused(restored, "restore", tmp_path / name, told="is not a backup of a mirror")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty.db", "text.db"]


@pytest.mark.sqlite
def test_a_backup_that_finds_no_room_leaves_no_part_of_itself(services, device_ids, tmp_path, url):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    try:
        refused(url, "backup", tmp_path / "copy.db", told="make room")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    there = {path.name.removeprefix("mirror.db") for path in tmp_path.iterdir()}
    assert there <= {"", "-wal", "-shm", ".lock"}


@pytest.mark.sqlite
def test_what_is_committed_is_on_disk(services):
    """A process that is killed loses nothing either way; a machine that loses its power would."""
    assert services.database.write(lambda session: session.scalar("PRAGMA synchronous")) == 2
    assert services.database.write(lambda session: session.scalar("PRAGMA journal_mode")) == "wal"


def test_nothing_goes_on_for_a_key_that_is_revoked(services, devices, app_id, device_ids, tmp_path, url):
    services.subscriptions.put_rules(app_id, '[{"resource-path":["/3303/*"]}]').result(60)
    devices.update(device_ids[0])
    put_webhook(services, app_id)
    done(url, "keys", "revoke", app_id)
    devices.set_value(device_ids[0], PATH, "25")
    devices.register(device_ids[1])
    assert services.database.settle(60)
    for table in ("callbacks", "presubscriptions", "subscriptions", "notifications", "logs"):
        assert databases.query(url, f"SELECT 1 FROM {table} WHERE app_id = '{app_id}'") == [], table
    assert databases.query(url, "SELECT 1 FROM resources WHERE subscribed = 1") == []
    assert is_well(url)


def test_erasing_removes_the_rules_that_name_the_device_and_counts_them(services, device_ids, tmp_path, url):
    erased, kept = device_ids
    name, other_name = (services.devices.device(device_id).endpoint_name for device_id in device_ids)
    every = {"endpoint-name": None, "resource-path": ["/3303/*"]}
    of_others = [every, {"endpoint-name": other_name}, {"endpoint-name": f"{erased[:20]}*"}]
    of_it = [{"endpoint-name": erased}, {**every, "endpoint-name": name}, {"endpoint-name": f"{erased}*"}]
    rules = {"mixed": [of_it[0], *of_others, of_it[1]], "all": of_it, "none": of_others}
    for app_id, listed in rules.items():
        services.subscriptions.put_rules(app_id, json.dumps(listed)).result(60)
    assert erased_rows(url, erased)["presubscription_rules"] == 5
    left = {app_id: services.subscriptions.rules(app_id)[0] for app_id in rules}
    assert left["all"] == "[]"
    assert json.loads(left["mixed"]) == of_others
    assert left["none"] == json.dumps(of_others)
    assert is_nothing_left(tmp_path, erased, f'"{name}"')
    assert services.devices.device(kept)


def test_erasing_a_device_that_only_a_rule_names_is_told_once(services, app_id, url):
    device_id = "015f" + "0" * 28
    rules = [{"endpoint-name": device_id}, {"endpoint-name": None}]
    services.subscriptions.put_rules(app_id, json.dumps(rules)).result(60)
    rows = erased_rows(url, device_id)
    assert sum(rows.values()) == rows["presubscription_rules"] == 1


@pytest.mark.sqlite
@pytest.mark.parametrize("command", [["check"], ["keys", "list"], ["keys", "create", "app"]])
def test_a_file_that_an_older_version_serves_is_not_upgraded(tmp_path, url, command, next_version):
    with FileLock(tmp_path / "mirror.db.lock"):
        refused(url, *command, told="of an older version, whose server runs; stop that one first")
        assert "names" not in databases.tables(url)
    done(url, *command)


def test_a_key_has_a_name_that_can_be_seen(services, url):
    for name in (
        "",
        " ",
        "a\tb",
        "a\nb",
        "\x1b[31m",
    ):
        before = done(url, "keys", "list")
        refused(url, "keys", "create", name, told="Error: ", code=2)
        assert done(url, "keys", "list") == before
