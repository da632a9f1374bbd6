"""The tables of the core."""

import sqlalchemy as sa
from alembic import op

from mirror_server.store.columns import LONG, TEXT, optional, required

revision = "0001"
down_revision = None

# A table without numbers of rows, in the order of its key.
KEYED = {"sqlite_with_rowid": False}

# Several numbers are taken at once, and none while a transaction notes behind which one its own begin. A row of
# RETURNING is the one this gives, so what was raised meanwhile is counted. Where it fails, the connection gives back
# what it holds when it undoes the transaction. The locks are those of decision 20.
_COUNT = """
CREATE FUNCTION count_revisions() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  given bigint;
BEGIN
  PERFORM pg_advisory_lock(30796712728556036);
  SELECT last_value INTO given FROM revision_numbers;
  NEW.last_revision := setval('revision_numbers', given + NEW.last_revision - OLD.last_revision);
  PERFORM pg_advisory_unlock(30796712728556036);
  RETURN NEW;
END $$
"""

# Locks what is touched, or, where that is NULL, the lock of writing alone; gives who leads. One that is alone need not
# note where its numbers begin: nothing is stored meanwhile.
_BEGIN = """
CREATE FUNCTION begin_writing(touched int[]) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  each int;
  given bigint;
BEGIN
  IF touched IS NULL THEN
    PERFORM pg_advisory_xact_lock(30796712728556033);
  ELSE
    PERFORM pg_advisory_xact_lock_shared(30796712728556033);
    FOREACH each IN ARRAY touched LOOP
      PERFORM pg_advisory_xact_lock(7170419, each);
    END LOOP;
    PERFORM pg_advisory_lock(30796712728556036);
    SELECT last_value INTO given FROM revision_numbers;
    PERFORM pg_advisory_xact_lock_shared((x'4D520000'::bigint << 32) + given);
    PERFORM pg_advisory_unlock(30796712728556036);
  END IF;
  RETURN (SELECT value FROM settings WHERE name = 'duty');
END $$
"""

# Notes the transaction and how far was counted, tells the other processes, and shares the lock of ending.
_END = """
CREATE FUNCTION end_writing(process text, number bigint, at bigint, payloads text[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  payload text;
  given bigint;
BEGIN
  SELECT last_value INTO given FROM revision_numbers;
  UPDATE processes SET last_group = number, stored_at = at, last_revision = given WHERE process_id = process;
  IF NOT FOUND THEN
    INSERT INTO processes (process_id, last_group, stored_at, last_revision) VALUES (process, number, at, given);
  END IF;
  FOREACH payload IN ARRAY payloads LOOP
    PERFORM pg_notify('mirror', payload);
  END LOOP;
  PERFORM pg_advisory_xact_lock_shared(30796712728556037);
END $$
"""


def upgrade() -> None:
    op.create_table(
        "access_keys",
        sa.Column("key_id", TEXT, primary_key=True),
        *required(TEXT, "name"),
        *required(sa.LargeBinary, "secret_hash"),
        *required(TEXT, "scopes"),
        *required(sa.BigInteger, "created_at"),
        *optional(sa.BigInteger, "revoked_at"),
    )
    op.create_table(
        "devices",
        sa.Column("device_id", TEXT, primary_key=True),
        sa.Column("endpoint_name", TEXT, nullable=False, unique=True),
        *required(TEXT, "endpoint_type"),
        *required(sa.SmallInteger, "registered", "queue_mode"),
        # A real device may say that it lives for up to 2^32 - 1 seconds.
        *required(LONG, "lifetime_seconds"),
        *required(sa.BigInteger, "created_at", "updated_at", "last_contact_at", "registration_expires_at"),
        *required(sa.BigInteger, "revision", "contact_noted_at", default="0"),
        *optional(sa.Integer, "number"),
        *required(TEXT, "backend"),
    )
    op.create_index("devices_expiring", "devices", ["registered", "registration_expires_at"])
    op.create_index("devices_by_contact_noted", "devices", ["contact_noted_at"])
    op.create_index("devices_by_number", "devices", ["number"], unique=True)
    op.create_table(
        "resources",
        sa.Column("device_id", TEXT, sa.ForeignKey("devices.device_id", ondelete="CASCADE"), primary_key=True),
        sa.Column("path", TEXT, primary_key=True),
        *required(sa.SmallInteger, "present"),
        *required(TEXT, "resource_type", "content_type"),
        *required(sa.SmallInteger, "observable"),
        *required(sa.SmallInteger, "observing", "subscribed", default="0"),
        *optional(sa.LargeBinary, "reported_value"),
        *optional(TEXT, "reported_content_type"),
        *optional(sa.BigInteger, "reported_at", "reported_expires_at"),
        *optional(sa.LargeBinary, "desired_value"),
        *optional(sa.SmallInteger, "desired_status"),
        *optional(sa.BigInteger, "desired_at", "desired_updated_at", "requested_at", "desired_command_id"),
        *optional(TEXT, "desired_content_type", "desired_category", "reported_origin"),
        *optional(sa.BigInteger, "subscribed_at"),
        *required(sa.SmallInteger, "auto_observed", default="0"),
        *optional(sa.BigInteger, "changed_at"),
        *optional(TEXT, "desired_app_id"),
        *optional(sa.BigInteger, "reported_revision", "desired_revision", "acknowledged_at"),
        *optional(TEXT, "acknowledged_by"),
        **KEYED,
    )
    op.create_table(
        "commands",
        sa.Column("command_id", LONG, primary_key=True, autoincrement=True),
        *required(TEXT, "app_id", "async_id"),
        sa.Column("device_id", TEXT, sa.ForeignKey("devices.device_id", ondelete="CASCADE"), nullable=False),
        *required(TEXT, "method", "path"),
        *optional(TEXT, "query"),
        *optional(sa.LargeBinary, "payload"),
        *optional(TEXT, "content_type", "accept"),
        *required(sa.BigInteger, "requested_at", "expires_at"),
        *required(sa.Integer, "retries"),
        *required(sa.Integer, "attempts", default="0"),
        *optional(sa.BigInteger, "finished_at"),
        *required(sa.SmallInteger, "silent", default="0"),
        sa.UniqueConstraint("app_id", "async_id"),
        # A number must never be given twice: the mirror knows the newest write by it.
        sqlite_autoincrement=True,
    )
    unfinished = sa.text("finished_at IS NULL")
    for name, columns, where in [
        ("commands_waiting", ["device_id", "command_id"], unfinished),
        ("commands_expiring", ["expires_at"], unfinished),
        ("commands_finished", ["finished_at"], sa.text("finished_at IS NOT NULL")),
    ]:
        op.create_index(name, "commands", columns, sqlite_where=where, postgresql_where=where)
    op.create_table(
        "presubscriptions",
        sa.Column("app_id", TEXT, primary_key=True),
        *required(TEXT, "rules"),
    )
    op.create_table(
        "subscriptions",
        sa.Column("device_id", TEXT, sa.ForeignKey("devices.device_id", ondelete="CASCADE"), primary_key=True),
        sa.Column("path", TEXT, primary_key=True),
        sa.Column("app_id", TEXT, primary_key=True),
        *required(sa.SmallInteger, "single"),
        *required(TEXT, "state"),
        *optional(sa.BigInteger, "ended_at"),
        *required(sa.Integer, "position", default="0"),
        **KEYED,
    )
    op.create_table(
        "logs",
        sa.Column("app_id", TEXT, primary_key=True),
        *required(sa.BigInteger, "last_seq", "position", "stored_bytes", default="0"),
        *required(sa.SmallInteger, "polled", default="0"),
        *required(sa.BigInteger, "read_seq", default="0"),
    )
    op.create_table(
        "notifications",
        sa.Column("app_id", TEXT, primary_key=True),
        sa.Column("seq", sa.BigInteger, primary_key=True),
        *required(sa.BigInteger, "logged_at"),
        *required(TEXT, "device_id", "kind"),
        *required(sa.LargeBinary, "body"),
        **KEYED,
    )
    op.create_table(
        "settings",
        sa.Column("name", TEXT, primary_key=True),
        *required(TEXT, "value"),
    )
    op.create_table(
        "callbacks",
        sa.Column("app_id", TEXT, primary_key=True),
        *required(TEXT, "registration"),
        *required(sa.BigInteger, "registered_at"),
        *optional(sa.BigInteger, "last_success_at"),
        *required(sa.BigInteger, "failures", default="0"),
        *optional(TEXT, "last_error"),
        *optional(sa.BigInteger, "next_attempt_at", "failing_since"),
    )
    op.create_table(
        "processes",
        sa.Column("process_id", TEXT, primary_key=True),
        *required(sa.BigInteger, "last_group", "stored_at"),
        *required(sa.BigInteger, "last_revision", default="0"),
    )
    op.create_table(
        "relayed_calls",
        sa.Column("call_id", TEXT, primary_key=True),
        *required(sa.BigInteger, "asked_at"),
        *required(sa.LargeBinary, "request"),
        *optional(sa.LargeBinary, "answer"),
    )
    op.create_table(
        "former_secrets",
        sa.Column("key_id", TEXT, primary_key=True),
        sa.Column("secret_hash", sa.LargeBinary, primary_key=True),
        *required(sa.BigInteger, "ends_at"),
    )
    op.create_table(
        "applying_rules",
        sa.Column("app_id", TEXT, sa.ForeignKey("presubscriptions.app_id", ondelete="CASCADE"), primary_key=True),
        *required(sa.BigInteger, "revision"),
        *required(TEXT, "device_id", "path"),
    )
    if op.get_bind().dialect.name == "postgresql":
        _count_beside_each_other()
    else:
        op.create_table("revisions", sa.Column("last_revision", sa.BigInteger, nullable=False))
        op.execute("INSERT INTO revisions (last_revision) VALUES (0)")


def _count_beside_each_other() -> None:
    """Number changes so that transactions take the numbers beside each other, none waiting for another's end."""
    op.execute("CREATE SEQUENCE revision_numbers MINVALUE 0")
    op.execute("SELECT setval('revision_numbers', 0)")
    # Whoever counts does it as in the table of SQLite: a row's number is raised, and given back. The rows of a view
    # that is updated are locked, which those of a sequence cannot be; one within it is not. What is raised by how much
    # must be told from one look: OFFSET keeps PostgreSQL from putting the look into each place that names the column.
    op.execute(
        "CREATE VIEW revisions AS SELECT last_revision"
        " FROM (SELECT (SELECT last_value FROM revision_numbers) AS last_revision OFFSET 0) AS looked_up"
    )
    op.execute(_COUNT)
    op.execute(
        "CREATE TRIGGER count_revisions INSTEAD OF UPDATE ON revisions FOR EACH ROW EXECUTE FUNCTION count_revisions()"
    )
    op.execute(_BEGIN)
    op.execute(_END)
    # Nobody has stored anything yet.
    op.execute("INSERT INTO processes (process_id, last_group, stored_at, last_revision) VALUES ('', 0, 0, 0)")
