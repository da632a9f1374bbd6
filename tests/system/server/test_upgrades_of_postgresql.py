"""A schema of PostgreSQL is made or changed whole or not at all."""

import itertools

import databases
import psycopg
import pytest

from mirror_server.store import migrate, schema
from mirror_server.store.database import Database
from mirror_server.store.failures import DatabaseError


@pytest.fixture(autouse=True, scope="module")
def _template():
    """Made before there is a next version."""
    databases.cluster()


class CutOff(psycopg.Cursor):
    """A cursor whose connection ends at a statement, as when the process does."""

    statements_left = 0

    def execute(self, *arguments, **options):
        if CutOff.statements_left == 0:
            self.connection.close()
        CutOff.statements_left -= 1
        return super().execute(*arguments, **options)


@pytest.mark.parametrize(("template", "step"), [("template0", 7), ("template", 1)])
def test_an_interrupted_upgrade_of_postgresql_changes_nothing_and_is_done_by_the_next(template, step, next_version):
    url = databases.new_postgresql_url(template)
    before = databases.query(url, COLUMNS)
    interruptions = 0
    for statements in itertools.count(0, step):
        CutOff.statements_left = statements
        try:
            migrate.upgrade_postgresql(lambda: psycopg.connect(url, cursor_factory=CutOff), "x")
        except psycopg.OperationalError:
            assert databases.query(url, COLUMNS) == before
            interruptions += 1
        else:
            break
    assert interruptions > 1
    assert databases.query(url, COLUMNS) != before
    Database(url).close()


COLUMNS = (
    "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'public'"
    " UNION ALL SELECT viewname, definition FROM pg_views WHERE schemaname = 'public' ORDER BY 1, 2"
)


def test_a_postgresql_that_another_process_prepares_is_told_of_and_opens_afterwards(monkeypatch, next_version):
    monkeypatch.setattr(schema, "UPGRADE_SECONDS", 0.1)
    url = databases.new_postgresql_url()
    with psycopg.connect(url) as other:
        other.execute("LOCK TABLE settings")
        with pytest.raises(DatabaseError, match=r"cannot prepare.*stop all processes of the earlier version"):
            Database(url)
    Database(url).close()
