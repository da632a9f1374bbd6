"""The application that placed the last write, to which alone is told why it failed; what each has read of its log."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("logs", sa.Column("read_seq", sa.BigInteger, nullable=False, server_default="0"))
    op.add_column("resources", sa.Column("desired_app_id", sa.Text))
    # Of a command that was forgotten meanwhile it is not known: then the category is told to nobody.
    op.execute(
        "UPDATE resources SET desired_app_id = (SELECT app_id FROM commands"
        " WHERE commands.command_id = resources.desired_command_id) WHERE desired_command_id IS NOT NULL"
    )
