"""Since when the calls of a webhook fail."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("callbacks", sa.Column("failing_since", sa.BigInteger))
