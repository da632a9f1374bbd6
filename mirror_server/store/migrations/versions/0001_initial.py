"""The first schema."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

# SQLite numbers rows by itself only where the type is exactly INTEGER.
SERIAL = sa.BigInteger().with_variant(sa.Integer, "sqlite")
# Sorted by its bytes, as SQLite does, whatever the language of the database.
TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
KEYED = {"sqlite_with_rowid": False}


def upgrade() -> None:
    op.create_table(
        "access_keys",
        sa.Column("key_id", TEXT, primary_key=True),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("secret_hash", sa.LargeBinary, nullable=False),
        sa.Column("scopes", TEXT, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("revoked_at", sa.BigInteger),
    )
    op.create_table(
        "devices",
        sa.Column("device_id", TEXT, primary_key=True),
        sa.Column("endpoint_name", TEXT, nullable=False, unique=True),
        sa.Column("endpoint_type", TEXT, nullable=False),
        sa.Column("registered", sa.SmallInteger, nullable=False),
        sa.Column("queue_mode", sa.SmallInteger, nullable=False),
        sa.Column("lifetime_seconds", sa.Integer, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.Column("last_contact_at", sa.BigInteger, nullable=False),
        sa.Column("registration_expires_at", sa.BigInteger, nullable=False),
    )
    op.create_index("devices_expiring", "devices", ["registered", "registration_expires_at"])
    op.create_index("devices_by_contact", "devices", ["last_contact_at"])
    op.create_table(
        "resources",
        sa.Column("device_id", TEXT, sa.ForeignKey("devices.device_id", ondelete="CASCADE"), primary_key=True),
        sa.Column("path", TEXT, primary_key=True),
        sa.Column("present", sa.SmallInteger, nullable=False),
        sa.Column("resource_type", TEXT, nullable=False),
        sa.Column("content_type", TEXT, nullable=False),
        sa.Column("observable", sa.SmallInteger, nullable=False),
        sa.Column("observing", sa.SmallInteger, nullable=False, server_default="0"),
        sa.Column("subscribed", sa.SmallInteger, nullable=False, server_default="0"),
        sa.Column("reported_value", sa.LargeBinary),
        sa.Column("reported_content_type", TEXT),
        sa.Column("reported_at", sa.BigInteger),
        sa.Column("reported_expires_at", sa.BigInteger),
        sa.Column("desired_value", sa.LargeBinary),
        sa.Column("desired_status", sa.SmallInteger),
        sa.Column("desired_at", sa.BigInteger),
        sa.Column("desired_updated_at", sa.BigInteger),
        sa.Column("requested_at", sa.BigInteger),
        sa.Column("desired_command_id", sa.BigInteger),
        **KEYED,
    )
    op.create_table(
        "commands",
        sa.Column("command_id", SERIAL, primary_key=True, autoincrement=True),
        sa.Column("app_id", TEXT, nullable=False),
        sa.Column("async_id", TEXT, nullable=False),
        sa.Column("device_id", TEXT, sa.ForeignKey("devices.device_id", ondelete="CASCADE"), nullable=False),
        sa.Column("method", TEXT, nullable=False),
        sa.Column("path", TEXT, nullable=False),
        sa.Column("query", TEXT),
        sa.Column("payload", sa.LargeBinary),
        sa.Column("content_type", TEXT),
        sa.Column("accept", TEXT),
        sa.Column("requested_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.Column("retries", sa.Integer, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
        sa.Column("finished_at", sa.BigInteger),
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
        sa.Column("rules", TEXT, nullable=False),
    )
    op.create_table(
        "subscriptions",
        sa.Column("device_id", TEXT, sa.ForeignKey("devices.device_id", ondelete="CASCADE"), primary_key=True),
        sa.Column("path", TEXT, primary_key=True),
        sa.Column("app_id", TEXT, primary_key=True),
        sa.Column("single", sa.SmallInteger, nullable=False),
        sa.Column("state", TEXT, nullable=False),
        **KEYED,
    )
    op.create_table(
        "logs",
        sa.Column("app_id", TEXT, primary_key=True),
        sa.Column("last_seq", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("position", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("stored_bytes", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("polled", sa.SmallInteger, nullable=False, server_default="0"),
    )
    op.create_table(
        "notifications",
        sa.Column("app_id", TEXT, primary_key=True),
        sa.Column("seq", sa.BigInteger, primary_key=True),
        sa.Column("logged_at", sa.BigInteger, nullable=False),
        sa.Column("device_id", TEXT, nullable=False),
        sa.Column("kind", TEXT, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        **KEYED,
    )
    op.create_table(
        "settings",
        sa.Column("name", TEXT, primary_key=True),
        sa.Column("value", TEXT, nullable=False),
    )
    op.create_table(
        "simulated_devices",
        sa.Column("device_id", TEXT, primary_key=True),
        sa.Column("document", TEXT, nullable=False),
    )
