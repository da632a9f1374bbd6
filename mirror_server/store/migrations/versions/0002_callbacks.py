"""Webhooks."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "callbacks",
        sa.Column("app_id", TEXT, primary_key=True),
        sa.Column("registration", sa.Text, nullable=False),
        sa.Column("registered_at", sa.BigInteger, nullable=False),
        sa.Column("last_success_at", sa.BigInteger),
        sa.Column("failures", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("last_error", sa.Text),
        sa.Column("next_attempt_at", sa.BigInteger),
    )
