-- What happened: the rows themselves, those that are encoded, and the files of the archive.

CREATE TABLE history (
  revision INTEGER NOT NULL PRIMARY KEY,
  received_at BIGINT NOT NULL,
  changed_at BIGINT NOT NULL,
  device_number INTEGER,
  kind SMALLINT NOT NULL,
  path TEXT,
  value BLOB,
  content_type TEXT,
  status SMALLINT,
  category TEXT,
  app_id TEXT,
  requested_at BIGINT,
  until BIGINT
);

CREATE TABLE history_blocks (
  segment_id BIGINT NOT NULL,
  block INTEGER NOT NULL,
  content BLOB NOT NULL,
  PRIMARY KEY (segment_id, block)
);

CREATE TABLE history_erasures (
  device_id TEXT NOT NULL PRIMARY KEY,
  up_to_revision BIGINT NOT NULL
);

CREATE TABLE history_files (
  file_name TEXT NOT NULL PRIMARY KEY,
  day TEXT NOT NULL,
  first_device TEXT NOT NULL,
  last_device TEXT NOT NULL,
  first_revision BIGINT NOT NULL,
  last_revision BIGINT NOT NULL,
  first_changed_at BIGINT NOT NULL,
  last_changed_at BIGINT NOT NULL,
  first_received_at BIGINT NOT NULL,
  last_received_at BIGINT NOT NULL,
  first_requested_at BIGINT,
  row_count BIGINT NOT NULL,
  size_bytes BIGINT NOT NULL
);

CREATE TABLE history_segments (
  segment_id BIGINT NOT NULL,
  block INTEGER NOT NULL,
  kind TEXT NOT NULL,
  state_at BIGINT,
  state_revision BIGINT,
  first_device TEXT NOT NULL,
  last_device TEXT NOT NULL,
  first_revision BIGINT NOT NULL,
  last_revision BIGINT NOT NULL,
  first_changed_at BIGINT NOT NULL,
  last_changed_at BIGINT NOT NULL,
  first_received_at BIGINT NOT NULL,
  last_received_at BIGINT NOT NULL,
  first_requested_at BIGINT,
  row_count BIGINT NOT NULL,
  PRIMARY KEY (segment_id, block)
);

CREATE TABLE history_state (
  sealed_revision BIGINT NOT NULL,
  is_kept SMALLINT NOT NULL,
  begun_revision BIGINT NOT NULL,
  alive_at BIGINT,
  base_at BIGINT
);
INSERT INTO history_state VALUES (0, 0, 0, NULL, NULL);
