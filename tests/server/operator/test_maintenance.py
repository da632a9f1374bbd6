"""Commands for a database: backup, restore, check, erase. Source: specification 1.5, 2.1."""

import json
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from uuid import uuid4

import databases
import pytest
from devices_in_memory import DevicesInMemory
from filelock import FileLock
from operator_commands import (
    assert_fails,
    assert_fails_in_one_line,
    done,
    erased_rows,
    is_nothing_left,
    run,
    stored_bytes,
)

from mirror_server.cli import databases as commands
from mirror_server.core.commands import CommandRequest
from mirror_server.core.errors import ApiError
from mirror_server.devices.interface import Registration
from mirror_server.hooks import open_database, read_settings
from mirror_server.server import Services
from mirror_server.service import keys
from mirror_server.service.commands import CommandSubmission
from mirror_server.service.keys import Scope
from mirror_server.store import logs, schema
from mirror_server.store.backend import LOCATIONS, DatabaseError, redacted
from mirror_server.store.database import Database
from mirror_server.views import serialize

SECRET = b"the-user-sleeps-at-21-degrees"
PATH = "/3303/0/5750"


@pytest.fixture
def restored(tmp_path: Path) -> str:
    """The URL of a database that a restore creates."""
    return f"sqlite:///{tmp_path}/restored.db"


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    """The backup of an empty database."""
    open_database(f"sqlite:///{tmp_path}/copy.db").close()
    return tmp_path / "copy.db"


def is_well(url: str) -> bool:
    return done(url, "check") == "no problems found\n"


def last_revision(database: Database) -> int:
    with database.read(with_revision=True) as session:
        return session.last_revision()


@contextmanager
def served(url: str) -> Iterator[tuple[Services, DevicesInMemory]]:
    """Start a server on a new or restored database, with devices."""
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
    """The id of an application with a log."""
    key = keys.create(services.database, "test", tuple(Scope), services.clock.now())
    identity = key.split("_")[1]
    services.log.ensure_log(identity)
    return identity


@pytest.fixture
def app_id(services: Services) -> str:
    return new_application(services)


def put_webhook(services: Services, app_id: str) -> None:
    webhook = '{"url":"http://127.0.0.1:1/"}'
    services.database.write(lambda session: logs.put_webhook(session, app_id, webhook, services.clock.now()))


def write(services: Services, app_id: str, device_id: str, value: bytes) -> None:
    """Store a write with its response and log entries."""
    request = CommandRequest("PUT", PATH, payload=value, content_type="text/plain")
    services.commands.submit(CommandSubmission(app_id, device_id, request, uuid4().hex)).result(60)
    assert services.database.settle(60)


@pytest.fixture
def device_ids(services: Services, devices: DevicesInMemory, app_id: str) -> list[str]:
    """Two devices with a written value each; that of the first one is a secret."""
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
def test_backup_of_a_running_server_is_restored_completely(services, app_id, device_ids, tmp_path, url, restored):
    before = services.devices.device_object(app_id, device_ids[0], serialize.device_content)
    done(url, "backup", tmp_path / "copy.db")
    done(restored, "restore", tmp_path / "copy.db")
    assert is_well(restored)
    with closing(Services(read_settings(database_url=restored, manual_clock=True))) as again:
        assert again.devices.device_object(app_id, device_ids[0], serialize.device_content) == before


@pytest.mark.sqlite
def test_neither_backup_nor_restore_overwrites_a_file(services, backup, tmp_path, url):
    existing = tmp_path / "taken.db"
    existing.write_text("mine")
    assert_fails(url, "backup", existing, message="already exists")
    message = "already exists and is not overwritten"
    assert "-wal" in assert_fails(url, "restore", backup, message=message).output
    assert existing.read_text() == "mine"


@pytest.mark.sqlite
def test_erase_deletes_all_of_the_device_and_nothing_of_others(services, device_ids, tmp_path, url):
    erased, other = device_ids
    assert SECRET in stored_bytes(tmp_path)
    rows = erased_rows(url, erased)
    assert (rows["devices"], rows["commands"]) == (1, 1)
    assert rows["notifications"] >= 2
    with pytest.raises(ApiError):
        services.devices.device(erased)
    assert services.devices.device(other).device_id == other
    assert is_nothing_left(tmp_path, SECRET.decode(), erased)
    assert is_well(url)


def test_erase_makes_a_gap_for_readers(services, app_id, device_ids, url):
    write(services, app_id, device_ids[0], b"again")
    every = services.log.read(app_id, 0).cursor
    done(url, "erase", device_ids[1], "--yes")
    read, missed, after = [], [], 0
    while after < every:
        page = services.log.read(app_id, after)
        missed += range(page.gap[0], page.gap[1] + 1) if page.gap else []
        read += [entry.seq for entry in page.entries]
        after = page.cursor
    assert missed
    assert sorted(read + missed) == list(range(1, every + 1))


def test_erase_of_several_devices_prints_a_receipt_for_each(services, device_ids, url):
    first, second = device_ids
    result = assert_fails(url, "erase", first, "missing", second, first, "--yes", message="with the id 'missing'")
    receipts = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(each["device_id"], each["rows"]["devices"], each["purged"]) for each in receipts] == [
        (first, 1, True),
        (second, 1, True),
    ]
    for device_id in device_ids:
        with pytest.raises(ApiError):
            services.devices.device(device_id)


def test_interrupted_erase_prints_the_receipts_of_erased_devices(services, device_ids, url, monkeypatch):
    erase, (first, second) = commands._erase, device_ids

    def interrupted(database, device_id, settings):
        if device_id == second:
            raise KeyboardInterrupt
        return erase(database, device_id, settings)

    with monkeypatch.context() as patched:
        patched.setattr(commands, "_erase", interrupted)
        (line,) = assert_fails(url, "erase", first, second, "--yes", message="Aborted!").stdout.splitlines()
    assert [json.loads(line)[name] for name in ("device_id", "purged")] == [first, False]
    assert services.devices.device(second)
    assert_fails(url, "erase", first, "--yes", message=f"with the id '{first}'")


def test_erase_prompts_first_and_reports_an_unknown_device(services, device_ids, url):
    result = run(url, "erase", *device_ids, input="n\n")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "2 devices" in result.stderr
    assert services.devices.device(device_ids[0])
    assert_fails(url, "erase", "nobody", "--yes", message="nothing is stored")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("UPDATE resources SET desired_status = 0", "a desired value is pending"),
        ("UPDATE commands SET finished_at = NULL", "a write command is waiting"),
        ("UPDATE logs SET last_seq = 1", "larger than its last number"),
        ("UPDATE logs SET stored_bytes = stored_bytes + 1", "not the sum of its entries"),
        ("UPDATE logs SET position = 1000", "a position is beyond"),
        ("DELETE FROM subscriptions", "is subscribed without a subscription"),
        ("DELETE FROM logs", "a log entry has no log"),
        pytest.param("DELETE FROM devices", "a device that does not exist", marks=pytest.mark.sqlite),
    ],
)
def test_check_finds_violations(services, device_ids, url, damage, message):
    done(url, "check")
    databases.execute(url, damage)
    assert_fails(url, "check", message=message)


def test_check_counts_violations_and_lists_the_first_twenty(services, app_id, url):
    row = "INSERT INTO notifications (app_id, seq, logged_at, device_id, kind, body) VALUES ('none', ?, 0, 'd', 'n', ?)"
    rows = [(seq, b"") for seq in range(1, 1235)]
    services.database.write(lambda session: session.run_many(row, rows))
    found = assert_fails(url, "check", message="a log entry has no log: 1,234\n")
    _, *examples, more = found.stdout.splitlines()
    assert len(examples) == len(set(examples)) == 20
    assert all(example.startswith("  none ") for example in examples)
    assert more == "  and 1,214 more"
    # On PostgreSQL its own tools restore a backup.
    by = " with 'mirror-server restore FILE'" if url.startswith("sqlite:") else ""
    assert f"found 1,234 problems; restore a backup{by}, and keep" in found.stderr


def test_newer_database_or_backup_is_rejected_with_a_cure(tmp_path, url, backup, restored):
    branch = schema.CORE
    for one in (url, f"sqlite:///{backup}"):
        databases.execute(one, f"UPDATE mirror_schema SET version = '9999' WHERE branch = '{branch.name}'")
    newer = (
        f"was written by a newer version (its schema is 9999, and this version supports {branch.newest} at most);"
        " install the newer version"
    )
    message = f"the database {redacted(url).removeprefix('sqlite:///')} {newer}"
    for command in (["check"], ["keys", "list"], ["backup", tmp_path / "another.db"]):
        assert_fails_in_one_line(url, *command, message=message)
    assert_fails(restored, "restore", backup, message=newer)
    assert not (tmp_path / "restored.db").exists()


NO_DATABASE = "this is not a database, it is a text that is long enough to be looked at"


def test_database_that_cannot_be_opened_is_one_clear_error(tmp_path):
    (tmp_path / "no.db").write_text(NO_DATABASE)
    for name in ("missing/mirror.db", "no.db"):
        with pytest.raises(DatabaseError, match="cannot open"):
            open_database(f"sqlite:///{tmp_path}/{name}")


def test_invalid_database_url_is_one_clear_error(monkeypatch):
    for scheme in ("postgresql", "postgres"):
        monkeypatch.delitem(LOCATIONS, scheme, raising=False)
    for url, message in (
        ("mysql://x", "it must have the form sqlite:///FILE"),
        ("sqlite:///:memory:", "it must have the form sqlite:///FILE"),
        ("postgresql://me:secret@host/db", "postgresql://me@host/db: the extension postgresql is missing"),
        ("postgres://me:secret@host/db", "use a SQLite file, such as sqlite:///"),
    ):
        for arguments in (["keys", "list"], ["check"]):
            assert "secret" not in assert_fails_in_one_line(url, *arguments, message=message)


def test_displayed_url_has_no_password():
    for url in (
        "postgresql://me:secret@host/db",
        "postgresql://me:se@cret@host:5432/db?sslmode=require",
        "postgres://:secret@/db?host=/run",
        "postgresql:///db?user=me&password=secret&host=h",
    ):
        assert "cret" not in redacted(url)
    for url in ("sqlite:///mirror.db", "postgresql://me@host/db", "postgresql:///db?host=/run"):
        assert redacted(url) == url


def test_erase_reports_unpurged_data_while_the_file_is_being_read(services, device_ids, tmp_path, url, monkeypatch):
    monkeypatch.setattr(sys.modules[type(services.database.backend).__module__], "BUSY_SECONDS", 0.1)
    erase = (url, "erase", device_ids[0], "--yes")
    with services.database.read() as session:
        session.scalar("SELECT count(*) FROM devices")
        assert json.loads(assert_fails(*erase, message="run this again").stdout)["purged"] is False
        assert databases.ON_POSTGRESQL or SECRET in stored_bytes(tmp_path)
    assert_fails(*erase, message="nothing is stored")
    assert is_nothing_left(tmp_path, SECRET.decode())


# A process that holds SQLite's lock for checkpoints, a byte of the file "-shm", until its input ends.
CHECKPOINTING = """
import fcntl, os, sys
file = os.open(sys.argv[1], os.O_RDWR)
fcntl.lockf(file, fcntl.LOCK_EX, 1, 121)
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.mark.sqlite
def test_erase_waits_for_a_running_checkpoint(services, device_ids, tmp_path, url, monkeypatch):
    command = [sys.executable, "-c", CHECKPOINTING, tmp_path / "mirror.db-shm"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"locked\n"

        def sleep(seconds):
            process.stdin.close()
            # Its end.
            process.stdout.read()

        monkeypatch.setattr(time, "sleep", sleep)
        assert json.loads(done(url, "erase", device_ids[0], "--yes"))["purged"] is True
    assert is_nothing_left(tmp_path, SECRET.decode())


def test_mistyped_database_is_an_error_and_not_created(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for arguments in (
        ["backup", "copy.db"],
        ["check"],
        ["erase", "d", "--yes"],
        ["keys", "list"],
    ):
        assert_fails("sqlite:///mirorr.db", *arguments, message="there is no database mirorr.db")
        assert list(tmp_path.iterdir()) == []


@pytest.mark.sqlite
def test_backup_of_an_older_version_is_upgraded_at_restore(tmp_path, url, restored, next_version):
    done(url, "backup", tmp_path / "copy.db")
    done(restored, "restore", tmp_path / "copy.db")
    assert is_well(restored)
    upgraded = ["names" in databases.tables(one) for one in (url, f"sqlite:///{tmp_path}/copy.db", restored)]
    assert upgraded == [False, False, True]


def test_restore_skips_numbers_used_after_the_backup(tmp_path, backup, restored):
    """Otherwise a reader with a lost number would miss the new changes up to it."""
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
    """Log an event for all applications."""
    for _ in range(times):
        services.devices.registered(Registration("light-3", "Light", False, 3600, (), "test")).result(60)


def test_mark_restored_skips_numbers_of_lost_changes(url):
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
        assert_fails(url, "mark-restored", message="stop it first")
    done(url, "mark-restored")
    with closing(Services(read_settings(database_url=url, manual_clock=True))) as running:
        assert running.webhooks.backlog(app_id) == 3
        assert (running.webhooks.backlog(idle), running.polls.count_waiting(idle)) == (0, 0)
        assert last_revision(running.database) > revision + 1_000_000
        assert is_well(url)
    with served(url) as (services, _):
        # A reader beyond the end misses nothing new, and gets the loss as a gap.
        end = services.log.last_seq(app_id)
        missed = services.log.read(app_id, read_up_to)
        assert (missed.gap, missed.entries, missed.cursor) == ((read_up_to + 1, end), [], end)
        happen(services, 2)
        assert [entry.seq for entry in services.log.read(app_id, read_up_to).entries] == [end + 1, end + 2]


def test_new_database_uses_no_numbers_of_a_lost_one(tmp_path):
    """The devices may be the same, so a snapshot of the lost database would hide their changes."""
    folders = [tmp_path / name for name in ("lost", "new")]
    for folder in folders:
        folder.mkdir()
    urls = list(map(databases.new_database_url, folders))
    with served(urls[0]) as (lost, _):
        happen(lost, 10)
        existing = last_revision(lost.database)
    with served(urls[1]) as (new, _):
        happen(new, 1)
        of_devices = new.database.query(lambda session: session.rows("SELECT revision FROM devices"))
        assert [existing < revision for (revision,) in of_devices] == [True]
        assert existing < last_revision(new.database) < 2**53


@pytest.mark.process
def test_killed_restore_leaves_no_file_and_can_be_repeated(tmp_path, backup, restored):
    """A partial file would block the next restore, and a server would start with it."""
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


def test_invalid_backup_is_not_restored(tmp_path, restored):
    for name, content in (("text.db", NO_DATABASE), ("empty.db", "")):
        (tmp_path / name).write_text(content)
        assert_fails(restored, "restore", tmp_path / name, message="is not a backup of a mirror")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty.db", "text.db"]


@pytest.mark.sqlite
def test_backup_on_a_full_disk_leaves_no_file(services, device_ids, tmp_path, url):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    try:
        assert_fails(url, "backup", tmp_path / "copy.db", message="free disk space")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    there = {path.name.removeprefix("mirror.db") for path in tmp_path.iterdir()}
    assert there <= {"", "-wal", "-shm", ".lock"}


@pytest.mark.sqlite
def test_committed_data_is_on_disk(services):
    """A killed process loses nothing either way, but a power failure would."""
    assert services.database.write(lambda session: session.scalar("PRAGMA synchronous")) == 2
    assert services.database.write(lambda session: session.scalar("PRAGMA journal_mode")) == "wal"


def test_revoked_key_loses_webhook_rules_and_subscriptions(services, devices, app_id, device_ids, tmp_path, url):
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


def test_erase_deletes_and_counts_the_rules_that_name_the_device(services, device_ids, tmp_path, url):
    erased, other = device_ids
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
    assert services.devices.device(other)


def test_erase_of_a_device_named_only_by_a_rule_succeeds_once(services, app_id, url):
    device_id = "015f" + "0" * 28
    rules = [{"endpoint-name": device_id}, {"endpoint-name": None}]
    services.subscriptions.put_rules(app_id, json.dumps(rules)).result(60)
    rows = erased_rows(url, device_id)
    assert sum(rows.values()) == rows["presubscription_rules"] == 1


@pytest.mark.sqlite
@pytest.mark.parametrize("command", [["check"], ["keys", "list"], ["keys", "create", "app"]])
def test_file_served_by_an_older_version_is_not_upgraded(tmp_path, url, command, next_version):
    with FileLock(tmp_path / "mirror.db.lock"):
        assert_fails(url, *command, message="of an older version, and a server of that version is running")
        assert "names" not in databases.tables(url)
    done(url, *command)


def test_key_name_must_be_printable(services, url):
    for name in (
        "",
        " ",
        "a\tb",
        "a\nb",
        "\x1b[31m",
    ):
        before = done(url, "keys", "list")
        assert_fails(url, "keys", "create", name, message="Error: ", code=2)
        assert done(url, "keys", "list") == before
