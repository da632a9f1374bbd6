"""Websocket channels, and which connection of each is open."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "websockets",
        sa.Column("app_id", TEXT, primary_key=True),
        sa.Column("registration", TEXT, nullable=False),
        sa.Column("connection", TEXT),
        sa.Column("process_id", TEXT),
        sa.Column("used_at", sa.BigInteger, nullable=False),
    )
