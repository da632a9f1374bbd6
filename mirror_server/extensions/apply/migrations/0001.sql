-- How far presubscription rules are applied to the registered devices.

CREATE TABLE applying_rules (
  app_id TEXT NOT NULL PRIMARY KEY REFERENCES presubscriptions ON DELETE CASCADE,
  revision BIGINT NOT NULL,
  rules TEXT NOT NULL,
  device_id TEXT NOT NULL,
  path TEXT NOT NULL
);
