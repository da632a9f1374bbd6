"""The fleet snapshot, which contains many device objects in their state at one time. Source: wire.md 7."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

from mirror_sdk.wire.snapshot import REVISION_BEYOND_MIRROR
from mirror_server.clock import Clock
from mirror_server.core.errors import ApiError
from mirror_server.core.timestamps import Instant
from mirror_server.extensions.snapshots import store
from mirror_server.extensions.snapshots.store import SnapshotPage
from mirror_server.service.devices import LruCache
from mirror_server.service.slow_reads import Slots
from mirror_server.store import devices, logs
from mirror_server.store.conditions import Condition
from mirror_server.store.database import Database
from mirror_server.store.devices import DeviceRow
from mirror_server.store.session import Row, Session

_DEVICES_PER_PAGE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotSelection:
    """The selection of devices and resources in a snapshot.

    Attributes:
        conditions: The conditions, all of which a device has to meet.
        patterns: The patterns of resource paths. If it is empty, all resources are included.
        changed_after: A revision. Of a device that has not changed after it, only the id is included.
    """

    conditions: tuple[Condition, ...] = ()
    patterns: tuple[str, ...] = ()
    changed_after: int | None = None


@dataclass(frozen=True, slots=True)
class EncodedPage:
    """A page and its encoding, for the cache. The encoding is valid for every equal page."""

    page: SnapshotPage
    content: bytes

    def __len__(self) -> int:
        return len(self.content)


class Snapshot:
    """An open snapshot. Until it is closed, it shows the state of the mirror at the time at which it was opened.

    Attributes:
        selection: The selection of devices and resources.
        app_id: The id of the application that receives the snapshot.
        taken_at: The time at which the snapshot was opened.
        device_count: The number of devices.
        revision: The number of the last change in the snapshot.
        seq: The number of the last entry in the application's log at that time.
    """

    def __init__(self, session: Session, selection: SnapshotSelection, app_id: str, taken_at: Instant) -> None:
        self.taken_at = taken_at
        self.revision = session.last_revision()
        self.device_count = devices.count(session, selection.conditions)
        self.selection = selection
        self.app_id = app_id
        self._session = session
        state = logs.state(session, app_id)
        self.seq = state.last_seq if state else 0
        self._resources = ExitStack()

    def pages(self, size: int | None = None) -> Iterator[SnapshotPage]:
        """Yield the pages of devices, ordered by id. Equal pages of equal selections have equal content."""
        return store.pages(self._session, self.selection.conditions, size or _DEVICES_PER_PAGE)

    def devices(self, page: SnapshotPage) -> list[DeviceRow]:
        """Return the devices of a page."""
        return store.devices_of(self._session, self.selection.conditions, page)

    def resources(self, page: Sequence[DeviceRow], columns: str) -> Iterator[list[Row]]:
        """Yield the resources of the devices in ``page`` that have changed. See :func:`.store.resources_of`."""
        device_ids = [device.device_id for device in page if self.is_changed(device)]
        return store.resources_of(self._session, columns, device_ids, self.selection.patterns)

    def desired(self, device_ids: Sequence[str]) -> Iterator[list[Row]]:
        """Yield the device id and the :data:`.store.STREAMED_DESIRED_COLUMNS` of all resources with a desired value."""
        return store.resources_of(
            self._session, store.STREAMED_DESIRED_COLUMNS, device_ids, self.selection.patterns, is_desired=True
        )

    def is_changed(self, device: DeviceRow) -> bool:
        """Return whether more than the id of a device has to be sent."""
        return self.selection.changed_after is None or device.revision > self.selection.changed_after

    def on_close(self, resources: ExitStack) -> None:
        """Set the resources that are released when the snapshot is closed."""
        self._resources = resources

    def close(self) -> None:
        """Release the database. Further calls have no effect."""
        self._resources.close()


class SnapshotService:
    """The service that opens snapshots.

    The number of open snapshots is limited, because each uses a connection and prevents cleanup of the database's log.

    Args:
        database: The database.
        clock: The clock of the server.
        slots: The slots for downloads.

    Attributes:
        encoded_pages: A cache of recently encoded pages.
    """

    def __init__(self, database: Database, clock: Clock, slots: Slots) -> None:
        self._database = database
        self._clock = clock
        self.encoded_pages: LruCache[EncodedPage] = LruCache()
        self._slots = slots

    def open(self, app_id: str, selection: SnapshotSelection) -> Snapshot:
        """Return a snapshot of the current state. The caller has to close it.

        Raises:
            ApiError: The revision is larger than the last revision of the mirror (400), or too many snapshots are open
                (429).
        """
        api_error = self._slots.acquire(app_id)
        if api_error is not None:
            raise api_error
        with ExitStack() as stack:
            stack.callback(partial(self._slots.release, app_id))
            # Determined before the first read, so that no value in the snapshot is newer than this time.
            taken_at = self._clock.now()
            session = stack.enter_context(self._database.read(with_revision=True))
            snapshot = Snapshot(session, selection, app_id, taken_at)
            if selection.changed_after is not None and selection.changed_after > snapshot.revision:
                message = (
                    f"{selection.changed_after} is beyond the last change, {snapshot.revision}; read all devices again"
                )
                raise ApiError.of_field("changed_after", message, reason=REVISION_BEYOND_MIRROR)
            snapshot.on_close(stack.pop_all())
        return snapshot
