-- The newest schema of a SQLite file, made from the migrations beside it by
--     python -m mirror_server.store.migrate
-- which is to be run again after any change of a migration.
CREATE TABLE alembic_version_directory (
  version_num VARCHAR(32) NOT NULL,
  CONSTRAINT alembic_version_directory_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version_directory" VALUES('0001');
CREATE TABLE device_attributes (
  device_id TEXT NOT NULL,
  name TEXT NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY (device_id, name),
  FOREIGN KEY(device_id) REFERENCES devices (device_id) ON DELETE CASCADE
);
CREATE TABLE device_descriptions (
  device_id TEXT NOT NULL,
  name TEXT,
  description TEXT,
  updated_at BIGINT NOT NULL,
  PRIMARY KEY (device_id),
  FOREIGN KEY(device_id) REFERENCES devices (device_id) ON DELETE CASCADE
);
CREATE TABLE device_events (
  revision INTEGER NOT NULL,
  device_id TEXT NOT NULL,
  kind SMALLINT NOT NULL,
  at BIGINT NOT NULL,
  state_change SMALLINT NOT NULL,
  PRIMARY KEY (revision),
  FOREIGN KEY(device_id) REFERENCES devices (device_id) ON DELETE CASCADE
);
CREATE TABLE device_queries (
  query_id TEXT NOT NULL,
  name TEXT NOT NULL,
  "query" TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  PRIMARY KEY (query_id),
  UNIQUE (name)
);
CREATE INDEX device_events_by_device ON device_events (device_id, revision);
CREATE INDEX device_events_by_time ON device_events (at);
