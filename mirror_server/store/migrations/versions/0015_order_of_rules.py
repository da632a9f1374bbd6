"""In which order a device is asked to observe: that of the rules which say so."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("subscriptions", sa.Column("position", sa.Integer, nullable=False, server_default="0"))
