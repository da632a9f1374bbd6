"""What is known of devices beyond the core: descriptions, custom attributes, saved queries, device events."""

import sqlalchemy as sa
from alembic import op

from mirror_server.store.columns import LONG, TEXT

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "device_descriptions",
        sa.Column("device_id", TEXT, sa.ForeignKey("devices.device_id", ondelete="CASCADE"), primary_key=True),
        sa.Column("name", TEXT),
        sa.Column("description", TEXT),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "device_attributes",
        sa.Column("device_id", TEXT, sa.ForeignKey("devices.device_id", ondelete="CASCADE"), primary_key=True),
        sa.Column("name", TEXT, primary_key=True),
        sa.Column("value", TEXT, nullable=False),
    )
    op.create_table(
        "device_queries",
        sa.Column("query_id", TEXT, primary_key=True),
        sa.Column("name", TEXT, nullable=False, unique=True),
        sa.Column("query", TEXT, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "device_events",
        sa.Column("revision", LONG, primary_key=True, autoincrement=False),
        sa.Column("device_id", TEXT, sa.ForeignKey("devices.device_id", ondelete="CASCADE"), nullable=False),
        sa.Column("kind", sa.SmallInteger, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("state_change", sa.SmallInteger, nullable=False),
    )
    op.create_index("device_events_by_device", "device_events", ["device_id", "revision"])
    op.create_index("device_events_by_time", "device_events", ["at"])
