"""A PostgreSQL schema is created or upgraded completely or not at all."""

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import databases
import psycopg
import pytest

from mirror_server.extensions.postgresql.store import location, processes
from mirror_server.extensions.postgresql.store.backend import _upgrade
from mirror_server.extensions.postgresql.store.connection import opened
from mirror_server.extensions.postgresql.store.location import BRANCH
from mirror_server.store import schema
from mirror_server.store.backend import DatabaseError, Storage
from mirror_server.store.database import Database


class DisconnectingCursor(psycopg.Cursor):
    """A cursor whose connection ends at a statement, as if the process was killed."""

    statements_left = 0

    def execute(self, *arguments, **options):
        if DisconnectingCursor.statements_left == 0:
            self.connection.close()
        DisconnectingCursor.statements_left -= 1
        return super().execute(*arguments, **options)


@pytest.mark.parametrize(("template", "step"), [("template0", 7), ("template", 1)])
def test_interrupted_postgresql_upgrade_changes_nothing_and_is_repeated(template, step, tmp_path):
    url = databases.new_postgresql_url(template)
    core, labels = databases.next_core(tmp_path), databases.extension(tmp_path, 2)
    storages = [*databases.STORAGES, Storage(branch=labels)]
    branches = [core, *(storage.branch for storage in storages), BRANCH]
    if template == "template":
        databases.open_before(url, databases.extension(tmp_path, 1)).close()
    before = databases.query(url, COLUMNS)
    interruptions = 0
    for statements in itertools.count(0, step):
        DisconnectingCursor.statements_left = statements
        try:
            with closing(opened(url)) as connection:
                connection._raw.cursor_factory = DisconnectingCursor
                _upgrade(connection, "x", branches)
        except psycopg.OperationalError:
            assert databases.query(url, COLUMNS) == before
            interruptions += 1
        else:
            break
    assert interruptions > 1
    assert databases.query(url, COLUMNS) != before
    assert databases.query(url, "SELECT label, length FROM labels") == [("first", 5)]
    Database(url, storages, core=core).close()


COLUMNS = (
    "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'public'"
    " UNION ALL SELECT viewname, definition FROM pg_views WHERE schemaname = 'public' ORDER BY 1, 2"
)


def test_locked_postgresql_schema_fails_with_cure_and_opens_afterwards(monkeypatch, tmp_path):
    monkeypatch.setattr(schema, "UPGRADE_SECONDS", 0.1)
    url = databases.new_postgresql_url()
    core = databases.next_core(tmp_path)
    with psycopg.connect(url) as other:
        other.execute("LOCK TABLE settings")
        with pytest.raises(DatabaseError, match=r"cannot prepare.*stop all processes of the earlier version"):
            Database(url, core=core)
    Database(url, core=core).close()


def test_upgrade_is_rejected_until_all_older_servers_have_ended(open_services, url, tmp_path):
    core, second = databases.next_core(tmp_path), databases.extension(tmp_path, 2)
    leader, follower = open_services(), open_services()
    databases.open_before(url, databases.extension(tmp_path, 1)).close()
    message = f"older version .core {schema.CORE.newest} instead of {core.newest}.*stop all of them first"
    with pytest.raises(DatabaseError, match=message):
        Database(url, core=core)
    leader.close()
    with pytest.raises(
        DatabaseError, match=r"\(labels 0001 instead of 0002\), and servers of that version are running"
    ):
        databases.open_before(url, second)
    assert databases.query(url, "SELECT version FROM mirror_schema WHERE branch = 'labels'") == [("0001",)]
    assert "names" not in databases.tables(url)
    follower.close()
    Database(url, [*databases.STORAGES, Storage(branch=second)], core=core).close()


def test_killed_server_does_not_prevent_an_upgrade(url, tmp_path):
    core = databases.next_core(tmp_path)
    with closing(Database(url)) as database, closing(database.backend.election()):
        with pytest.raises(DatabaseError, match="servers of that version are running"):
            Database(url, core=core)
        databases.query(
            url, "SELECT pg_terminate_backend(pid, 10000) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2"
        )
        Database(url, core=core).close()


def test_older_server_that_starts_during_an_upgrade_fails(url, tmp_path):
    with closing(Database(url)) as database:
        Database(url, core=databases.next_core(tmp_path)).close()
        with pytest.raises(DatabaseError, match="was written by a newer version"):
            database.backend.election()


def test_servers_that_start_simultaneously_upgrade_once(url, tmp_path):
    core = databases.next_core(tmp_path)
    all_are_there = threading.Barrier(4)

    def serve(_number):
        all_are_there.wait(60)
        database = Database(url, core=core)
        return database, database.backend.election()

    with ThreadPoolExecutor(4) as threads:
        servers = list(threads.map(serve, range(4)))
    for database, election in servers:
        election.close()
        database.close()
    assert "names" in databases.tables(url)


def test_upgrade_by_another_user_names_the_owner_as_cure(url, tmp_path):
    databases.execute(
        url,
        "CREATE ROLE guest LOGIN",
        "GRANT ALL ON SCHEMA public TO guest",
        "GRANT ALL ON ALL TABLES IN SCHEMA public TO guest",
    )
    with pytest.raises(DatabaseError, match=r"must be owner of .*; its user must own the mirror's tables"):
        Database(url.replace("mirror@", "guest@"), core=databases.next_core(tmp_path))
    databases.execute(url, "DROP OWNED BY guest", "DROP ROLE guest")


def test_upgrade_of_version_0001_keeps_forwarded_requests_and_writes(monkeypatch, tmp_path):
    url = databases.new_postgresql_url("template0")
    with monkeypatch.context() as older:
        older.setattr(location, "BRANCH", databases.branch_of_version(BRANCH, "0001", tmp_path))
        Database(url).close()
    databases.execute(url, "INSERT INTO relayed_calls VALUES ('c1', 1000, 'request', NULL)")
    with closing(Database(url)) as database:
        assert database.query(lambda session: processes.call(session, "c1")) == b"request"
        database.write(lambda session: processes.put_response(session, "c1", b"response"))
        database.submit(lambda session: session.note_change([]), conflict_keys=("d1",)).result(60)
        assert database.query(lambda session: processes.response(session, "c1")) == b"response"
    assert databases.query(url, "SELECT last_revision FROM revisions") == [(1,)]
