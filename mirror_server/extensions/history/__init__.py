"""The history of reported values, completed writes and registrations, for a retention period. Off by default."""

# Start reading with ``recorder``, which writes the rows. Continue with ``service`` and ``maintenance``.

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
    from mirror_server.core.timestamps import Instant
    from mirror_server.server import Services
    from mirror_server.store.backend import Storage, Violation
    from mirror_server.store.conditions import Condition
    from mirror_server.store.database import Database

_DEMO_SECONDS = 7 * 86_400


@extends
def needs() -> list[str]:
    """Return the names of the packages that read and write segments and files."""
    return ["fsspec", "numpy", "pyarrow"]


@extends
def settings() -> type:
    """Return the class of the history settings."""
    return HistorySettings


@extends
def demo_settings() -> dict[str, Any]:
    """Enable the history in a demo, if the packages of the history are installed."""
    return {"keep_history_seconds": _DEMO_SECONDS} if all(map(find_spec, needs())) else {}


@extends
def storage() -> Storage:
    """Return the database tables of the history."""
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
    """Check the settings of the history before the server starts."""
    settings.of(HistorySettings).check()


@extends
def shared_settings(settings: Settings) -> str:
    """Return the setting that must be the same in all processes, which is whether the history is enabled."""
    return "" if settings.of(HistorySettings).keep_history_seconds is None else ", with --keep-history"


@extends
def build(services: Services) -> Sequence[object]:
    """Create the recorder, the maintenance and the queries. If the history is disabled, queries respond with 404."""
    from mirror_server.extensions.history.history_queries import HistoryQueries

    chosen, database, clock = services.settings.of(HistorySettings), services.database, services.clock
    if chosen.keep_history_seconds is None:
        return [HistoryQueries(None, database, clock, services.download_slots)]
    from mirror_server.extensions.history.archive import Archive
    from mirror_server.extensions.history.maintenance import Retention
    from mirror_server.extensions.history.recorder import HistoryRecorder
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
    """Return the routes of the history."""
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
    """Return the snapshot of the fleet at an earlier time."""
    from mirror_server.extensions.history import views

    return views.snapshot_at(instant, conditions, patterns, content_type, compression)


@extends
def erasure(database: Database, device_id: str, settings: Settings) -> Erasure:
    """Return the operation that erases a device from the segments and the archive."""
    from mirror_server.extensions.history.archived_history import ArchivedHistory

    return ArchivedHistory(database, settings.of(HistorySettings).history_archive).erasure(device_id)


@extends
def check(database: Database, settings: Settings) -> Sequence[Violation]:
    """Read all segments and files, and return how they differ from the database."""
    from mirror_server.extensions.history.archived_history import ArchivedHistory

    return ArchivedHistory(database, settings.of(HistorySettings).history_archive).violations()


@extends
def size(database: Database) -> str | None:
    """Return the size of the history in one line, or ``None`` if it is empty."""
    from mirror_server.extensions.history.store import history

    found = database.query(history.measure)
    return str(found) if found.rows else None
