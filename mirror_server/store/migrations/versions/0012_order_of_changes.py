"""Which change of the mirror made each reported and each desired part what it is."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("resources", sa.Column("reported_revision", sa.BigInteger))
    op.add_column("resources", sa.Column("desired_revision", sa.BigInteger))
    # Which changes these were was not kept. Their times tell the order, so they are numbered by them: the first 1. That
    # is never more than the numbers they had, as far as changes were counted then.
    op.execute("CREATE TEMPORARY TABLE instants (instant BIGINT PRIMARY KEY, number BIGINT NOT NULL)")
    op.execute(
        "INSERT INTO instants SELECT instant, row_number() OVER (ORDER BY instant) FROM"
        " (SELECT reported_at AS instant FROM resources UNION SELECT desired_at FROM resources) AS found"
        " WHERE instant IS NOT NULL"
    )
    # Where both have one time, it is not known which came first.
    op.execute(
        "UPDATE resources SET"
        " reported_revision = CASE WHEN reported_at = desired_at THEN NULL"
        " ELSE (SELECT number FROM instants WHERE instant = reported_at) END,"
        " desired_revision = (SELECT number FROM instants WHERE instant = desired_at)"
        " WHERE reported_at IS NOT NULL OR desired_at IS NOT NULL"
    )
    # What comes next is later than all of them.
    op.execute(
        "UPDATE revisions SET last_revision = (SELECT max(number) FROM instants)"
        " WHERE last_revision < (SELECT max(number) FROM instants)"
    )
    # Whoever asks what has changed since learns of the numbers, too: it is the device object that tells them.
    op.execute("UPDATE revisions SET last_revision = last_revision + 1 WHERE EXISTS (SELECT 1 FROM instants)")
    op.execute(
        "UPDATE devices SET revision = (SELECT last_revision FROM revisions) WHERE device_id IN"
        " (SELECT device_id FROM resources WHERE reported_at IS NOT NULL OR desired_at IS NOT NULL)"
    )
    op.execute("DROP TABLE instants")
