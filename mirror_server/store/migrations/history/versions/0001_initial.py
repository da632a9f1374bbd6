"""What happened: the rows themselves, those that are encoded, and the files of the archive."""

from typing import Any

import sqlalchemy as sa
from alembic import op

from mirror_server.store.columns import LONG, TEXT, optional, required

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "history",
        sa.Column("revision", LONG, primary_key=True, autoincrement=False),
        *required(sa.BigInteger, "received_at", "changed_at"),
        *optional(sa.Integer, "device_number"),
        *required(sa.SmallInteger, "kind"),
        *optional(TEXT, "path"),
        *optional(sa.LargeBinary, "value"),
        *optional(TEXT, "content_type"),
        *optional(sa.SmallInteger, "status"),
        *optional(TEXT, "category", "app_id"),
        *optional(sa.BigInteger, "requested_at", "until"),
    )
    op.create_table(
        "history_segments",
        sa.Column("segment_id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("block", sa.Integer, primary_key=True, autoincrement=False),
        *required(TEXT, "kind"),
        *optional(sa.BigInteger, "state_at", "state_revision"),
        *bounds(),
    )
    op.create_table(
        "history_blocks",
        sa.Column("segment_id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("block", sa.Integer, primary_key=True, autoincrement=False),
        *required(sa.LargeBinary, "content"),
    )
    op.create_table(
        "history_files",
        sa.Column("file_name", TEXT, primary_key=True),
        *required(TEXT, "day"),
        *bounds(),
        *required(sa.BigInteger, "size_bytes"),
    )
    op.create_table(
        "history_erasures",
        sa.Column("device_id", TEXT, primary_key=True),
        *required(sa.BigInteger, "up_to_revision"),
    )
    op.create_table(
        "history_state",
        *required(sa.BigInteger, "sealed_revision"),
        *required(sa.SmallInteger, "is_kept"),
        *required(sa.BigInteger, "begun_revision"),
        *optional(sa.BigInteger, "alive_at", "base_at"),
    )
    op.execute("INSERT INTO history_state (sealed_revision, is_kept, begun_revision) VALUES (0, 0, 0)")


def bounds() -> list[sa.Column[Any]]:
    """What a segment's block or a file holds, so that it need not be opened."""
    return [
        *required(TEXT, "first_device", "last_device"),
        *required(
            sa.BigInteger,
            "first_revision",
            "last_revision",
            "first_changed_at",
            "last_changed_at",
            "first_received_at",
            "last_received_at",
        ),
        *optional(sa.BigInteger, "first_requested_at"),
        *required(sa.BigInteger, "row_count"),
    ]
