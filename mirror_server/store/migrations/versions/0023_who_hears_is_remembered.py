"""PostgreSQL: what decides who hears of a value counts when it is written, so that it need not be looked up each time.

Once for each transaction: a process that has written some looks it up until that ends. It learns of its own by the
notice, of those of others by the number, and reads that behind the locks of what it touches, which nobody else writes
meanwhile.
"""

from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None

_NOTE = """
CREATE FUNCTION note_deciding_write() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF coalesce(current_setting('mirror.has_decided', true), '') = '' THEN
    PERFORM set_config('mirror.has_decided', 'yes', true);
    UPDATE deciding_writes SET number = number + 1;
    RAISE NOTICE 'deciding write';
  END IF;
  RETURN NULL;
END $$
"""

_DECIDING = (
    "INSERT OR UPDATE OR DELETE ON subscriptions",
    "INSERT OR UPDATE OF subscribed, auto_observed OR DELETE ON resources",
    "UPDATE OF endpoint_name OR DELETE ON devices",
)

# As in migration 0020, but for what it gives besides.
_BEGIN = """
CREATE FUNCTION begin_writing(touched int[], OUT leader text, OUT decided bigint) LANGUAGE plpgsql AS $$
DECLARE
  each int;
  given bigint;
BEGIN
  IF touched IS NULL THEN
    PERFORM pg_advisory_xact_lock(30796712728556033);
  ELSE
    PERFORM pg_advisory_xact_lock_shared(30796712728556033);
    FOREACH each IN ARRAY touched LOOP
      PERFORM pg_advisory_xact_lock(7170419, each);
    END LOOP;
    PERFORM pg_advisory_lock(30796712728556036);
    SELECT last_value INTO given FROM revision_numbers;
    PERFORM pg_advisory_xact_lock_shared((x'4D520000'::bigint << 32) + given);
    PERFORM pg_advisory_unlock(30796712728556036);
  END IF;
  SELECT (SELECT value FROM settings WHERE name = 'duty'), number INTO leader, decided FROM deciding_writes;
END $$
"""


def upgrade() -> None:
    if op.get_bind().dialect.name != "postgresql":
        return
    op.execute("CREATE TABLE deciding_writes (number bigint NOT NULL)")
    op.execute("INSERT INTO deciding_writes VALUES (0)")
    op.execute(_NOTE)
    for number, what in enumerate(_DECIDING):
        op.execute(f"CREATE TRIGGER deciding_{number} AFTER {what} EXECUTE FUNCTION note_deciding_write()")
    op.execute("DROP FUNCTION begin_writing(int[])")
    op.execute(_BEGIN)
