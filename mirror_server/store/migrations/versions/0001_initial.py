"""The tables of the core."""

import sqlalchemy as sa
from alembic import op

from mirror_server.store.columns import LONG, TEXT, optional, required

revision = "0001"
down_revision = None

# A table without numbers of rows, in the order of its key.
KEYED = {"sqlite_with_rowid": False}


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
        "former_secrets",
        sa.Column("key_id", TEXT, primary_key=True),
        sa.Column("secret_hash", sa.LargeBinary, primary_key=True),
        *required(sa.BigInteger, "ends_at"),
    )
    op.create_table("revisions", sa.Column("last_revision", sa.BigInteger, nullable=False))
    op.execute("INSERT INTO revisions (last_revision) VALUES (0)")
