"""The operations of the directory, except for the list of devices. Source: wire.md 6 and 9."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace

from mirror_sdk.wire.device_queries import MAX_QUERIES
from mirror_server.clock import Clock
from mirror_server.core.errors import ApiError
from mirror_server.core.timestamps import Instant, after_seconds
from mirror_server.devices.backends import DeviceBackends
from mirror_server.devices.interface import ConnectionStatus
from mirror_server.extensions.directory.settings import DirectorySettings
from mirror_server.extensions.directory.store import contacts, descriptions, device_events, device_queries
from mirror_server.extensions.directory.store.descriptions import Description
from mirror_server.extensions.directory.store.device_events import DeviceEventRow
from mirror_server.extensions.directory.store.device_queries import DeviceQueryRow
from mirror_server.hooks import extends
from mirror_server.service.devices import DeviceService, DirectoryEntry, require_device
from mirror_server.store.change_listeners import RegistrationChange
from mirror_server.store.conditions import Condition
from mirror_server.store.database import Database
from mirror_server.store.devices import DeviceRow
from mirror_server.store.session import Session

_RANDOM_BYTES = 10
_EVENTS_PER_TRANSACTION = 5000
_ROWS_FOR_CONTACTS = 2000
"""The maximum number of log entries to search for the contacts of a device. This takes about a millisecond."""
_MAX_CONTACTS = 50


@dataclass(frozen=True, slots=True)
class DirectoryDevice:
    """A device in the directory.

    It also has the connection, if the backend knows it, and whether a command would reach the device.
    """

    device: DeviceRow
    connection: ConnectionStatus | None
    is_reachable: bool


class DirectoryService:
    """The service for descriptions, connections and contacts of devices, saved queries and device events.

    All applications share these data.

    Args:
        database: The database.
        clock: The clock of the server.
        devices: The service that reads devices.
        backends: The device backends.
        settings: The settings for the retention of device events.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        devices: DeviceService,
        backends: DeviceBackends,
        settings: DirectorySettings,
    ) -> None:
        self._database = database
        self._clock = clock
        self._devices = devices
        self._backends = backends
        self._settings = settings

    def describe(
        self, device_id: str, change: Callable[[DirectoryEntry, Description], Description]
    ) -> Future[DirectoryEntry]:
        """Change the description of a device. The future raises an ApiError if the device is unknown (404).

        Args:
            device_id: The id of the device.
            change: A function that returns the changed description, or raises an ApiError.
        """

        def work(session: Session) -> DirectoryEntry:
            row, before = require_device(session, device_id), descriptions.of_device(session, device_id)
            (found,) = self._devices.describe(session, [row])
            description = change(found, before)
            if description == before:
                return found
            descriptions.put(session, device_id, replace(description, updated_at=self._clock.now()))
            return self._devices.describe(session, [require_device(session, device_id)])[0]

        return self._database.submit(work)

    def connection(self, device_id: str) -> DirectoryDevice:
        """Return a device and its connection.

        Raises:
            ApiError: The device is unknown (404).
        """
        device = self._devices.device(device_id)
        is_reachable = bool(device.registered) and self._backends.is_reachable(device_id)
        return DirectoryDevice(device, self._backends.describe(device_id), is_reachable)

    def contacts(self, app_id: str, device_id: str) -> list[Instant]:
        """Return the times at which an application was recently notified of values from a device, oldest first.

        Raises:
            ApiError: The device is unknown (404).
        """
        with self._database.read() as session:
            last_contact_at = require_device(session, device_id).last_contact_at
            return contacts.newest(
                session, app_id, device_id, last_contact_at, most_rows=_ROWS_FOR_CONTACTS, most=_MAX_CONTACTS
            )

    def query(self, query_id: str) -> DeviceQueryRow:
        """Return a saved query.

        Raises:
            ApiError: There is no query with this id (404).
        """
        return self._database.query(lambda session: _existing(session, query_id))

    def queries(
        self, conditions: Sequence[Condition], *, after: str | None, descending: bool, limit: int, count: bool
    ) -> tuple[list[DeviceQueryRow], int | None]:
        """Return up to ``limit + 1`` saved queries, and the number of all matching queries if ``count`` is set.

        The extra query shows that there is another page.
        """
        with self._database.read() as session:
            rows = device_queries.page(session, conditions, after=after, descending=descending, limit=limit + 1)
            return rows, device_queries.count(session, conditions) if count else None

    def save_query(self, name: str, query: str) -> Future[DeviceQueryRow]:
        """Save a query.

        The future raises an ApiError if its name already exists, or if there are too many queries (400).
        """

        def work(session: Session) -> DeviceQueryRow:
            _require_free(session, name)
            if device_queries.count(session) >= MAX_QUERIES:
                raise ApiError(400, f"the limit of {MAX_QUERIES} saved queries is reached; delete one first")
            now = self._clock.now()
            row = DeviceQueryRow(_new_id(now), name, query, created_at=now, updated_at=now)
            device_queries.put(session, row)
            return row

        return self._database.submit(work)

    def change_query(self, query_id: str, change: Callable[[DeviceQueryRow], DeviceQueryRow]) -> Future[DeviceQueryRow]:
        """Change a saved query.

        The future raises an ApiError if the query does not exist (404), or if its new name already exists (400).

        Args:
            query_id: The id of the query.
            change: A function that returns the changed query, or raises an ApiError.
        """

        def work(session: Session) -> DeviceQueryRow:
            before = _existing(session, query_id)
            changed = change(before)
            if changed == before:
                return before
            if changed.name != before.name:
                _require_free(session, changed.name)
            changed = replace(changed, updated_at=self._clock.now())
            device_queries.put(session, changed)
            return changed

        return self._database.submit(work)

    def delete_query(self, query_id: str) -> Future[None]:
        """Delete a saved query. The future raises an ApiError if it does not exist (404)."""

        def work(session: Session) -> None:
            if not device_queries.delete(session, query_id):
                raise _unknown_query(query_id)

        return self._database.submit(work)

    def event(self, revision: int) -> DeviceEventRow | None:
        """Return the device event with this number, or ``None`` if it is not stored."""
        return self._database.query(lambda session: device_events.find(session, revision))

    def events(
        self, conditions: Sequence[Condition], *, after: int | None, descending: bool, limit: int, count: bool
    ) -> tuple[list[DeviceEventRow], int | None]:
        """Return up to ``limit + 1`` device events, and the number of all matching events if ``count`` is set.

        The extra event shows that there is another page.
        """
        with self._database.read() as session:
            rows = device_events.page(session, conditions, after=after, descending=descending, limit=limit + 1)
            return rows, device_events.count(session, conditions) if count else None

    @extends
    def registration_changed(self, session: Session, batch: Sequence[RegistrationChange]) -> None:
        """Store a device event for each registration that started, was updated or ended."""
        for each in batch:
            device_id = each.device.device_id
            device_events.add(session, each.revision, device_id, each.kind, each.at, state_change=each.state_change)

    @extends
    def every_hour(self, now: Instant) -> None:
        """Delete the device events that exceed the maximum age or the maximum number."""
        self._drop_events(after_seconds(now, -self._settings.keep_device_events_seconds))

    def _drop_events(self, before: Instant) -> None:
        """Delete expired events in batches, because each transaction delays all others."""

        def work(session: Session) -> None:
            dropped = device_events.drop(
                session, before=before, keep=self._settings.max_device_events, most=_EVENTS_PER_TRANSACTION
            )
            if dropped == _EVENTS_PER_TRANSACTION:
                session.after_commit(lambda: self._drop_events(before))

        self._database.submit_durable(work)


def _existing(session: Session, query_id: str) -> DeviceQueryRow:
    row = device_queries.find(session, query_id)
    if row is None:
        raise _unknown_query(query_id)
    return row


def _require_free(session: Session, name: str) -> None:
    if device_queries.find_by_name(session, name) is not None:
        raise ApiError.of_field("name", f"a query {name!r} already exists; change that one, or choose another name")


def _unknown_query(query_id: str) -> ApiError:
    return ApiError(404, f"no saved query with the id {query_id!r}; GET /v3/device-queries lists all queries")


def _new_id(now: Instant) -> str:
    # The id starts with the time, so that lists by id have the order of creation, as in the public API.
    return f"{now:012x}{secrets.token_hex(_RANDOM_BYTES)}"
