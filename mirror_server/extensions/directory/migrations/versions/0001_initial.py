"""What is known of devices beyond the core: descriptions, custom attributes, saved queries, device events."""

import sqlalchemy as sa
from alembic import op

from mirror_server.store.columns import LONG, TEXT, optional, required

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "device_descriptions",
        sa.Column("device_id", TEXT, sa.ForeignKey("devices.device_id", ondelete="CASCADE"), primary_key=True),
        *optional(TEXT, "name", "description"),
        *required(sa.BigInteger, "updated_at"),
    )
    op.create_table(
        "device_attributes",
        sa.Column("device_id", TEXT, sa.ForeignKey("devices.device_id", ondelete="CASCADE"), primary_key=True),
        sa.Column("name", TEXT, primary_key=True),
        *required(TEXT, "value"),
    )
    op.create_table(
        "device_queries",
        sa.Column("query_id", TEXT, primary_key=True),
        sa.Column("name", TEXT, nullable=False, unique=True),
        *required(TEXT, "query"),
        *required(sa.BigInteger, "created_at", "updated_at"),
    )
    op.create_table(
        "device_events",
        sa.Column("revision", LONG, primary_key=True, autoincrement=False),
        sa.Column("device_id", TEXT, sa.ForeignKey("devices.device_id", ondelete="CASCADE"), nullable=False),
        *required(sa.SmallInteger, "kind"),
        *required(sa.BigInteger, "at"),
        *required(sa.SmallInteger, "state_change"),
    )
    op.create_index("device_events_by_device", "device_events", ["device_id", "revision"])
    op.create_index("device_events_by_time", "device_events", ["at"])
