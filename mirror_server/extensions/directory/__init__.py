"""The directory: filters, names, descriptions and custom attributes of devices, saved queries, device events."""

# Read ``service`` first, then ``filters``.

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirror_server.extensions.directory.settings import DirectorySettings
from mirror_server.hooks import extends

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flask import Blueprint

    from mirror_server.server import Services
    from mirror_server.store.backend import Storage
    from mirror_server.store.devices import DeviceRow
    from mirror_server.store.session import Session


@extends
def settings() -> type:
    """Return the settings class for device events."""
    return DirectorySettings


@extends
def storage() -> Storage:
    """Return the tables of the directory."""
    from mirror_server.extensions.directory.store import maintenance
    from mirror_server.store.backend import Storage
    from mirror_server.store.schema import Branch

    return Storage(
        branch=Branch("directory", Path(__file__).parent / "migrations"),
        violations=maintenance.VIOLATIONS,
        erase=maintenance.erase,
        newest_instant=maintenance.newest_instant,
    )


@extends
def build(services: Services) -> Sequence[object]:
    """Build the directory service and the filters."""
    from mirror_server.extensions.directory.filters import DeviceFilters
    from mirror_server.extensions.directory.service import DirectoryService

    chosen = services.settings.of(DirectorySettings)
    service = DirectoryService(services.database, services.clock, services.devices, services.backends, chosen)
    return [service, DeviceFilters(services.extensions)]


@extends
def blueprints() -> list[Blueprint]:
    """Return the routes of the directory."""
    from mirror_server.extensions.directory import device_views, views

    return [device_views.routes, views.routes]


@extends
def describe_devices(session: Session, devices: Sequence[DeviceRow]) -> Mapping[str, Mapping[str, Any]]:
    """Return the names, descriptions and attributes that users have set."""
    from mirror_server.extensions.directory.editable_members import members
    from mirror_server.extensions.directory.store import descriptions

    by_id = descriptions.of_devices(session, [device.device_id for device in devices])
    return {
        device.device_id: members(device, by_id[device.device_id]) for device in devices if device.device_id in by_id
    }
