"""What happened: the rows themselves, those that are encoded, and the files of the archive."""

from typing import Any

import sqlalchemy as sa
from alembic import op

from mirror_server.store.columns import LONG, TEXT

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "history",
        sa.Column("revision", LONG, primary_key=True, autoincrement=False),
        sa.Column("received_at", sa.BigInteger, nullable=False),
        sa.Column("changed_at", sa.BigInteger, nullable=False),
        sa.Column("device_number", sa.Integer),
        sa.Column("kind", sa.SmallInteger, nullable=False),
        sa.Column("path", TEXT),
        sa.Column("value", sa.LargeBinary),
        sa.Column("content_type", TEXT),
        sa.Column("status", sa.SmallInteger),
        sa.Column("category", TEXT),
        sa.Column("app_id", TEXT),
        sa.Column("requested_at", sa.BigInteger),
        sa.Column("until", sa.BigInteger),
    )
    op.create_table(
        "history_segments",
        sa.Column("segment_id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("block", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("kind", TEXT, nullable=False),
        sa.Column("state_at", sa.BigInteger),
        sa.Column("state_revision", sa.BigInteger),
        *bounds(),
    )
    op.create_table(
        "history_blocks",
        sa.Column("segment_id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("block", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "history_files",
        sa.Column("file_name", TEXT, primary_key=True),
        sa.Column("day", TEXT, nullable=False),
        *bounds(),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "history_erasures",
        sa.Column("device_id", TEXT, primary_key=True),
        sa.Column("up_to_revision", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "history_state",
        sa.Column("sealed_revision", sa.BigInteger, nullable=False),
        sa.Column("is_kept", sa.SmallInteger, nullable=False),
        sa.Column("begun_revision", sa.BigInteger, nullable=False),
        sa.Column("alive_at", sa.BigInteger),
        sa.Column("base_at", sa.BigInteger),
    )
    op.execute("INSERT INTO history_state (sealed_revision, is_kept, begun_revision) VALUES (0, 0, 0)")


def bounds() -> list[sa.Column[Any]]:
    """What a segment's block or a file holds, so that it need not be opened."""
    return [
        sa.Column("first_device", TEXT, nullable=False),
        sa.Column("last_device", TEXT, nullable=False),
        sa.Column("first_revision", sa.BigInteger, nullable=False),
        sa.Column("last_revision", sa.BigInteger, nullable=False),
        sa.Column("first_changed_at", sa.BigInteger, nullable=False),
        sa.Column("last_changed_at", sa.BigInteger, nullable=False),
        sa.Column("first_received_at", sa.BigInteger, nullable=False),
        sa.Column("last_received_at", sa.BigInteger, nullable=False),
        sa.Column("first_requested_at", sa.BigInteger),
        sa.Column("row_count", sa.BigInteger, nullable=False),
    ]
