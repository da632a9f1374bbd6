"""What was told: when a device sent a value on its own account, with its time of it, and which subscriptions ended."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("resources", sa.Column("auto_observed", sa.SmallInteger, nullable=False, server_default="0"))
    op.add_column("resources", sa.Column("heard_at", sa.BigInteger))
    op.add_column("resources", sa.Column("changed_at", sa.BigInteger))
    op.add_column("subscriptions", sa.Column("ended_at", sa.BigInteger))
    # As far as it shows: the devices tell it at their next registration.
    op.execute("UPDATE resources SET heard_at = reported_at WHERE reported_origin <> 'read'")
    op.execute(
        "UPDATE resources SET auto_observed = 1 WHERE reported_origin = 'auto_observation' AND subscribed_at IS NULL"
    )
