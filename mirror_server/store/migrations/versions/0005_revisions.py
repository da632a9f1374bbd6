"""The number of the last change, of the mirror and of each device."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # What was there before counts as unchanged since 0.
    op.add_column("devices", sa.Column("revision", sa.BigInteger, nullable=False, server_default="0"))
    op.create_table("revisions", sa.Column("last_revision", sa.BigInteger, nullable=False))
    # A file in which an upgrade was interrupted may have its row.
    op.execute("INSERT INTO revisions (last_revision) SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM revisions)")
