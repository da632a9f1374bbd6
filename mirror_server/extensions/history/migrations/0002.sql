-- Names of the state: compaction, whether the history is enabled, and the heartbeat.

ALTER TABLE history_state RENAME COLUMN sealed_revision TO compacted_revision;
ALTER TABLE history_state RENAME COLUMN is_kept TO is_enabled;
ALTER TABLE history_state RENAME COLUMN begun_revision TO started_revision;
ALTER TABLE history_state RENAME COLUMN alive_at TO heartbeat_at;
