-- The states of the simulated devices.

CREATE TABLE simulated_devices (
  device_id TEXT NOT NULL PRIMARY KEY,
  document TEXT NOT NULL
);
