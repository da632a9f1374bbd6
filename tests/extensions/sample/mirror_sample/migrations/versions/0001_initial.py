"""The count of what was published."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table("sample_counts", sa.Column("published", sa.BigInteger, nullable=False))
    op.execute("INSERT INTO sample_counts VALUES (0)")
