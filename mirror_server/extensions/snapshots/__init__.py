"""The fleet snapshot: every device object of a selection, all in their state at one time, in one response.

The response is NDJSON or an Arrow stream. It is sent while the server reads it from one consistent state of the
database. The history also uses ``arrow``. Read ``service`` first, then ``views``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirror_server.hooks import extends

if TYPE_CHECKING:
    from flask import Blueprint

    from mirror_server.extensions.snapshots.service import SnapshotService
    from mirror_server.server import Services


@extends
def needs() -> list[str]:
    """Return the package that Arrow streams need."""
    return ["pyarrow"]


@extends
def build(services: Services) -> list[SnapshotService]:
    """Build the service that opens snapshots."""
    from mirror_server.extensions.snapshots.service import SnapshotService

    return [SnapshotService(services.database, services.clock, services.download_slots)]


@extends
def blueprints() -> list[Blueprint]:
    """Return the routes of snapshots and their ranges."""
    from mirror_server.extensions.snapshots.views import routes

    return [routes]
