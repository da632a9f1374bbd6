-- The count of what was published.

CREATE TABLE sample_counts (
  published BIGINT NOT NULL
);
INSERT INTO sample_counts VALUES (0);
