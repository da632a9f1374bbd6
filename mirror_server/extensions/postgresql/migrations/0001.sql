-- Several processes: which of them there are, what they ask of each other, and how they number changes.

CREATE TABLE processes (
  process_id TEXT NOT NULL PRIMARY KEY,
  last_group BIGINT NOT NULL,
  stored_at BIGINT NOT NULL,
  last_revision BIGINT NOT NULL DEFAULT 0
);
-- Nobody has stored anything yet.
INSERT INTO processes (process_id, last_group, stored_at) VALUES ('', 0, 0);

CREATE TABLE relayed_calls (
  call_id TEXT NOT NULL PRIMARY KEY,
  asked_at BIGINT NOT NULL,
  request BLOB NOT NULL,
  answer BLOB
);

-- In place of the core's table: transactions take numbers beside each other, none waiting for another's end.
DROP TABLE revisions;
CREATE SEQUENCE revision_numbers MINVALUE 0;
SELECT setval('revision_numbers', 0);

-- Whoever counts does it as in the table of the core: a row's number is raised, and given back. The rows of a view that
-- is updated are locked, which those of a sequence cannot be; one within it is not. What is raised by how much must be
-- told from one look: OFFSET keeps PostgreSQL from putting the look into each place that names the column.
CREATE VIEW revisions AS SELECT last_revision
  FROM (SELECT (SELECT last_value FROM revision_numbers) AS last_revision OFFSET 0) AS looked_up;

-- Several numbers are taken at once, and none while a transaction notes behind which one its own begin. A row of
-- RETURNING is the one this gives, so what was raised meanwhile is counted. Where it fails, the connection gives back
-- what it holds when it undoes the transaction. The locks are those of decision 20.
CREATE FUNCTION count_revisions() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  given bigint;
BEGIN
  PERFORM pg_advisory_lock(30796712728556036);
  SELECT last_value INTO given FROM revision_numbers;
  NEW.last_revision := setval('revision_numbers', given + NEW.last_revision - OLD.last_revision);
  PERFORM pg_advisory_unlock(30796712728556036);
  RETURN NEW;
END $$;
CREATE TRIGGER count_revisions INSTEAD OF UPDATE ON revisions FOR EACH ROW EXECUTE FUNCTION count_revisions();

-- Locks what is touched, or, where that is NULL, the lock of writing alone; gives who leads. One that is alone need not
-- note where its numbers begin: nothing is stored meanwhile.
CREATE FUNCTION begin_writing(touched int[]) RETURNS text LANGUAGE plpgsql AS $$
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
  -- LEADER in store/session.py.
  RETURN (SELECT value FROM settings WHERE name = 'leader');
END $$;

-- Notes the transaction and how far was counted, tells the other processes, and shares the lock of ending.
CREATE FUNCTION end_writing(process text, number bigint, at bigint, payloads text[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  payload text;
  given bigint;
BEGIN
  SELECT last_value INTO given FROM revision_numbers;
  UPDATE processes SET last_group = number, stored_at = at, last_revision = given WHERE process_id = process;
  IF NOT FOUND THEN
    INSERT INTO processes (process_id, last_group, stored_at, last_revision) VALUES (process, number, at, given);
  END IF;
  FOREACH payload IN ARRAY payloads LOOP
    PERFORM pg_notify('mirror', payload);
  END LOOP;
  PERFORM pg_advisory_xact_lock_shared(30796712728556037);
END $$;
