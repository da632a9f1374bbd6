"""Where real devices are reached, so that they are known after a restart."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
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
    # Such a device may say that it lives for up to 2^32 - 1 seconds. An integer of SQLite is as long as it needs to be.
    if op.get_bind().dialect.name == "postgresql":
        op.alter_column("devices", "lifetime_seconds", type_=sa.BigInteger)
