"""The history: what happened, for as long as the operator keeps it. It is off until it is switched on.

Without it the server knows the last value alone. To keep what happened in the last thirty days::

    pip install "device-state-mirror[history]"
    mirror-server run --keep-history 30d

``mirror-server demo`` and ``mirror lab`` keep seven days, where that extra is installed.

What is kept
------------

A row for each value that a device told, whether anybody subscribed it or not, and for each write that ended; for each
registration, update, deregistration and lapse; and for each interval in which the service heard nothing, because it was
down or kept no history: a *gap*. So a value that did not change can be told from one that could not be heard. A row
stands where it belongs by the device's own clock where it told the time, and has the time of its receipt too: what came
late is late, not lost. It is written in the transaction that changes the mirror: what the mirror had, the history has.

Not kept are what was subscribed, for how long values were fresh, which failed writes were acknowledged, and what
applications were told.

Read it
-------

Any key with the scope ``read`` may, as with the mirror itself::

    export API_HOST=http://127.0.0.1:8080 DAY="from=2026-11-22T00:00:00Z&to=2026-11-23T00:00:00Z"
    curl -H "Authorization: Bearer $API_KEY" "$API_HOST/v3/device-echo/history?path=/3303/*&$DAY"
    curl -H "Authorization: Bearer $API_KEY" "$API_HOST/v3/device-echo?as_of=2026-11-16T08:00:00Z"

The first one gives rows, the second one the device objects as they were. Both come as lines of JSON, or as an Arrow
stream (``Accept: application/vnd.apache.arrow.stream``), and end with a line that says so: what lacks it was cut off.
In Python they are ``client.history()`` and ``client.as_of()``, in a shell ``mirror history`` and ``mirror as-of``. Of
those, and of snapshots, eight may be under way at once (``--poll-share`` of them for one application). An instant
before what is kept is refused, and the answer names the oldest. Why a write failed is told to the application that
placed it alone.

Privacy
-------

A history of values tells more of people than their last value does: when somebody was at home, rose, cooked. Keep no
more days than somebody asks questions about, and tell those it is about. ``mirror-server erase DEVICE_ID`` erases a
device's history too, and so does the end of a device that was not connected for six months: it is told no more at once,
and a running server deletes it within seconds wherever it is, in files of the archive too. The age of a row counts from
when it was received: a device whose clock is wrong keeps nothing longer. What rows that are gone led to remains, one
value for each resource, for else nobody could say how the fleet was at the oldest instant. Files and database are as
secret as the values in them: whatever the umask, the server makes files that only its own user can read (mode 600, and
700 for folders).

Where it is
-----------

New rows stand in a table of the database. Some 200,000 at a time, and at the end of a day, they are sorted, compressed
and put away in pieces, which takes nothing from devices that report meanwhile. With ``--history-archive FOLDER`` (or a
URL that fsspec opens, as ``s3://bucket/mirror``) days that are over go on to Parquet files::

    FOLDER/day=2026-11-22/devices-MIRROR-RUN-PART-WRITER.parquet

pandas, DuckDB, Dask, Spark and Polars read the folder as it is, with values as the device wrote them: as text in
``value``, and what is no text in ``value_binary``; the service reads table, pieces and files as one. Each
row is in one of them, also where the server is killed while it moves some: files of its own that the database does not
name are left over from that, and are removed. Several mirrors may share a folder. Rows of clocks that are far off are
in ``day=other``. A file never changes: where a device is erased, what is left of it has a name of its own, with another
end, and is there a moment before the old file goes; other programs list the folder again when one is not there any
more. ``backup`` has all that is in the database: copy the folder too, behind it, and both again where a device was
erased in between. A copy of a database that runs beside the first one needs a copy of the folder as well: it goes by
the same name, and would remove what only the first one knows.

Of ten million rows, a day of 10,000 devices with 20 resources that change every half an hour or so, the archive took 52
MB (5.2 bytes a row), and all of them went into an Arrow stream at 1.4 million a second from pieces, at 2.7 million from
files; the fleet as of an instant took about as long as a snapshot (``python tests/benchmarks history``, one core of a
virtual machine).

Where the clock of the system was ahead, what happened meanwhile is at those times: it is in no answer of the present,
and in those of that time when it comes. If all of it was begun or trimmed by then, questions about the present are
refused for an hour, and it begins anew with what the mirror has: until then the clock may be behind, and the history
right. An interval in which no server ran is no gap if the clock says that it did not last.

Switched off, nothing more is written, nothing is told and nothing goes; on again, the time between is a gap. Several
processes on PostgreSQL (``mirror-server help processes``) keep one history, and any of them answers; all need the same
``--keep-history``, and the same archive, at a place that all reach.
"""

# To read it begin with ``recorder``, how it is written, then ``service`` and ``keeper``.

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
    """Keep a history in a demo if the packages for it are installed."""
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
        newest_instant=lambda session: history.state(session).alive_at,
    )


@extends
def check_settings(settings: Settings) -> None:
    """Check the settings before anything is started."""
    settings.of(HistorySettings).check()


@extends
def in_common(settings: Settings) -> str:
    """Require that all processes keep a history, or none."""
    return "" if settings.of(HistorySettings).keep_history_seconds is None else ", with --keep-history"


@extends
def build(services: Services) -> Sequence[object]:
    """Make what writes, maintains and reads it; without a history what says so."""
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
    instant: Instant, conditions: Sequence[Condition], patterns: Sequence[str], form: str, compression: Compression
) -> Response:
    """Return the fleet as of an earlier instant."""
    from mirror_server.extensions.history import views

    return views.snapshot_at(instant, conditions, patterns, form, compression)


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
    """Return its size in one line; ``None`` if it is empty."""
    from mirror_server.extensions.history.store import history

    found = database.query(history.measure)
    return str(found) if found.rows else None
