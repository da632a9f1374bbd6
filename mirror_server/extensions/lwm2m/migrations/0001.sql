-- Keys and registrations of real devices.

CREATE TABLE device_keys (
  endpoint_name TEXT NOT NULL PRIMARY KEY,
  identity TEXT NOT NULL,
  secret BLOB NOT NULL,
  created_at BIGINT NOT NULL
);

CREATE TABLE registrations (
  device_id TEXT NOT NULL PRIMARY KEY REFERENCES devices ON DELETE CASCADE,
  location TEXT NOT NULL UNIQUE,
  address TEXT NOT NULL,
  is_secure SMALLINT NOT NULL,
  identity TEXT,
  version TEXT NOT NULL,
  binding TEXT NOT NULL,
  prefix TEXT NOT NULL,
  structured TEXT NOT NULL,
  links_hash BLOB NOT NULL,
  to_discover TEXT NOT NULL,
  tokens TEXT NOT NULL
);
CREATE UNIQUE INDEX device_keys_by_identity ON device_keys (identity);
