-- The tables of the core.

CREATE TABLE access_keys (
  key_id TEXT NOT NULL PRIMARY KEY,
  name TEXT NOT NULL,
  secret_hash BLOB NOT NULL,
  scopes TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  revoked_at BIGINT
);

CREATE TABLE former_secrets (
  key_id TEXT NOT NULL,
  secret_hash BLOB NOT NULL,
  ends_at BIGINT NOT NULL,
  PRIMARY KEY (key_id, secret_hash)
);

CREATE TABLE devices (
  device_id TEXT NOT NULL PRIMARY KEY,
  endpoint_name TEXT NOT NULL UNIQUE,
  endpoint_type TEXT NOT NULL,
  registered SMALLINT NOT NULL,
  queue_mode SMALLINT NOT NULL,
  -- A real device may say that it lives for up to 2^32 - 1 seconds.
  lifetime_seconds INTEGER NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  last_contact_at BIGINT NOT NULL,
  registration_expires_at BIGINT NOT NULL,
  revision BIGINT NOT NULL DEFAULT 0,
  number INTEGER,
  backend TEXT NOT NULL
);
CREATE INDEX devices_expiring ON devices (registered, registration_expires_at);
CREATE UNIQUE INDEX devices_by_number ON devices (number);

CREATE TABLE resources (
  device_id TEXT NOT NULL REFERENCES devices ON DELETE CASCADE,
  path TEXT NOT NULL,
  present SMALLINT NOT NULL,
  resource_type TEXT NOT NULL,
  content_type TEXT NOT NULL,
  observable SMALLINT NOT NULL,
  observing SMALLINT NOT NULL DEFAULT 0,
  subscribed SMALLINT NOT NULL DEFAULT 0,
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
  auto_observed SMALLINT NOT NULL DEFAULT 0,
  changed_at BIGINT,
  desired_app_id TEXT,
  reported_revision BIGINT,
  desired_revision BIGINT,
  acknowledged_at BIGINT,
  acknowledged_by TEXT,
  PRIMARY KEY (device_id, path)
) WITHOUT ROWID;

CREATE TABLE commands (
  -- A number must never be given twice: the mirror knows the newest write by it.
  command_id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  app_id TEXT NOT NULL,
  async_id TEXT NOT NULL,
  device_id TEXT NOT NULL REFERENCES devices ON DELETE CASCADE,
  method TEXT NOT NULL,
  path TEXT NOT NULL,
  query TEXT,
  payload BLOB,
  content_type TEXT,
  accept TEXT,
  requested_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  retries INTEGER NOT NULL,
  attempts INTEGER NOT NULL DEFAULT 0,
  finished_at BIGINT,
  silent SMALLINT NOT NULL DEFAULT 0,
  UNIQUE (app_id, async_id)
);
CREATE INDEX commands_waiting ON commands (device_id, command_id) WHERE finished_at IS NULL;
CREATE INDEX commands_expiring ON commands (expires_at) WHERE finished_at IS NULL;
CREATE INDEX commands_finished ON commands (finished_at) WHERE finished_at IS NOT NULL;

CREATE TABLE presubscriptions (
  app_id TEXT NOT NULL PRIMARY KEY,
  rules TEXT NOT NULL
);

CREATE TABLE subscriptions (
  device_id TEXT NOT NULL REFERENCES devices ON DELETE CASCADE,
  path TEXT NOT NULL,
  app_id TEXT NOT NULL,
  single SMALLINT NOT NULL,
  state TEXT NOT NULL,
  ended_at BIGINT,
  position INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (device_id, path, app_id)
) WITHOUT ROWID;

CREATE TABLE logs (
  app_id TEXT NOT NULL PRIMARY KEY,
  last_seq BIGINT NOT NULL DEFAULT 0,
  position BIGINT NOT NULL DEFAULT 0,
  stored_bytes BIGINT NOT NULL DEFAULT 0,
  polled SMALLINT NOT NULL DEFAULT 0,
  read_seq BIGINT NOT NULL DEFAULT 0
);

CREATE TABLE notifications (
  app_id TEXT NOT NULL,
  seq BIGINT NOT NULL,
  logged_at BIGINT NOT NULL,
  device_id TEXT NOT NULL,
  kind TEXT NOT NULL,
  body BLOB NOT NULL,
  PRIMARY KEY (app_id, seq)
) WITHOUT ROWID;

CREATE TABLE callbacks (
  app_id TEXT NOT NULL PRIMARY KEY,
  registration TEXT NOT NULL,
  registered_at BIGINT NOT NULL,
  last_success_at BIGINT,
  failures BIGINT NOT NULL DEFAULT 0,
  last_error TEXT,
  next_attempt_at BIGINT,
  failing_since BIGINT
);

CREATE TABLE settings (
  name TEXT NOT NULL PRIMARY KEY,
  value TEXT NOT NULL
);

CREATE TABLE revisions (last_revision BIGINT NOT NULL);
INSERT INTO revisions VALUES (0);
