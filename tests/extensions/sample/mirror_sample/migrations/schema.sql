-- The newest schema of a SQLite file, made from the migrations beside it by
--     python -m mirror_server.store.migrate
-- which is to be run again after any change of a migration.
CREATE TABLE alembic_version_sample (
  version_num VARCHAR(32) NOT NULL,
  CONSTRAINT alembic_version_sample_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version_sample" VALUES('0001');
CREATE TABLE sample_counts (
  published BIGINT NOT NULL
);
INSERT INTO "sample_counts" VALUES(0);
