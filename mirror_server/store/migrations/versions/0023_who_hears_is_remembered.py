"""PostgreSQL: it is noted which transactions wrote what decides who hears of a value, so that not each looks that up.

Each process notes its own, so that none waits for another's end; what is no process of a mirror has one row. A process
that has written some looks it up until its transaction ends, and learns of that by the notice. It learns of others by
their numbers, which it reads behind the locks of what it touches: nobody else writes that meanwhile.
"""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None

_NOTE = """
CREATE FUNCTION note_deciding_write() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  own text := coalesce(current_setting('mirror.process', true), '');
BEGIN
  IF coalesce(current_setting('mirror.decides', true), '') = '' THEN
    PERFORM set_config('mirror.decides', 'yes', true);
    INSERT INTO processes (process_id, last_group, stored_at, decided)
      VALUES (own, 0, 0, CAST(CAST(pg_current_xact_id() AS text) AS bigint))
      ON CONFLICT (process_id) DO UPDATE SET decided = excluded.decided;
    RAISE NOTICE 'deciding write';
  END IF;
  RETURN NULL;
END $$
"""

_DECIDING = (
    "INSERT OR UPDATE OR DELETE ON subscriptions",
    "INSERT OR UPDATE OF subscribed, auto_observed OR DELETE ON resources",
    "UPDATE OF endpoint_name OR DELETE ON devices",
    # With a row its number goes, which may have been seen by nobody.
    "DELETE ON processes",
)

# As in migration 0020, but for what it gives besides.
_BEGIN = """
CREATE FUNCTION begin_writing(touched int[], OUT leader text, OUT decided text) LANGUAGE plpgsql AS $$
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
  SELECT (SELECT value FROM settings WHERE name = 'duty'), string_agg(CAST(p.decided AS text), ' ' ORDER BY process_id)
    INTO leader, decided FROM processes p;
END $$
"""


def upgrade() -> None:
    # SQLite, where one writes, has it as well: one schema for both.
    op.add_column("processes", sa.Column("decided", sa.BigInteger))
    if op.get_bind().dialect.name != "postgresql":
        return
    op.execute(_NOTE)
    for number, what in enumerate(_DECIDING):
        op.execute(f"CREATE TRIGGER deciding_{number} AFTER {what} EXECUTE FUNCTION note_deciding_write()")
    op.execute("DROP FUNCTION begin_writing(int[])")
    op.execute(_BEGIN)
