"""Keys and registrations of real devices."""

import sqlalchemy as sa
from alembic import op

from mirror_server.store.columns import TEXT, optional, required

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "device_keys",
        sa.Column("endpoint_name", TEXT, primary_key=True),
        *required(TEXT, "identity"),
        *required(sa.LargeBinary, "secret"),
        *required(sa.BigInteger, "created_at"),
    )
    op.create_index("device_keys_by_identity", "device_keys", ["identity"], unique=True)
    op.create_table(
        "registrations",
        sa.Column("device_id", TEXT, sa.ForeignKey("devices.device_id", ondelete="CASCADE"), primary_key=True),
        sa.Column("location", TEXT, nullable=False, unique=True),
        *required(TEXT, "address"),
        *required(sa.SmallInteger, "is_secure"),
        *optional(TEXT, "identity"),
        *required(TEXT, "version", "binding", "prefix", "structured"),
        *required(sa.LargeBinary, "links_hash"),
        *required(TEXT, "to_discover", "tokens"),
    )
