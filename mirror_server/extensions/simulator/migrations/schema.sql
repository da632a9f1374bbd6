-- The newest schema of a SQLite file, made from the migrations beside it by
--     python -m mirror_server.store.migrate
-- which is to be run again after any change of a migration.
CREATE TABLE alembic_version_simulator (
  version_num VARCHAR(32) NOT NULL,
  CONSTRAINT alembic_version_simulator_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version_simulator" VALUES('0001');
CREATE TABLE simulated_devices (
  device_id TEXT NOT NULL,
  document TEXT NOT NULL,
  PRIMARY KEY (device_id)
);
