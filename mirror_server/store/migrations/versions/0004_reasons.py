"""Why the last write failed, by what a value came, and since when a resource is subscribed."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Not known of what was stored before.
    op.add_column("resources", sa.Column("desired_category", sa.Text))
    op.add_column("resources", sa.Column("reported_origin", sa.Text))
    op.add_column("resources", sa.Column("subscribed_at", sa.BigInteger))
