"""The history: reported values, completed writes and registrations, for as long as you choose. Off by default.

Without it the server stores the last value only. To keep a history of thirty days::

    pip install "device-state-mirror[history]"
    mirror-server run --keep-history 30d

``mirror-server demo`` and ``mirror lab`` keep seven days if the extra is installed.

Contents
--------

The history has a row for each of these events:

- A reported value, with or without a subscription.
- The result of a write, successful or failed.
- A registration, update, deregistration or expiry of a device.
- A *gap*: an interval in which the service received nothing, because it was down or kept no history. So you can
  distinguish an unchanged value from one that could not be received.

A row has the time of the device's own clock, if the device sent one, and the time of receipt. So a value that arrives
late is listed at its own time. Rows are written in the transaction that changes the mirror, so the history contains
every value that the mirror had.

It does not contain subscriptions, the freshness of values, acknowledgements of failed writes, or the notifications that
applications received.

Reading
-------

In Python use ``client.history()``, ``client.as_of()`` and ``client.changes()``, in a shell ``mirror history`` and
``mirror as-of``. Any key with the scope ``read`` can read the history. Over HTTP::

    export API_HOST=http://127.0.0.1:8080 DAY="from=2026-11-22T00:00:00Z&to=2026-11-23T00:00:00Z"
    curl -H "Authorization: Bearer $API_KEY" "$API_HOST/v3/device-echo/history?path=/3303/*&$DAY"
    curl -H "Authorization: Bearer $API_KEY" "$API_HOST/v3/device-echo?as_of=2026-11-16T08:00:00Z"

The first call returns rows, the second one the device objects at an earlier instant. Both return lines of JSON, or an
Arrow stream (``Accept: application/vnd.apache.arrow.stream``). The last line marks the end: a response without it is
incomplete.

At most eight of these responses and snapshots can be in progress at once, of which one application may use
``--poll-share``. An instant before the oldest data is rejected, and the error states the oldest instant. The reason of
a failed write is shown only to the application that made the write.

Privacy
-------

A history reveals more about people than the last values do: when they were at home, got up or cooked. Keep no more days
than you need, and inform the people concerned.

``mirror-server erase DEVICE_ID`` also erases the history of a device. So does the deletion of a device that was not
connected for six months. From that moment, no query returns the data. A running server deletes it within seconds from
the database and from files of the archive.

The age of a row counts from its receipt, so a wrong clock of a device does not keep a row longer. When rows are
deleted, the last value of each resource remains. Without it, the state at the oldest instant would be unknown.

Files and database are as confidential as the values in them. The server creates files that only its own user can read
(mode 600, and 700 for folders), regardless of the umask.

Storage and archive
-------------------

New rows are in a table of the database. About every 200,000 rows, and at the end of a day, they are sorted and
compressed into segments. Devices that report meanwhile are not slowed down. With ``--history-archive FOLDER``,
completed days move to Parquet files. A URL that fsspec opens works too, such as ``s3://bucket/mirror``::

    FOLDER/day=2026-11-22/devices-MIRROR-RUN-PART-WRITER.parquet

- pandas, DuckDB, Dask, Spark and Polars read the folder directly. Values are as the device sent them: text in
  ``value``, all others in ``value_binary``. Rows with times far off are in ``day=other``. Several mirrors can share a
  folder.
- The service reads the table, the segments and the files together. Each row is in exactly one of them, even if the
  server is killed while it moves rows. Such a kill can leave files that the database does not list; the server deletes
  them.
- A file never changes. When a device is erased, the rest of the file is written to a new file with another suffix, just
  before the old file is deleted. A program that misses a file should list the folder again.
- ``backup`` contains everything in the database, but not the folder. Copy the folder after the database. If a device
  was erased in between, copy both again.
- A copy of a database that runs next to the original needs its own copy of the folder. Both databases have the same
  mirror name, so the copy would delete files that only the original lists.

These figures are for ten million rows: a day of 10,000 devices with 20 resources that change about every half hour. The
archive took 52 MB (5.2 bytes per row). An Arrow stream of all rows ran at 1.4 million rows per second from segments
and 2.7 million from files. The fleet as of an instant took about as long as a snapshot (``python tests/benchmarks
history``, one core of a virtual machine).

Clock changes, switching off, several processes
-----------------------------------------------

Rows that were written while the system clock was ahead have times in the future. Queries up to the present do not
return them until that time comes.

If the whole history was started or trimmed while the clock was ahead, queries about the present are rejected for an
hour. During this hour the server cannot know whether the clock was ahead then or is slow now. Afterwards the history
restarts with the current state of the mirror.

If the clock was set back during a downtime, so that it shows no elapsed time, the downtime is not recorded as a gap.

If you switch the history off, nothing more is written, returned or deleted. If you switch it on again, the time between
is a gap.

Several processes on PostgreSQL (``mirror-server help processes``) share one history, and any of them serves it. All of
them need the same ``--keep-history``, and the same archive in a location that all can reach.
"""

# Start reading with ``recorder``, which writes the rows, then ``service`` and ``retention``.

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirror_server.extensions.history.settings import HistorySettings
from mirror_server.hooks import Erasure, extends

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flask import Blueprint, Response

    from mirror_sdk.wire.snapshot import Compression
    from mirror_server.config import Settings
    from mirror_server.core.instants import Instant
    from mirror_server.server import Services
    from mirror_server.store.backend import Storage, Violation
    from mirror_server.store.conditions import Condition
    from mirror_server.store.database import Database

_DEMO_SECONDS = 7 * 86_400


@extends
def needs() -> list[str]:
    """Return the packages that read and write segments and files."""
    return ["fsspec", "numpy", "pyarrow"]


@extends
def settings() -> type:
    """Add the settings of the history."""
    return HistorySettings


@extends
def demo_settings() -> dict[str, Any]:
    """Enable the history in a demo if its packages are installed."""
    return {"keep_history_seconds": _DEMO_SECONDS} if all(map(find_spec, needs())) else {}


@extends
def help_topics() -> dict[str, str]:
    """Add this module as a topic of the manual."""
    return {"history": __name__}


@extends
def storage() -> Storage:
    """Add the tables of the history."""
    from mirror_server.extensions.history.store import history
    from mirror_server.store.backend import Storage
    from mirror_server.store.schema import Branch

    return Storage(
        branch=Branch("history", Path(__file__).parent / "migrations"),
        violations=history.VIOLATIONS,
        erase=lambda session, device_id, _: {"history": history.erase(session, [device_id])},
        newest_instant=lambda session: history.state(session).heartbeat_at,
    )


@extends
def check_settings(settings: Settings) -> None:
    """Check the settings before anything is started."""
    settings.of(HistorySettings).check()


@extends
def shared_settings(settings: Settings) -> str:
    """Require that the history is enabled in all processes or in none."""
    return "" if settings.of(HistorySettings).keep_history_seconds is None else ", with --keep-history"


@extends
def build(services: Services) -> Sequence[object]:
    """Create the recorder, the retention and the queries, or without a history only queries that respond with 404."""
    from mirror_server.extensions.history.history_queries import HistoryQueries

    chosen, database, clock = services.settings.of(HistorySettings), services.database, services.clock
    if chosen.keep_history_seconds is None:
        return [HistoryQueries(None, database, clock, services.download_slots)]
    from mirror_server.extensions.history.archive import Archive
    from mirror_server.extensions.history.recorder import HistoryRecorder
    from mirror_server.extensions.history.retention import Retention
    from mirror_server.extensions.history.service import HistoryService

    archive = None if chosen.history_archive is None else Archive(chosen.history_archive)
    history, keep_seconds = HistoryService(database, clock, archive), chosen.keep_history_seconds
    retention = Retention(database=database, clock=clock, service=history, archive=archive, keep_seconds=keep_seconds)
    return [
        HistoryQueries(history, database, clock, services.download_slots),
        retention,
        HistoryRecorder(database, clock),
    ]


@extends
def blueprints() -> list[Blueprint]:
    """Add ``GET /v3/device-echo/history``."""
    from mirror_server.extensions.history.views import routes

    return [routes]


@extends
def snapshot_at(
    instant: Instant,
    conditions: Sequence[Condition],
    patterns: Sequence[str],
    content_type: str,
    compression: Compression,
) -> Response:
    """Return the fleet as of an earlier instant."""
    from mirror_server.extensions.history import views

    return views.snapshot_at(instant, conditions, patterns, content_type, compression)


@extends
def erasure(database: Database, device_id: str, settings: Settings) -> Erasure:
    """Erase a device from segments and the archive."""
    from mirror_server.extensions.history.archived_history import ArchivedHistory

    return ArchivedHistory(database, settings.of(HistorySettings).history_archive).erasure(device_id)


@extends
def check(database: Database, settings: Settings) -> Sequence[Violation]:
    """Read all segments and files, and return what differs from the database."""
    from mirror_server.extensions.history.archived_history import ArchivedHistory

    return ArchivedHistory(database, settings.of(HistorySettings).history_archive).violations()


@extends
def size(database: Database) -> str | None:
    """Return the size of the history in one line; ``None`` if it is empty."""
    from mirror_server.extensions.history.store import history

    found = database.query(history.measure)
    return str(found) if found.rows else None
