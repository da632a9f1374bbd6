"""Secrets that a renewed key had before, and until when they hold."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "former_secrets",
        sa.Column("key_id", TEXT, primary_key=True),
        sa.Column("secret_hash", sa.LargeBinary, primary_key=True),
        sa.Column("ends_at", sa.BigInteger, nullable=False),
    )
