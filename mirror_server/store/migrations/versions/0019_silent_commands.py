"""Commands of which nobody is told how they end, as an application may want it."""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("commands", sa.Column("silent", sa.SmallInteger, nullable=False, server_default="0"))
