-- The number of published values of each device.

CREATE TABLE sample_counts (
  device_id TEXT PRIMARY KEY,
  published BIGINT NOT NULL
);
