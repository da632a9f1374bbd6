"""How far presubscription rules are applied to the registered devices."""

import sqlalchemy as sa
from alembic import op

from mirror_server.store.columns import TEXT, required

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "applying_rules",
        sa.Column("app_id", TEXT, sa.ForeignKey("presubscriptions.app_id", ondelete="CASCADE"), primary_key=True),
        *required(sa.BigInteger, "revision"),
        *required(TEXT, "device_id", "path"),
    )
