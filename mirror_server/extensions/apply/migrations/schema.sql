-- The newest schema of a SQLite file, made from the migrations beside it by
--     python -m mirror_server.store.migrate
-- which is to be run again after any change of a migration.
CREATE TABLE alembic_version_apply (
  version_num VARCHAR(32) NOT NULL,
  CONSTRAINT alembic_version_apply_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version_apply" VALUES('0001');
CREATE TABLE applying_rules (
  app_id TEXT NOT NULL,
  revision BIGINT NOT NULL,
  device_id TEXT NOT NULL,
  path TEXT NOT NULL,
  PRIMARY KEY (app_id),
  FOREIGN KEY(app_id) REFERENCES presubscriptions (app_id) ON DELETE CASCADE
);
