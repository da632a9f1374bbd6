"""A schema is created or changed completely or not at all."""

import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from unittest.mock import Mock

import databases
import pytest
from filelock import FileLock

from mirror_server.hooks import open_database
from mirror_server.service import keys
from mirror_server.service.keys import DEFAULT_SCOPES
from mirror_server.store import devices, schema
from mirror_server.store import keys as stored_keys
from mirror_server.store.backend import DatabaseError, Storage
from mirror_server.store.database import Database

EACH_STATE = pytest.mark.parametrize("state", ["new", "old", "without an extension"])


@pytest.fixture
def url(tmp_path, state, next_version):
    """A database without a schema, with the previous one, or with the previous one of the core only."""
    made = databases.new_database_url(tmp_path, template="template0" if state == "new" else "template")
    if state == "old":
        databases.open_before(made, databases.extension(tmp_path, 1)).close()
    return made


@pytest.mark.sqlite
@EACH_STATE
def test_kill_at_any_statement_leaves_the_old_or_the_new_schema(url, state, tmp_path, monkeypatch):
    if state != "new":
        databases.execute(url, "PRAGMA journal_mode = WAL", "INSERT INTO settings VALUES ('kept', 'text')")
    old = schema_of(tmp_path / "mirror.db")
    states = {}

    def keep_state(_statement):
        # The state after a kill. The first process that opens it rebuilds the index of the WAL.
        files = {file.name: file.read_bytes() for file in tmp_path.iterdir() if file.suffix in {".db", ".db-wal"}}
        states[tuple(sorted(files.items()))] = files

    with monkeypatch.context() as patched:
        on_connecting(patched, lambda connection: connection.set_trace_callback(keep_state))
        open_database(url).close()
    new = schema_of(tmp_path / "mirror.db")
    assert old != new
    assert len(states) >= 2
    for number, files in enumerate(states.values()):
        folder = tmp_path / str(number)
        folder.mkdir()
        for name, content in files.items():
            (folder / name).write_bytes(content)
        assert schema_of(folder / "mirror.db") in (old, new)
        with closing(open_database(f"sqlite:///{folder}/mirror.db")) as database, database.read() as session:
            assert database.violations() == []
            assert state == "new" or session.rows("SELECT value, length FROM settings") == [("text", 4)]
            assert session.rows("SELECT label, length FROM labels") == [("first", 5)]
        assert schema_of(folder / "mirror.db") == new


def on_connecting(patched, act):
    """Call a function with each connection to a SQLite file."""
    connect = sqlite3.connect

    def connected(*arguments, **options):
        connection = connect(*arguments, **options)
        act(connection)
        return connection

    patched.setattr(sqlite3, "connect", connected)


def schema_of(path):
    """Return the columns of each table, and the indexes."""
    with closing(sqlite3.connect(path)) as connection:
        tables = connection.execute("SELECT name, type FROM sqlite_master").fetchall()
        return {
            name: connection.execute(f"SELECT * FROM pragma_{kind}_info(?)", (name,)).fetchall()
            for name, kind in tables
        }


@EACH_STATE
def test_concurrent_opens_find_one_complete_schema(url):
    all_are_there = threading.Barrier(4)

    def make_key(number):
        all_are_there.wait(60)
        with closing(open_database(url)) as database:
            keys.create(database, str(number), DEFAULT_SCOPES, number)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(make_key, range(4)))
    with closing(open_database(url)) as database:
        assert [key.name for key in database.query(stored_keys.list_all)] == ["0", "1", "2", "3"]
        assert database.violations() == []
    assert databases.query(url, "SELECT name FROM names WHERE name <> 'leader'") == []


@pytest.mark.parametrize("state", ["old"])
def test_upgrade_preserves_data_of_the_previous_version(url):
    databases.execute(url, "INSERT INTO settings VALUES ('kept', 'text')", "INSERT INTO labels VALUES ('kept', NULL)")
    open_database(url).close()
    assert databases.query(url, "SELECT value, length FROM settings WHERE name = 'kept'") == [("text", 4)]
    assert ("kept",) in databases.query(url, "SELECT name FROM names")
    assert databases.query(url, "SELECT label, length FROM labels ORDER BY label") == [("first", 5), ("kept", 4)]
    assert databases.query(url, "SELECT version FROM mirror_schema WHERE branch = 'core'") == [(schema.CORE.newest,)]
    assert databases.query(url, "SELECT version FROM mirror_schema WHERE branch = 'labels'") == [("0002",)]


@pytest.mark.parametrize("version", [migration.stem for migration in schema.CORE.migrations])
def test_upgrade_from_any_version_preserves_the_device(version, tmp_path):
    url = databases.new_database_of_version(version, tmp_path)
    with closing(open_database(url)) as database, database.read() as session:
        device, (resource,) = devices.object_of(session, "d1")
        assert database.violations() == []
    assert (device.device_id, device.endpoint_name, device.created_at) == ("d1", "sensor-1", 1000)
    assert (resource.path, resource.reported_value, resource.reported_at) == ("/3/0/0", b"Maker", 2000)


def test_upgrade_of_version_0001_keeps_states_of_subscriptions(tmp_path):
    url = databases.new_database_of_version("0001", tmp_path)
    for word in ("wanted", "active", "refused", "ended"):
        databases.execute(url, f"INSERT INTO subscriptions VALUES ('d1', '/3/0/0', 'of {word}', 1, '{word}', NULL, 0)")
    open_database(url).close()
    assert databases.query(url, "SELECT app_id, state FROM subscriptions ORDER BY app_id") == [
        ("of active", "active"),
        ("of ended", "ended"),
        ("of refused", "rejected"),
        ("of wanted", "pending"),
    ]


def test_tables_of_a_left_out_extension_stay_unchanged(tmp_path):
    url = databases.new_database_url(tmp_path)
    first, second = databases.extension(tmp_path, 1), databases.extension(tmp_path, 2)
    databases.open_before(url, first).close()
    databases.execute(url, "INSERT INTO labels VALUES ('kept', NULL)")
    open_database(url).close()
    assert databases.query(url, "SELECT label FROM labels ORDER BY label") == [("first",), ("kept",)]
    databases.open_before(url, second).close()
    assert databases.query(url, "SELECT label, length FROM labels ORDER BY label") == [("first", 5), ("kept", 4)]
    open_database(url).close()
    assert databases.query(url, "SELECT version FROM mirror_schema WHERE branch = 'labels'") == [("0002",)]


def test_newer_version_of_an_extension_is_rejected_before_any_upgrade(tmp_path):
    url = databases.new_database_url(tmp_path)
    core, second = databases.next_core(tmp_path), databases.extension(tmp_path, 2)
    databases.open_before(url, second).close()
    with pytest.raises(DatabaseError, match="its schema of labels is 0002, and this version supports 0001"):
        Database(url, [*databases.STORAGES, Storage(branch=databases.extension(tmp_path, 1))], core=core)
    assert "names" not in databases.tables(url)


@pytest.mark.sqlite
def test_tables_of_an_extension_are_added_to_a_served_file(tmp_path):
    url = databases.new_database_url(tmp_path)
    with FileLock(tmp_path / "mirror.db.lock"):
        databases.open_before(url, databases.extension(tmp_path, 1)).close()
        # The server may have the newest version, and run without the extension.
        with pytest.raises(DatabaseError, match="an older schema of labels, which a running server may use; stop"):
            databases.open_before(url, databases.extension(tmp_path, 2))
    assert databases.query(url, "SELECT version FROM mirror_schema WHERE branch = 'labels'") == [("0001",)]


@pytest.mark.sqlite
@EACH_STATE
def test_file_locked_by_another_program_is_an_error_until_released(url, tmp_path, monkeypatch):
    monkeypatch.setattr(schema, "UPGRADE_SECONDS", 0.1)
    with closing(sqlite3.connect(tmp_path / "mirror.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(DatabaseError, match="another program has locked it; stop that program, or try again"):
            open_database(url)
    open_database(url).close()


@pytest.mark.sqlite
def test_open_waits_for_a_file_that_another_process_creates(tmp_path, monkeypatch):
    url = databases.new_database_url(tmp_path)
    databases.execute(url, "PRAGMA journal_mode = DELETE")
    with closing(sqlite3.connect(tmp_path / "mirror.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        end_writing = Mock(side_effect=lambda _: other.execute("ROLLBACK"))
        monkeypatch.setattr("mirror_server.store.sqlite.backend.time.sleep", end_writing)
        open_database(url).close()
    end_writing.assert_called_once()


@pytest.mark.sqlite
@EACH_STATE
def test_full_disk_is_reported_at_open_until_space_is_free(url, monkeypatch):
    with monkeypatch.context() as full:
        on_connecting(full, lambda connection: connection.execute("PRAGMA max_page_count = 3"))
        with pytest.raises(DatabaseError, match="full; nothing was changed; free space on its disk"):
            open_database(url)
    open_database(url).close()


@pytest.mark.sqlite
@pytest.mark.parametrize("keep_schema", [False, True])
@pytest.mark.parametrize(
    "table", ["places (name TEXT)", "devices (name TEXT)", "mirror_schema (branch TEXT, version TEXT)"]
)
def test_file_of_another_program_is_rejected_unchanged(tmp_path, table, keep_schema):
    path = tmp_path / "places.db"
    with closing(sqlite3.connect(path)) as other, other:
        other.execute(f"CREATE TABLE {table}")
    before = path.read_bytes()
    with pytest.raises(DatabaseError, match=r"places\.db: its tables are not those of this server.*use another file"):
        open_database(f"sqlite:///{path}", keep_schema=keep_schema)
    assert path.read_bytes() == before
