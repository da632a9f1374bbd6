-- What is known of devices beyond the core: descriptions, custom attributes, saved queries, device events.

CREATE TABLE device_attributes (
  device_id TEXT NOT NULL REFERENCES devices ON DELETE CASCADE,
  name TEXT NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY (device_id, name)
);

CREATE TABLE device_descriptions (
  device_id TEXT NOT NULL PRIMARY KEY REFERENCES devices ON DELETE CASCADE,
  name TEXT,
  description TEXT,
  updated_at BIGINT NOT NULL
);

CREATE TABLE device_events (
  revision INTEGER NOT NULL PRIMARY KEY,
  device_id TEXT NOT NULL REFERENCES devices ON DELETE CASCADE,
  kind SMALLINT NOT NULL,
  at BIGINT NOT NULL,
  state_change SMALLINT NOT NULL
);

CREATE TABLE device_queries (
  query_id TEXT NOT NULL PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  query TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL
);
CREATE INDEX device_events_by_device ON device_events (device_id, revision);
CREATE INDEX device_events_by_time ON device_events (at);
