"""Failed writes that were acknowledged: when, and by whom."""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("resources", sa.Column("acknowledged_at", sa.BigInteger))
    op.add_column("resources", sa.Column("acknowledged_by", sa.Text))
