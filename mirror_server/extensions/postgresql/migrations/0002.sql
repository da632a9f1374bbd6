-- Names of forwarded requests and of the functions; the functions themselves are those of 0001.

ALTER TABLE relayed_calls RENAME COLUMN asked_at TO requested_at;
ALTER TABLE relayed_calls RENAME COLUMN answer TO response;

-- Statements increment the counter as they do in the table of the core: they update a row and return its new value.
-- PostgreSQL locks the rows of an updated view, which it cannot do for a sequence itself, but can for a subquery of it.
-- An update must compute its increment from one read of the sequence: OFFSET prevents PostgreSQL from repeating the
-- subquery wherever the column is used.
CREATE OR REPLACE VIEW revisions AS SELECT last_revision
  FROM (SELECT (SELECT last_value FROM revision_numbers) AS last_revision OFFSET 0) AS counter;

-- Takes several numbers at once. The lock excludes transactions that are recording the number at which they start.
-- RETURNING sees the row that this returns, including concurrent increments. After an error the connection releases its
-- locks when it rolls back the transaction. Decision 20 describes the locks.
CREATE OR REPLACE FUNCTION count_revisions() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  newest bigint;
BEGIN
  PERFORM pg_advisory_lock(30796712728556036);
  SELECT last_value INTO newest FROM revision_numbers;
  NEW.last_revision := setval('revision_numbers', newest + NEW.last_revision - OLD.last_revision);
  PERFORM pg_advisory_unlock(30796712728556036);
  RETURN NEW;
END $$;

-- Locks the conflict keys, or takes the lock of writing exclusively if they are NULL. Returns the token of the leader.
-- An exclusive transaction does not record its first number, because no other transaction stores anything meanwhile.
DROP FUNCTION begin_writing(int[]);
CREATE FUNCTION begin_writing(conflict_keys int[]) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  conflict_key int;
  newest bigint;
BEGIN
  IF conflict_keys IS NULL THEN
    PERFORM pg_advisory_xact_lock(30796712728556033);
  ELSE
    PERFORM pg_advisory_xact_lock_shared(30796712728556033);
    FOREACH conflict_key IN ARRAY conflict_keys LOOP
      PERFORM pg_advisory_xact_lock(7170419, conflict_key);
    END LOOP;
    PERFORM pg_advisory_lock(30796712728556036);
    SELECT last_value INTO newest FROM revision_numbers;
    PERFORM pg_advisory_xact_lock_shared((x'4D520000'::bigint << 32) + newest);
    PERFORM pg_advisory_unlock(30796712728556036);
  END IF;
  -- LEADER in store/session.py.
  RETURN (SELECT value FROM settings WHERE name = 'leader');
END $$;

-- Records the transaction and the newest number, notifies the other processes, and shares the lock of ending.
CREATE OR REPLACE FUNCTION end_writing(process text, number bigint, at bigint, payloads text[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  payload text;
  newest bigint;
BEGIN
  SELECT last_value INTO newest FROM revision_numbers;
  UPDATE processes SET last_group = number, stored_at = at, last_revision = newest WHERE process_id = process;
  IF NOT FOUND THEN
    INSERT INTO processes (process_id, last_group, stored_at, last_revision) VALUES (process, number, at, newest);
  END IF;
  FOREACH payload IN ARRAY payloads LOOP
    PERFORM pg_notify('mirror', payload);
  END LOOP;
  PERFORM pg_advisory_xact_lock_shared(30796712728556037);
END $$;
