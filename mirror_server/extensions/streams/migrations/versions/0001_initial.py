"""Websocket channels."""

import sqlalchemy as sa
from alembic import op

from mirror_server.store.columns import TEXT, optional, required

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "websockets",
        sa.Column("app_id", TEXT, primary_key=True),
        *required(TEXT, "registration"),
        *optional(TEXT, "connection", "process_id"),
        *required(sa.BigInteger, "used_at"),
    )
