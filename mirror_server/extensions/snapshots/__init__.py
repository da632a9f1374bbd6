"""The fleet snapshot: every device object of a selection, all as of one instant, in one response.

It comes as lines of JSON or as an Arrow stream, while it is read, in one state of the database. The history sends its
past fleet by ``arrow`` too. Begin with ``service``, then ``views``.
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
    """What writes Arrow streams."""
    return ["pyarrow"]


@extends
def build(services: Services) -> list[SnapshotService]:
    """What opens them."""
    from mirror_server.extensions.snapshots.service import SnapshotService

    return [SnapshotService(services.database, services.clock, services.download_slots)]


@extends
def blueprints() -> list[Blueprint]:
    """``GET /v3/device-echo``, and the ranges in which it can be taken."""
    from mirror_server.extensions.snapshots.views import routes

    return [routes]
