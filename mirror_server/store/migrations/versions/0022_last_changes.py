"""When a device changed and was heard of last stands beside the values that change it, in a row without a path."""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for name in ("revision", "last_contact_at"):
        op.add_column("resources", sa.Column(name, sa.BigInteger))
    op.execute(
        "INSERT INTO resources (device_id, path, present, resource_type, content_type, observable, revision,"
        " last_contact_at) SELECT device_id, '', 0, '', '', 0, revision, last_contact_at FROM devices"
        " ORDER BY device_id"
    )
    for name in ("revision", "last_contact_at"):
        op.drop_column("devices", name)
