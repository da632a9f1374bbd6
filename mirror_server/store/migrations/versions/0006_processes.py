"""Several processes on one database: what each stored last, and requests they pass on to the one on duty."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "processes",
        sa.Column("process_id", TEXT, primary_key=True),
        sa.Column("last_group", sa.BigInteger, nullable=False),
        sa.Column("stored_at", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "relayed_calls",
        sa.Column("call_id", TEXT, primary_key=True),
        sa.Column("asked_at", sa.BigInteger, nullable=False),
        sa.Column("request", sa.LargeBinary, nullable=False),
        sa.Column("answer", sa.LargeBinary),
    )
