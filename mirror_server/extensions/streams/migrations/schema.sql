-- The newest schema of a SQLite file, made from the migrations beside it by
--     python -m mirror_server.store.migrate
-- which is to be run again after any change of a migration.
CREATE TABLE alembic_version_streams (
  version_num VARCHAR(32) NOT NULL,
  CONSTRAINT alembic_version_streams_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version_streams" VALUES('0001');
CREATE TABLE websockets (
  app_id TEXT NOT NULL,
  registration TEXT NOT NULL,
  connection TEXT,
  process_id TEXT,
  used_at BIGINT NOT NULL,
  PRIMARY KEY (app_id)
);
