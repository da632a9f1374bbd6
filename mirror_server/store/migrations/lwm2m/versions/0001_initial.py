"""Keys and registrations of real devices."""

import sqlalchemy as sa
from alembic import op

from mirror_server.store.columns import TEXT

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "device_keys",
        sa.Column("endpoint_name", TEXT, primary_key=True),
        sa.Column("identity", TEXT, nullable=False),
        sa.Column("secret", sa.LargeBinary, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
    )
    op.create_index("device_keys_by_identity", "device_keys", ["identity"], unique=True)
    op.create_table(
        "registrations",
        sa.Column("device_id", TEXT, sa.ForeignKey("devices.device_id", ondelete="CASCADE"), primary_key=True),
        sa.Column("location", TEXT, nullable=False, unique=True),
        sa.Column("address", TEXT, nullable=False),
        sa.Column("is_secure", sa.SmallInteger, nullable=False),
        sa.Column("identity", TEXT),
        sa.Column("version", TEXT, nullable=False),
        sa.Column("binding", TEXT, nullable=False),
        sa.Column("prefix", TEXT, nullable=False),
        sa.Column("structured", TEXT, nullable=False),
        sa.Column("links_hash", sa.LargeBinary, nullable=False),
        sa.Column("to_discover", TEXT, nullable=False),
        sa.Column("tokens", TEXT, nullable=False),
    )
