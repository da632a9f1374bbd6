"""A sample extension of another package. It publishes and counts reported values."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mirror_server.config import setting
from mirror_server.hooks import extends

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flask import Blueprint

    from mirror_server.server import Services
    from mirror_server.store.backend import Storage
    from mirror_server.store.session import Session


@dataclass(frozen=True, kw_only=True)
class SampleSettings:
    """The settings of the extension."""

    sample_publisher: str | None = setting(
        None, "A function that publishes, as package.module:function.", metavar="NAME"
    )


@extends
def settings() -> type:
    """Return the setting ``--sample-publisher``."""
    return SampleSettings


@extends
def storage() -> Storage:
    """Return the table with the count of each device."""
    from mirror_server.store.backend import Storage
    from mirror_server.store.schema import Branch

    return Storage(branch=Branch("sample", Path(__file__).parent / "migrations"), erase=erase)


def erase(session: Session, device_id: str, _: str | None = None) -> Mapping[str, int]:
    """Delete the count of a device."""
    statement = "DELETE FROM sample_counts WHERE device_id = :device_id"
    return {"sample_counts": session.run(statement, device_id=device_id)}


@extends
def devices_deleted(session: Session, device_ids: Sequence[str]) -> None:
    """Delete the counts of devices that made no contact for months."""
    for device_id in device_ids:
        erase(session, device_id)


@extends
def build(services: Services) -> Sequence[object]:
    """Build the publisher if the setting names one."""
    from pkgutil import resolve_name

    from mirror_sample.publisher import Publisher

    name = services.settings.of(SampleSettings).sample_publisher
    return [] if name is None else [Publisher(services.database, resolve_name(name))]


@extends
def blueprints() -> Sequence[Blueprint]:
    """Return the route ``GET /v3/published-count``."""
    from mirror_sample.views import routes

    return [routes]
