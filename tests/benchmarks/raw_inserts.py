"""The cost of groups of observations in sqlite3 alone: ``executemany`` of the values and of the log entries.

It uses the same tables, the same ``synchronous=FULL``, and one transaction per group. Reads and writes lines of JSON.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import time
from itertools import cycle, islice
from typing import Any

_VALUE = (
    "INSERT INTO resources (device_id, path, present, resource_type, content_type, observable,"
    " reported_value, reported_content_type, reported_origin, reported_at)"
    " VALUES (?, ?, 1, '', 'text/plain', 1, ?, 'text/plain', 'subscription', ?)"
    " ON CONFLICT (device_id, path) DO UPDATE SET reported_value = excluded.reported_value,"
    " reported_content_type = excluded.reported_content_type, reported_origin = excluded.reported_origin,"
    " reported_at = excluded.reported_at"
)
_ENTRY = (
    "INSERT INTO notifications (app_id, seq, logged_at, device_id, kind, body) VALUES (?, ?, ?, ?, 'notifications', ?)"
)


def run(
    connection: sqlite3.Connection, app_id: str, device_ids: list[str], path: str, seconds: float, batch: int
) -> dict[str, Any]:
    names = cycle(device_ids)
    (seq,) = connection.execute("SELECT last_seq FROM logs WHERE app_id = ?", (app_id,)).fetchone()
    began, stored = time.perf_counter(), 0
    while not stored or time.perf_counter() - began < seconds:
        some, at = list(islice(names, batch)), int(time.time() * 1000)
        values = [(name, path, f"{stored % 1000 / 10}".encode(), at) for name in some]
        entries = [(app_id, seq + offset, at, name, _body(name, path, at)) for offset, name in enumerate(some, 1)]
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(_VALUE, values)
        connection.executemany(_ENTRY, entries)
        seq += batch
        connection.execute("UPDATE logs SET last_seq = ? WHERE app_id = ?", (seq, app_id))
        connection.execute("COMMIT")
        stored += batch
    return {"rate": stored / (time.perf_counter() - began)}


def _body(name: str, path: str, at: int) -> bytes:
    """Return a body with the length of a log entry."""
    return (
        f'{{"ep":"{name}","path":"{path}","ct":"text/plain","payload":"MjEuNQ==","max-age":0,"timestamp":{at},'
        f'"original-ep":"device-{name[-6:]}","uid":"00000000-0000-0000-0000-{name[-12:]}"}}'
    ).encode()


def main() -> None:
    connection = sqlite3.connect(sys.argv[1], isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    for line in sys.stdin:
        print(json.dumps(run(connection, **json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
