-- The number of published values.

CREATE TABLE sample_counts (
  published BIGINT NOT NULL
);
INSERT INTO sample_counts VALUES (0);
