-- Websocket channels.

CREATE TABLE websockets (
  app_id TEXT NOT NULL PRIMARY KEY,
  registration TEXT NOT NULL,
  connection TEXT,
  process_id TEXT,
  used_at BIGINT NOT NULL
);
