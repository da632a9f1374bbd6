"""Websocket channels."""

import sqlalchemy as sa
from alembic import op

from mirror_server.store.columns import TEXT

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "websockets",
        sa.Column("app_id", TEXT, primary_key=True),
        sa.Column("registration", TEXT, nullable=False),
        sa.Column("connection", TEXT),
        sa.Column("process_id", TEXT),
        sa.Column("used_at", sa.BigInteger, nullable=False),
    )
