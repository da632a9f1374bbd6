"""PostgreSQL: the number of the last change is looked up once for each time it is raised, so that none is given twice.

What is raised by how much was told from two looks, one for the new number and one for the old: who counted in between
was taken off, and the same number was given again.
"""

from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    if op.get_bind().dialect.name != "postgresql":
        return
    # OFFSET keeps PostgreSQL from putting the look into each place that names the column.
    op.execute(
        "CREATE OR REPLACE VIEW revisions AS SELECT last_revision"
        " FROM (SELECT (SELECT last_value FROM revision_numbers) AS last_revision OFFSET 0) AS looked_up"
    )
