"""A schema is made or changed whole or not at all, and what earlier versions left half-way is finished.

``python tests/interrupted_upgrades.py`` prints the whole table.
"""

import re
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import databases
import interrupted_upgrades
import pytest
from interrupted_upgrades import NEWEST, NONE, TORN_STEPS, UPGRADES, VERSIONS

from mirror_server.service import keys
from mirror_server.service.keys import DEFAULT_SCOPES
from mirror_server.store import keys as stored_keys
from mirror_server.store import migrate, schema
from mirror_server.store.database import Database
from mirror_server.store.failures import DatabaseError

TESTS = Path(interrupted_upgrades.__file__).parent
STALE = "write the schema anew: python -m mirror_server.store.migrate"


@pytest.mark.sqlite
@pytest.mark.parametrize(("older", "newer"), UPGRADES)
def test_a_kill_at_any_statement_leaves_the_old_schema_or_the_new_one_and_a_file_that_opens(older, newer, tmp_path):
    states = interrupted_upgrades.states_during(older, newer)
    assert len(states) > 3
    left = interrupted_upgrades.looked_at(states, older)
    assert {one.problem for one in left} == {None}
    # The first statement comes before the file is there.
    whole = [schema_in(states[0] or {"": b""}, tmp_path), schema_in(states[-1], tmp_path)]
    # One that is for PostgreSQL alone changes its number here.
    assert whole[0] != whole[1] or (states[0] != states[-1] and (older, newer) == ("0020", "0021"))
    for state in {tuple(sorted(state.items())): state for state in states if state}.values():
        assert schema_in(state, tmp_path) in whole


def schema_in(state: dict[str, bytes], folder: Path) -> object:
    for path in folder.iterdir():
        path.unlink()
    for end, content in state.items():
        (folder / f"mirror.db{end}").write_bytes(content)
    return interrupted_upgrades.schema_of(folder / "mirror.db")


@pytest.mark.sqlite
@pytest.mark.parametrize(("older", "newer"), TORN_STEPS)
def test_what_an_earlier_version_left_in_the_middle_of_a_migration_is_finished(older, newer, caplog):
    left = interrupted_upgrades.looked_at(interrupted_upgrades.states_torn(older, newer), older)
    assert left
    assert {one.problem for one in left} == {None}
    assert "finished an upgrade" in caplog.text


@pytest.mark.sqlite
@pytest.mark.process
def test_what_killed_processes_and_a_full_disk_leave_opens_again():
    command = [sys.executable, TESTS / "interrupted_upgrades.py", "--only-processes"]
    table = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout
    cells = re.findall(r"(\d+)/(\d+)", table)
    assert len(cells) == 3 * 3
    assert all(int(opened) == int(count) >= 3 for opened, count in cells), table


@pytest.mark.sqlite
@pytest.mark.process
def test_keys_that_are_made_at_once_in_a_new_file_are_all_there(tmp_path):
    create = [sys.executable, "-m", "mirror_server", "keys", "create", "--database", f"sqlite:///{tmp_path}/mirror.db"]
    started = [
        subprocess.Popen([*create, name], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for name in "abc"
    ]
    for one in started:
        printed, told = one.communicate(timeout=120)
        assert (one.returncode, printed[:3]) == (0, "ak_"), told
    with closing(Database(f"sqlite:///{tmp_path}/mirror.db")) as database, database.read() as session:
        assert sorted(key.name for key in stored_keys.list_all(session)) == ["a", "b", "c"]


@pytest.mark.parametrize("version", [NONE, "0001", VERSIONS[-2], NEWEST])
def test_who_opens_at_once_finds_one_whole_schema(tmp_path, version):
    for turn in range(3):
        folder = tmp_path / str(turn)
        folder.mkdir()
        url = databases.new_database_url(folder, template="template0")
        if version != NONE:
            databases.upgrade_to(url, version)
        all_are_there = threading.Barrier(4)

        def make_key(number: int, url: str = url, all_are_there: threading.Barrier = all_are_there) -> None:
            all_are_there.wait(60)
            with closing(Database(url)) as database:
                keys.create(database, str(number), DEFAULT_SCOPES, number)

        with ThreadPoolExecutor(4) as threads:
            list(threads.map(make_key, range(4)))
        with closing(Database(url)) as database, database.read() as session:
            assert [key.name for key in stored_keys.list_all(session)] == ["0", "1", "2", "3"]
            assert database.violations() == []


@pytest.mark.sqlite
@pytest.mark.parametrize("version", [NONE, "0001"])
def test_a_file_that_another_program_holds_is_told_of_and_opens_when_it_is_free(tmp_path, monkeypatch, version):
    monkeypatch.setattr(schema, "UPGRADE_SECONDS", 0.1)
    path, url = tmp_path / "mirror.db", f"sqlite:///{tmp_path}/mirror.db"
    if version != NONE:
        databases.upgrade_to(url, version)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(DatabaseError, match="another program holds it; stop that one, or try again"):
            Database(url)
    Database(url).close()


@pytest.mark.sqlite
def test_a_new_file_that_another_process_writes_is_waited_for(tmp_path, monkeypatch):
    databases.upgrade_to(f"sqlite:///{tmp_path}/mirror.db", "head")
    with closing(sqlite3.connect(tmp_path / "mirror.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        waits: list[float] = []

        def end_writing(seconds: float) -> None:
            waits.append(seconds)
            other.execute("ROLLBACK")

        monkeypatch.setattr("mirror_server.store.sqlite.backend.time.sleep", end_writing)
        Database(f"sqlite:///{tmp_path}/mirror.db").close()
    assert len(waits) == 1


@pytest.mark.sqlite
@pytest.mark.parametrize("version", [NONE, "0001"])
def test_a_disk_without_room_is_told_of_and_the_file_opens_when_there_is_some(tmp_path, monkeypatch, version):
    url = f"sqlite:///{tmp_path}/mirror.db"
    if version != NONE:
        databases.upgrade_to(url, version)
    connect = sqlite3.connect

    def connect_without_room(*arguments, **options):
        connection = connect(*arguments, **options)
        connection.execute("PRAGMA max_page_count = 3")
        return connection

    with monkeypatch.context() as full:
        full.setattr(sqlite3, "connect", connect_without_room)
        with pytest.raises(DatabaseError, match="full; nothing was changed; make room on its disk"):
            Database(url)
    Database(url).close()


@pytest.mark.sqlite
@pytest.mark.parametrize("table", ["devices (name TEXT)", "access_keys (name TEXT)"])
def test_a_file_of_another_program_is_refused_and_left_as_it_is(tmp_path, table):
    path = tmp_path / "places.db"
    with closing(sqlite3.connect(path)) as other, other:
        other.execute(f"CREATE TABLE {table}")
    before = path.read_bytes()
    with pytest.raises(DatabaseError, match=r"not all a mirror's \(.*name another file"):
        Database(f"sqlite:///{path}")
    assert path.read_bytes() == before


@pytest.mark.sqlite
def test_a_new_file_has_what_the_migrations_make(tmp_path):
    databases.upgrade_to(f"sqlite:///{tmp_path}/migrated.db", "head")
    with closing(sqlite3.connect(":memory:")) as made, closing(sqlite3.connect(tmp_path / "migrated.db")) as migrated:
        schema.make(made)
        assert words(made) == words(migrated), STALE
    assert schema.SCRIPT.read_text(encoding="utf-8") == migrate.script(), STALE


def words(connection: sqlite3.Connection) -> list[list[str]]:
    return [statement.split() for statement in connection.iterdump()]


def test_the_newest_version_is_the_end_of_all_migrations(tmp_path):
    url = databases.new_database_url(tmp_path, template="template0")
    databases.upgrade_to(url, "head")
    assert databases.query(url, "SELECT version_num FROM alembic_version") == [(NEWEST,)]
    assert schema.versions() == VERSIONS[1:]


@pytest.mark.process
def test_alembic_is_loaded_only_where_a_schema_is_behind(tmp_path):
    current, old = (databases.new_database_url(tmp_path), f"sqlite:///{tmp_path}/old.db")
    Database(current).close()
    databases.upgrade_to(old, "0001")
    program = """
import sys
from mirror_server.store.database import Database
for url in sys.argv[1:]:
    Database(url).close()
    print(not {"alembic", "sqlalchemy"}.isdisjoint(sys.modules))
"""
    urls = [f"sqlite:///{tmp_path}/new.db", current, old]
    command = [sys.executable, "-c", program, *urls]
    loaded = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.split()
    assert loaded == ["False", "False", "True"]
