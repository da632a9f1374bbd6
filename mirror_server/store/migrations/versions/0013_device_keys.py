"""Pre-shared keys of real devices: as whom a device proves itself, and which endpoint name it may register."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "device_keys",
        sa.Column("endpoint_name", TEXT, primary_key=True),
        sa.Column("identity", TEXT, nullable=False),
        sa.Column("secret", sa.LargeBinary, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
    )
    op.create_index("device_keys_by_identity", "device_keys", ["identity"], unique=True)
