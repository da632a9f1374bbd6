"""What an operator does to a database: backup, restore, check, erase. Source: specification 1.5, 2.1."""

import json
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import databases
import pytest
from click.testing import CliRunner, Result
from filelock import FileLock

from mirror_server.cli import main
from mirror_server.config import Settings
from mirror_server.core.commands import CommandRequest
from mirror_server.core.errors import Refusal
from mirror_server.service import keys
from mirror_server.service.commands import Placement
from mirror_server.service.keys import Scope
from mirror_server.service.snapshots import Selection
from mirror_server.services import Services
from mirror_server.store import callbacks, logs, schema, statistics
from mirror_server.store.database import Database
from mirror_server.store.descriptions import Description
from mirror_server.store.device_events import DeviceEventRow
from mirror_server.store.failures import DatabaseError
from mirror_server.store.url import shown
from mirror_server.views import serialize
from mirror_server.views.event_stream import EventStream

SECRET = b"the-user-sleeps-at-21-degrees"
PATH = "/3303/0/5750"


def mirror_server(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture
def url(tmp_path: Path) -> str:
    return databases.new_database_url(tmp_path)


@contextmanager
def served(url: str) -> Iterator[Services]:
    """A server with two simulated devices, which was not there before or is there again."""
    with closing(Services(Settings(database_url=url, simulate=2, manual_clock=True))) as running:
        running.start()
        yield running


@pytest.fixture
def services(url: str) -> Iterator[Services]:
    with served(url) as running:
        yield running


@pytest.fixture
def app_id(services: Services) -> str:
    key = keys.create(services.database, "test", tuple(Scope), services.clock.now())
    identity = key.split("_")[1]
    services.log.keep_for(identity)
    return identity


def write(services: Services, app_id: str, device_id: str, value: bytes) -> None:
    """A write that is stored, answered and logged."""
    request = CommandRequest("PUT", PATH, payload=value, content_type="text/plain")
    services.commands.place(Placement(app_id, device_id, request)).result(60)
    assert services.database.settle(60)


@pytest.fixture
def device_ids(services: Services, app_id: str) -> list[str]:
    """Two devices with a written value each, the first one's a secret."""
    assert services.bench is not None
    simulator = services.bench.simulator
    device_ids = [state.id for state in simulator.list_states()]
    for device_id in device_ids:
        simulator.set_value(device_id, PATH, value="", writable=True, observable=True)
        simulator.update(device_id)
        assert services.database.settle(60)
        services.subscriptions.subscribe(app_id, device_id, PATH).result(60)
    assert services.database.settle(60)
    write(services, app_id, device_ids[0], SECRET)
    write(services, app_id, device_ids[1], b"plain")
    for device_id, said in zip(device_ids, (SECRET.decode(), "plain"), strict=True):
        told = Description(f"{said}-name", f"{said}-description", {"of": said})
        services.devices.describe(device_id, lambda _, told=told: told).result(60)
    return device_ids


def measure(database: Database) -> statistics.Statistics:
    with database.read() as session:
        return statistics.measure(session)


def events_of(services: Services) -> list[DeviceEventRow]:
    return services.directory.events((), after=None, descending=False, limit=100, count=False)[0]


def stored_bytes(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.glob("mirror.db*")))


@pytest.mark.sqlite
def test_a_backup_of_a_running_server_is_restored_with_all_it_held(services, app_id, device_ids, tmp_path, url):
    before = services.devices.device_object(app_id, device_ids[0], serialize.device_content)
    assert mirror_server("backup", tmp_path / "copy.db", "--database", url).exit_code == 0
    target = f"sqlite:///{tmp_path}/restored.db"
    assert mirror_server("restore", tmp_path / "copy.db", "--database", target).exit_code == 0
    assert mirror_server("check", "--database", target).output == "all is well\n"
    with closing(Services(Settings(database_url=target, manual_clock=True))) as again:
        assert again.devices.device_object(app_id, device_ids[0], serialize.device_content) == before


@pytest.mark.sqlite
def test_neither_backup_nor_restore_overwrites_a_file(services, tmp_path, url):
    taken = tmp_path / "taken.db"
    taken.write_text("mine")
    refused = mirror_server("backup", taken, "--database", url)
    assert refused.exit_code == 1
    assert "is there already" in refused.output
    mirror_server("backup", tmp_path / "copy.db", "--database", url)
    refused = mirror_server("restore", tmp_path / "copy.db", "--database", url)
    assert refused.exit_code == 1
    assert "is there already, and nothing is overwritten" in refused.output
    assert "-wal" in refused.output
    assert taken.read_text() == "mine"


@pytest.mark.sqlite
def test_erasing_leaves_nothing_of_the_device_and_all_of_the_others(services, device_ids, tmp_path, url):
    erased, kept = device_ids
    assert SECRET in stored_bytes(tmp_path)
    result = mirror_server("erase", erased, "--yes", "--database", url)
    assert result.exit_code == 0, result.output
    receipt = json.loads(result.output)
    assert receipt["device_id"] == erased
    assert receipt["rows"]["devices"] == receipt["rows"]["simulated_devices"] == receipt["rows"]["commands"] == 1
    assert receipt["rows"]["notifications"] >= 2
    assert receipt["rows"]["device_descriptions"] == receipt["rows"]["device_attributes"] == 1
    assert receipt["rows"]["device_events"] >= 2
    assert services.devices.described(kept).description.attributes == {"of": "plain"}
    assert {row.device_id for row in events_of(services)} == {kept}
    with pytest.raises(Refusal):
        services.devices.device(erased)
    assert services.devices.device(kept).device_id == kept
    assert SECRET not in stored_bytes(tmp_path)
    assert erased.encode() not in stored_bytes(tmp_path)
    assert mirror_server("check", "--database", url).output == "all is well\n"


def test_readers_are_told_of_the_gap_that_erasing_made(services, app_id, device_ids, url):
    write(services, app_id, device_ids[0], b"again")
    every = services.log.read(app_id, 0).cursor
    mirror_server("erase", device_ids[1], "--yes", "--database", url)
    seen: list[int] = []
    missed: list[int] = []
    after = 0
    while after < every:
        page = services.log.read(app_id, after)
        missed += range(page.gap[0], page.gap[1] + 1) if page.gap else []
        seen += [entry.seq for entry in page.entries]
        after = page.cursor
    assert missed
    assert sorted(seen + missed) == list(range(1, every + 1))


def test_erasing_asks_first_and_says_when_there_is_nothing(services, device_ids, url):
    asked = CliRunner().invoke(main, ["erase", device_ids[0], "--database", url], input="n\n")
    assert asked.exit_code == 1
    assert services.devices.device(device_ids[0])
    nothing = mirror_server("erase", "nobody", "--yes", "--database", url)
    assert nothing.exit_code == 1
    assert "nothing is stored" in nothing.output


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
        ("UPDATE device_events SET kind = 4", "a device event is of no known kind"),
        ("UPDATE device_events SET revision = revision + 1000000", "a device event is later than the last change"),
        ("DELETE FROM device_descriptions", "a device has attributes"),
        pytest.param("DELETE FROM devices", "a device that is not there", marks=pytest.mark.sqlite),
    ],
)
def test_check_finds_what_is_wrong(services, device_ids, url, damage, told):
    assert mirror_server("check", "--database", url).exit_code == 0
    databases.execute(url, damage)
    found = mirror_server("check", "--database", url)
    assert found.exit_code == 1
    assert told in found.output


def test_check_counts_what_is_wrong_and_shows_the_first_twenty(services, app_id, url):
    services.database.write(
        lambda session: session.run_many(
            "INSERT INTO notifications (app_id, seq, logged_at, device_id, kind, body)"
            " VALUES ('none', ?, 0, 'd', 'n', ?)",
            [(seq, b"") for seq in range(1, 1235)],
        )
    )
    found = mirror_server("check", "--database", url)
    assert found.exit_code == 1
    kind, *examples, more = found.stdout.splitlines()
    assert kind == "an entry belongs to no log: 1,234"
    assert len(examples) == len(set(examples)) == 20
    assert all(example.startswith("  none ") for example in examples)
    assert more == "  and 1,214 more"
    assert "1,234 things are wrong; restore a backup" in found.stderr


UNKNOWN_VERSIONS = {
    "9999": "was written by a newer version (its schema is 9999, and the newest this one knows is"
    f" {schema.versions()[-1]}); install that one",
    "0007": "was written by a version before all that this one upgrades (its schema is 0007, and the oldest this one"
    f" knows is {schema.versions()[0]}); open it with the version that wrote it, or name another database",
}


@pytest.mark.parametrize("version", UNKNOWN_VERSIONS)
def test_a_database_of_a_version_that_is_not_known_is_refused_with_a_cure(tmp_path, url, version):
    databases.execute(url, f"UPDATE alembic_version SET version_num = '{version}'")
    for command in (["check"], ["keys", "list"], ["backup", tmp_path / "copy.db"]):
        refused = mirror_server(*command, "--database", url)
        assert refused.exit_code == 1
        assert f"the database {shown(url).removeprefix('sqlite:///')} {UNKNOWN_VERSIONS[version]}" in refused.output
        assert refused.output.count("\n") == 1


def test_a_database_that_cannot_be_opened_is_one_clear_error(tmp_path):
    with pytest.raises(DatabaseError, match="cannot open"):
        Database(f"sqlite:///{tmp_path}/missing/mirror.db")
    (tmp_path / "no.db").write_text("this is no database, it is a text that is long enough to be looked at")
    with pytest.raises(DatabaseError, match="cannot open"):
        Database(f"sqlite:///{tmp_path}/no.db")


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("postgresql://nobody:secret@127.0.0.1:1/none", "check that PostgreSQL runs there"),
        ("postgresql://nobody:secret@/none?host=/nowhere", "check that PostgreSQL runs there"),
        ("postgresql://%", "cannot open"),
        ("mysql://x", "write it as sqlite:///FILE"),
        ("sqlite:///:memory:", "write it as sqlite:///FILE"),
    ],
)
def test_a_server_that_is_not_there_is_one_clear_error_without_the_password(url, told):
    for arguments in (["keys", "list"], ["check"]):
        refused = mirror_server(*arguments, "--database", url)
        assert refused.exit_code == 1
        assert told in refused.output
        assert refused.output.count("\n") == 1
        assert "secret" not in refused.output


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
    kind = "postgresql" if databases.ON_POSTGRESQL else "sqlite"
    monkeypatch.setattr(f"mirror_server.store.{kind}.backend._BUSY_SECONDS", 0.1)
    erase = ("erase", device_ids[0], "--yes", "--database", url)
    with services.database.read() as session:
        session.scalar("SELECT count(*) FROM devices")
        erased = mirror_server(*erase)
        assert erased.exit_code == 1
        assert json.loads(erased.stdout)["purged"] is False
        assert "run this again" in erased.stderr
        assert databases.ON_POSTGRESQL or SECRET in stored_bytes(tmp_path)
    assert "nothing is stored" in mirror_server(*erase).output
    assert SECRET not in stored_bytes(tmp_path)


@pytest.mark.parametrize(
    "arguments",
    [["backup", "copy.db"], ["check"], ["erase", "d", "--yes"], ["keys", "list"], ["devices", "revoke", "d"]],
)
def test_a_mistyped_database_is_told_and_not_made(tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    told = mirror_server(*arguments, "--database", "sqlite:///mirorr.db")
    assert told.exit_code == 1
    assert "there is no database mirorr.db" in told.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.sqlite
def test_a_backup_of_an_older_version_is_of_that_version_and_is_upgraded_where_it_is_restored(
    tmp_path, url, next_version
):
    backup, target = tmp_path / "copy.db", f"sqlite:///{tmp_path}/restored.db"
    assert mirror_server("backup", backup, "--database", url).exit_code == 0
    assert mirror_server("restore", backup, "--database", target).exit_code == 0
    assert mirror_server("check", "--database", target).output == "all is well\n"
    upgraded = {
        name: "names" in databases.tables(one)
        for name, one in {"copied": url, "backup": f"sqlite:///{backup}", "restored": target}.items()
    }
    assert upgraded == {"copied": False, "backup": False, "restored": True}


def test_what_was_counted_after_a_backup_is_not_counted_again_when_it_is_restored(tmp_path):
    """Who asks what has changed since a number that is lost would not hear of the changes counted up to it anew."""
    backup, target = tmp_path / "copy.db", f"sqlite:///{tmp_path}/restored.db"
    Database(f"sqlite:///{backup}").close()
    databases.execute(
        f"sqlite:///{backup}",
        "UPDATE revisions SET last_revision = 11",
        "INSERT INTO devices (device_id, endpoint_name, endpoint_type, registered, queue_mode, lifetime_seconds,"
        " created_at, updated_at, last_contact_at, registration_expires_at, revision)"
        " VALUES ('d', 'd', 'D', 1, 0, 60, 1, 1, 1, 9, 7)",
        "INSERT INTO logs (app_id, last_seq) VALUES ('a', 5)",
    )
    assert mirror_server("restore", backup, "--database", target).exit_code == 0
    numbers = "SELECT last_revision, revision FROM revisions, devices"
    ((last, of_device),) = databases.query(target, numbers)
    assert last == of_device > 1_000_000_000
    ((last_seq,),) = databases.query(target, "SELECT last_seq FROM logs")
    assert last_seq > 1_000_000
    again = f"sqlite:///{tmp_path}/again.db"
    assert mirror_server("restore", tmp_path / "restored.db", "--database", again).exit_code == 0
    ((later, of_device),) = databases.query(again, numbers)
    assert last < later == of_device < 2**53
    assert mirror_server("check", "--database", again).output == "all is well\n"


def happen(services: Services, times: int) -> None:
    """Something that all applications are told."""
    simulator = services.bench.simulator
    for _ in range(times):
        simulator.update(simulator.list_states()[0].id)
    assert services.database.settle(60)


def test_a_database_that_was_put_back_by_other_means_can_be_told_so(url):
    with served(url) as services:
        app_id, idle = (
            keys.create(services.database, name, tuple(Scope), services.clock.now()).split("_")[1] for name in "ab"
        )
        for each in (app_id, idle):
            services.log.keep_for(each)
        happen(services, 3)
        end = services.log.last_seq(idle)
        services.database.write(lambda session: logs.set_position(session, idle, end))
        services.log.note_read(idle, end)
        read_up_to = services.log.last_seq(app_id) + 2
        revision = services.snapshots.open(app_id, Selection())
        revision.close()
        services.database.write(
            lambda session: callbacks.put(session, app_id, '{"url":"http://127.0.0.1:1/"}', services.clock.now())
        )
        before = services.webhooks.backlog(app_id), measure(services.database)
        assert before[0] == 3
        refused = mirror_server("went-back", "--database", url)
        assert (refused.exit_code, "stop it first" in refused.stderr) == (1, True)
    assert mirror_server("went-back", "--database", url).exit_code == 0
    with closing(Services(Settings(database_url=url, manual_clock=True))) as running:
        assert (running.webhooks.backlog(app_id), measure(running.database)) == before
        assert (running.webhooks.backlog(idle), running.polls.count_waiting(idle)) == (0, 0)
        assert running.snapshots.open(app_id, Selection()).revision > revision.revision + 1_000_000
        assert mirror_server("check", "--database", url).output == "all is well\n"
    with served(url) as services:
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
    with served(urls[0]) as lost:
        happen(lost, 10)
        taken = lost.snapshots.open("a", Selection())
        taken.close()
    with served(urls[1]) as new, closing(new.snapshots.open("a", Selection(changed_after=taken.revision))) as since:
        pages = list(since.pages())
        assert sum(map(since.is_changed, since.devices(pages[0]))) == since.device_count == taken.device_count
        assert taken.revision < since.revision < 2**53


@pytest.mark.process
def test_a_restore_that_is_killed_leaves_no_part_of_a_database_and_is_done_again(tmp_path):
    """A part would be in the way of the next restore, and a server would begin with an empty one."""
    backup, target = tmp_path / "copy.db", tmp_path / "mirror.db"
    Database(f"sqlite:///{backup}").close()
    databases.execute(f"sqlite:///{backup}", "INSERT INTO settings VALUES ('kept', 'x')")
    program = """
import os, signal, sqlite3, sys
from pathlib import Path
from mirror_server.store.sqlite import backend

class Dying(sqlite3.Connection):
    def backup(self, target):
        super().backup(target, pages=5, progress=lambda *_: os.kill(os.getpid(), signal.SIGKILL))

connect = sqlite3.connect
sqlite3.connect = lambda *arguments, **options: connect(*arguments, factory=Dying, **options)
backend.copy(Path(sys.argv[1]), Path(sys.argv[2]))
"""
    killed = subprocess.run([sys.executable, "-c", program, backup, target], timeout=60, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert not target.exists()
    assert mirror_server("restore", backup, "--database", f"sqlite:///{target}").exit_code == 0
    assert databases.query(f"sqlite:///{target}", "SELECT value FROM settings WHERE name = 'kept'") == [("x",)]


@pytest.mark.parametrize("version", UNKNOWN_VERSIONS)
def test_a_backup_of_a_version_that_is_not_known_is_not_restored(tmp_path, version):
    backup = tmp_path / "unknown.db"
    Database(f"sqlite:///{backup}").close()
    databases.execute(f"sqlite:///{backup}", f"UPDATE alembic_version SET version_num = '{version}'")
    told = mirror_server("restore", backup, "--database", f"sqlite:///{tmp_path}/restored.db")
    assert told.exit_code == 1
    assert UNKNOWN_VERSIONS[version] in told.output
    assert not (tmp_path / "restored.db").exists()


def test_what_is_no_backup_is_not_restored(tmp_path):
    text, empty = tmp_path / "text.db", tmp_path / "empty.db"
    text.write_text("this is no database, it is a text that is long enough to be looked at")
    empty.touch()
    for no_backup in (text, empty):
        told = mirror_server("restore", no_backup, "--database", f"sqlite:///{tmp_path}/restored.db")
        assert told.exit_code == 1
        assert "is no backup of a mirror" in told.output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty.db", "text.db"]


@pytest.mark.sqlite
def test_a_backup_that_finds_no_room_leaves_no_part_of_itself(services, device_ids, tmp_path, url):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    try:
        told = mirror_server("backup", tmp_path / "copy.db", "--database", url)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert told.exit_code == 1
    assert "make room" in told.output
    assert {path.name for path in tmp_path.iterdir()} <= {
        "mirror.db",
        "mirror.db-wal",
        "mirror.db-shm",
        "mirror.db.lock",
    }


@pytest.mark.sqlite
def test_what_is_committed_is_on_disk(services):
    """A process that is killed loses nothing either way; a machine that loses its power would."""
    assert services.database.write(lambda session: session.scalar("PRAGMA synchronous")) == 2
    assert services.database.write(lambda session: session.scalar("PRAGMA journal_mode")) == "wal"


def test_nothing_goes_on_for_a_key_that_is_revoked(services, app_id, device_ids, tmp_path, url):
    services.subscriptions.put_rules(app_id, '[{"resource-path":["/3303/*"]}]', apply_now=True).result(60)
    registration = '{"url":"http://127.0.0.1:1/"}'
    services.database.write(lambda session: callbacks.put(session, app_id, registration, services.clock.now()))
    stream = EventStream(services.log, app_id, services.log.last_seq(app_id))
    assert mirror_server("keys", "revoke", app_id, "--database", url).exit_code == 0
    services.bench.simulator.set_value(device_ids[0], PATH, value="25")
    services.bench.simulator.register(device_ids[1])
    assert services.database.settle(60)
    with services.database.read() as session:
        left = {
            table: session.scalar(f"SELECT count(*) FROM {table} WHERE app_id = :app_id", app_id=app_id)
            for table in ("callbacks", "presubscriptions", "subscriptions", "notifications", "logs")
        }
        subscribed = session.scalar("SELECT count(*) FROM resources WHERE subscribed = 1")
    assert set(left.values()) == {0}
    assert subscribed == 0
    assert (stream.take(), stream.is_over) == (b"", True)
    assert mirror_server("check", "--database", url).output == "all is well\n"


def test_erasing_removes_the_rules_that_name_the_device_and_counts_them(services, device_ids, tmp_path, url):
    erased, kept = device_ids
    name, other_name = (services.devices.device(device_id).endpoint_name for device_id in device_ids)
    every = {"endpoint-name": None, "resource-path": ["/3303/*"]}
    of_others = [every, {"endpoint-name": other_name}, {"endpoint-name": f"{erased[:20]}*"}]
    of_it = [{"endpoint-name": erased}, {**every, "endpoint-name": name}, {"endpoint-name": f"{erased}*"}]
    rules = {
        "mixed": [of_it[0], *of_others, of_it[1]],
        "all": of_it,
        "none": of_others,
    }
    for app_id, listed in rules.items():
        services.subscriptions.put_rules(app_id, json.dumps(listed), apply_now=False).result(60)
    receipt = json.loads(mirror_server("erase", erased, "--yes", "--database", url).output)
    assert receipt["rows"]["presubscription_rules"] == 5
    left = {app_id: services.subscriptions.rules(app_id)[0] for app_id in rules}
    assert left["all"] == "[]"
    assert json.loads(left["mixed"]) == of_others
    assert "nothing is stored" in mirror_server("erase", erased, "--yes", "--database", url).output
    assert left["none"] == json.dumps(of_others)
    if not databases.ON_POSTGRESQL:
        assert erased.encode() not in stored_bytes(tmp_path)
        assert f'"{name}"'.encode() not in stored_bytes(tmp_path)
    assert services.devices.device(kept)


def test_erasing_takes_the_device_and_what_was_said_of_it_out_of_saved_filters(services, device_ids, tmp_path, url):
    erased, kept = device_ids
    name = services.devices.device(erased).endpoint_name
    of_both = {"floor": "second"}
    for device_id, told in (
        (erased, Description("Lamp of Ms Ray", "Ms Ray, room 12", {**of_both, "tenant": "Ray"})),
        (kept, Description("Lamp", "", of_both)),
    ):
        services.devices.describe(device_id, lambda _, told=told: told).result(60)
    queries = {
        "what she said": "description=Ms+Ray%2C+room+12",
        "her own": "custom_attributes__tenant__in=Ray,Roe",
        "with her": "state=registered&custom_attributes__tenant=Ray",
        "her floor": "custom_attributes__floor=second",
        "another member": "custom_attributes__floor=Ray",
        f"all but {erased}": "state=registered",
        f"{name}: like it": "endpoint_type=Lamp",
        "Lamp of Ms Ray": "state=registered",
        "Lamp of Ms Raymond": "state=registered",
        "by id": f"id={erased}",
        "by name": f"state=registered&endpoint_name__neq={name}",
        "among others": f"state=registered&id__in={kept},{erased}&custom_attributes__room=%C3%B6",
        "of another": f"id={kept}",
        "of an empty value": "description=",
    }
    for label, query in queries.items():
        services.directory.save_query(label, query).result(60)
    receipt = json.loads(mirror_server("erase", erased, "--yes", "--database", url).output)
    assert receipt["rows"]["device_queries"] == 9
    rows, _ = services.directory.queries((), after=None, descending=False, limit=20, count=False)
    assert {row.name.replace(row.query_id, "ID"): row.query for row in rows} == {
        "her own": "custom_attributes__tenant__in=Roe",
        "her floor": "custom_attributes__floor=second",
        "another member": "custom_attributes__floor=Ray",
        "all but (ID)": "state=registered",
        "(ID): like it": "endpoint_type=Lamp",
        "(ID)": "state=registered",
        "Lamp of Ms Raymond": "state=registered",
        "among others": f"state=registered&id__in={kept}&custom_attributes__room=%C3%B6",
        "of another": f"id={kept}",
        "of an empty value": "description=",
    }
    if not databases.ON_POSTGRESQL:
        assert erased.encode() not in stored_bytes(tmp_path)
        assert b"room 12" not in stored_bytes(tmp_path)


def test_erasing_a_device_that_only_a_rule_names_is_told_once(services, app_id, url):
    device_id = "015f" + "0" * 28
    rules = [{"endpoint-name": device_id}, {"endpoint-name": None}]
    services.subscriptions.put_rules(app_id, json.dumps(rules), apply_now=False).result(60)
    receipt = json.loads(mirror_server("erase", device_id, "--yes", "--database", url).output)
    assert sum(receipt["rows"].values()) == receipt["rows"]["presubscription_rules"] == 1
    assert "nothing is stored" in mirror_server("erase", device_id, "--yes", "--database", url).output


@pytest.mark.sqlite
@pytest.mark.parametrize("command", [["check"], ["keys", "list"], ["keys", "create", "app"]])
def test_a_file_that_an_older_version_serves_is_not_upgraded(tmp_path, url, command, next_version):
    with FileLock(tmp_path / "mirror.db.lock"):
        told = mirror_server(*command, "--database", url)
        assert told.exit_code == 1
        assert "of an older version, whose server runs; stop that one first" in told.output
        assert "names" not in databases.tables(url)
    assert mirror_server(*command, "--database", url).exit_code == 0


@pytest.mark.parametrize("name", ["", " ", "a\tb", "a\nb", "\x1b[31m"])
def test_a_key_has_a_name_that_can_be_seen(services, name, url):
    before = mirror_server("keys", "list", "--database", url).output
    assert mirror_server("keys", "create", name, "--database", url).exit_code == 2
    assert mirror_server("keys", "list", "--database", url).output == before
