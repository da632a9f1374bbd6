-- The number of published values of each device, and when the last one was reported, in milliseconds since 1970.

CREATE TABLE sample_counts (
  device_id TEXT PRIMARY KEY,
  published BIGINT NOT NULL,
  published_at BIGINT NOT NULL
);
