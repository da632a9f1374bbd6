"""PostgreSQL: numbers of changes that transactions take beside each other, none of them waiting for another's end."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # SQLite, where one writes, has it as well: one schema for both.
    op.add_column("processes", sa.Column("last_revision", sa.BigInteger, nullable=False, server_default="0"))
    if op.get_bind().dialect.name != "postgresql":
        return
    op.execute("CREATE SEQUENCE revision_numbers MINVALUE 0")
    op.execute("SELECT setval('revision_numbers', last_revision) FROM revisions")
    # Whoever counts does it as in the table of before: a row's number is raised, and given back.
    op.execute("DROP TABLE revisions")
    # The rows of a view that is updated are locked, which those of a sequence cannot be; one within it is not.
    op.execute("CREATE VIEW revisions AS SELECT (SELECT last_value FROM revision_numbers) AS last_revision")
    # Several numbers are taken at once, and none while a transaction notes behind which one its own begin. A row of
    # RETURNING is the one this gives, so what was raised meanwhile is counted. Where it fails, the connection gives
    # back what it holds when it undoes the transaction.
    op.execute(
        "CREATE FUNCTION count_revisions() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " PERFORM pg_advisory_lock(30796712728556036);"
        " NEW.last_revision := setval('revision_numbers',"
        " (SELECT last_value FROM revision_numbers) + NEW.last_revision - OLD.last_revision);"
        " PERFORM pg_advisory_unlock(30796712728556036);"
        " RETURN NEW; END $$"
    )
    op.execute(
        "CREATE TRIGGER count_revisions INSTEAD OF UPDATE ON revisions FOR EACH ROW EXECUTE FUNCTION count_revisions()"
    )
    # Nobody has stored anything since, and what was told before has to stay behind.
    op.execute(
        "INSERT INTO processes (process_id, last_group, stored_at, last_revision)"
        " SELECT '', 0, 0, last_revision FROM revisions"
    )
