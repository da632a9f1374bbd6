"""The content type of a desired value."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("resources", sa.Column("desired_content_type", sa.Text))
    # Not known of what was written before, unless its command is still kept.
    op.execute(
        "UPDATE resources SET desired_content_type = coalesce("
        "(SELECT content_type FROM commands WHERE command_id = desired_command_id), 'text/plain')"
        " WHERE desired_status IS NOT NULL"
    )
