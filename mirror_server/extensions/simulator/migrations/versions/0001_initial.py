"""The states of the simulated devices."""

import sqlalchemy as sa
from alembic import op

from mirror_server.store.columns import TEXT, required

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "simulated_devices",
        sa.Column("device_id", TEXT, primary_key=True),
        *required(TEXT, "document"),
    )
