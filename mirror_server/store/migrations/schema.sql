-- The newest schema of a SQLite file, made from the migrations beside it by
--     python -m mirror_server.store.migrate
-- which is to be run again after any change of a migration.
CREATE TABLE access_keys (
  key_id TEXT NOT NULL,
  name TEXT NOT NULL,
  secret_hash BLOB NOT NULL,
  scopes TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  revoked_at BIGINT,
  PRIMARY KEY (key_id)
);
CREATE TABLE alembic_version (
  version_num VARCHAR(32) NOT NULL,
  CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0001');
CREATE TABLE callbacks (
  app_id TEXT NOT NULL,
  registration TEXT NOT NULL,
  registered_at BIGINT NOT NULL,
  last_success_at BIGINT,
  failures BIGINT DEFAULT '0' NOT NULL,
  last_error TEXT,
  next_attempt_at BIGINT,
  failing_since BIGINT,
  PRIMARY KEY (app_id)
);
CREATE TABLE commands (
  command_id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  app_id TEXT NOT NULL,
  async_id TEXT NOT NULL,
  device_id TEXT NOT NULL,
  method TEXT NOT NULL,
  path TEXT NOT NULL,
  "query" TEXT,
  payload BLOB,
  content_type TEXT,
  accept TEXT,
  requested_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  retries INTEGER NOT NULL,
  attempts INTEGER DEFAULT '0' NOT NULL,
  finished_at BIGINT,
  silent SMALLINT DEFAULT '0' NOT NULL,
  UNIQUE (app_id, async_id),
  FOREIGN KEY(device_id) REFERENCES devices (device_id) ON DELETE CASCADE
);
CREATE TABLE devices (
  device_id TEXT NOT NULL,
  endpoint_name TEXT NOT NULL,
  endpoint_type TEXT NOT NULL,
  registered SMALLINT NOT NULL,
  queue_mode SMALLINT NOT NULL,
  lifetime_seconds INTEGER NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  last_contact_at BIGINT NOT NULL,
  registration_expires_at BIGINT NOT NULL,
  revision BIGINT DEFAULT '0' NOT NULL,
  contact_noted_at BIGINT DEFAULT '0' NOT NULL,
  number INTEGER,
  backend TEXT NOT NULL,
  PRIMARY KEY (device_id),
  UNIQUE (endpoint_name)
);
CREATE TABLE former_secrets (
  key_id TEXT NOT NULL,
  secret_hash BLOB NOT NULL,
  ends_at BIGINT NOT NULL,
  PRIMARY KEY (key_id, secret_hash)
);
CREATE TABLE logs (
  app_id TEXT NOT NULL,
  last_seq BIGINT DEFAULT '0' NOT NULL,
  position BIGINT DEFAULT '0' NOT NULL,
  stored_bytes BIGINT DEFAULT '0' NOT NULL,
  polled SMALLINT DEFAULT '0' NOT NULL,
  read_seq BIGINT DEFAULT '0' NOT NULL,
  PRIMARY KEY (app_id)
);
CREATE TABLE notifications (
  app_id TEXT NOT NULL,
  seq BIGINT NOT NULL,
  logged_at BIGINT NOT NULL,
  device_id TEXT NOT NULL,
  kind TEXT NOT NULL,
  body BLOB NOT NULL,
  PRIMARY KEY (app_id, seq)
)
 WITHOUT ROWID

;
CREATE TABLE presubscriptions (
  app_id TEXT NOT NULL,
  rules TEXT NOT NULL,
  PRIMARY KEY (app_id)
);
CREATE TABLE resources (
  device_id TEXT NOT NULL,
  path TEXT NOT NULL,
  present SMALLINT NOT NULL,
  resource_type TEXT NOT NULL,
  content_type TEXT NOT NULL,
  observable SMALLINT NOT NULL,
  observing SMALLINT DEFAULT '0' NOT NULL,
  subscribed SMALLINT DEFAULT '0' NOT NULL,
  reported_value BLOB,
  reported_content_type TEXT,
  reported_at BIGINT,
  reported_expires_at BIGINT,
  desired_value BLOB,
  desired_status SMALLINT,
  desired_at BIGINT,
  desired_updated_at BIGINT,
  requested_at BIGINT,
  desired_command_id BIGINT,
  desired_content_type TEXT,
  desired_category TEXT,
  reported_origin TEXT,
  subscribed_at BIGINT,
  auto_observed SMALLINT DEFAULT '0' NOT NULL,
  changed_at BIGINT,
  desired_app_id TEXT,
  reported_revision BIGINT,
  desired_revision BIGINT,
  acknowledged_at BIGINT,
  acknowledged_by TEXT,
  PRIMARY KEY (device_id, path),
  FOREIGN KEY(device_id) REFERENCES devices (device_id) ON DELETE CASCADE
)
 WITHOUT ROWID

;
CREATE TABLE revisions (
  last_revision BIGINT NOT NULL
);
INSERT INTO "revisions" VALUES(0);
CREATE TABLE settings (
  name TEXT NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY (name)
);
CREATE TABLE subscriptions (
  device_id TEXT NOT NULL,
  path TEXT NOT NULL,
  app_id TEXT NOT NULL,
  single SMALLINT NOT NULL,
  state TEXT NOT NULL,
  ended_at BIGINT,
  position INTEGER DEFAULT '0' NOT NULL,
  PRIMARY KEY (device_id, path, app_id),
  FOREIGN KEY(device_id) REFERENCES devices (device_id) ON DELETE CASCADE
)
 WITHOUT ROWID

;
CREATE INDEX devices_expiring ON devices (registered, registration_expires_at);
CREATE INDEX devices_by_contact_noted ON devices (contact_noted_at);
CREATE UNIQUE INDEX devices_by_number ON devices (number);
CREATE INDEX commands_waiting ON commands (device_id, command_id) WHERE finished_at IS NULL;
CREATE INDEX commands_expiring ON commands (expires_at) WHERE finished_at IS NULL;
CREATE INDEX commands_finished ON commands (finished_at) WHERE finished_at IS NOT NULL;
DELETE FROM "sqlite_sequence";
