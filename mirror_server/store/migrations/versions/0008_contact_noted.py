"""The last contact of a device as it was noted, by which silent devices are found; the last contact loses its index."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("devices", sa.Column("contact_noted_at", sa.BigInteger, nullable=False, server_default="0"))
    op.execute("UPDATE devices SET contact_noted_at = last_contact_at")
    op.drop_index("devices_by_contact", "devices")
    op.create_index("devices_by_contact_noted", "devices", ["contact_noted_at"])
