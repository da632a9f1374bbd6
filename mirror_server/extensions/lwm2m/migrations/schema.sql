-- The newest schema of a SQLite file, made from the migrations beside it by
--     python -m mirror_server.store.migrate
-- which is to be run again after any change of a migration.
CREATE TABLE alembic_version_lwm2m (
  version_num VARCHAR(32) NOT NULL,
  CONSTRAINT alembic_version_lwm2m_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version_lwm2m" VALUES('0001');
CREATE TABLE device_keys (
  endpoint_name TEXT NOT NULL,
  identity TEXT NOT NULL,
  secret BLOB NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (endpoint_name)
);
CREATE TABLE registrations (
  device_id TEXT NOT NULL,
  location TEXT NOT NULL,
  address TEXT NOT NULL,
  is_secure SMALLINT NOT NULL,
  identity TEXT,
  version TEXT NOT NULL,
  binding TEXT NOT NULL,
  prefix TEXT NOT NULL,
  structured TEXT NOT NULL,
  links_hash BLOB NOT NULL,
  to_discover TEXT NOT NULL,
  tokens TEXT NOT NULL,
  PRIMARY KEY (device_id),
  FOREIGN KEY(device_id) REFERENCES devices (device_id) ON DELETE CASCADE,
  UNIQUE (location)
);
CREATE UNIQUE INDEX device_keys_by_identity ON device_keys (identity);
