"""Presubscription rules that are being applied to the registered devices, and to which resource they were applied last.

A resource that a device sends unasked can be subscribed, also where the device did not say that it can be observed.
"""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "applying_rules",
        sa.Column("app_id", TEXT, sa.ForeignKey("presubscriptions.app_id", ondelete="CASCADE"), primary_key=True),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.Column("device_id", TEXT, nullable=False),
        sa.Column("path", TEXT, nullable=False),
    )
    op.execute("UPDATE resources SET observable = 1 WHERE auto_observed = 1 AND observable = 0")
