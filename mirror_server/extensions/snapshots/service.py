"""The fleet snapshot: many device objects as of one instant. Source: wire.md 7."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

from mirror_sdk.wire.snapshot import REVISION_BEYOND_MIRROR
from mirror_server.clock import Clock
from mirror_server.core.errors import ApiError
from mirror_server.core.instants import Instant
from mirror_server.extensions.snapshots import store
from mirror_server.extensions.snapshots.store import SnapshotPage
from mirror_server.service.devices import LruCache
from mirror_server.service.long_reads import Slots
from mirror_server.store import devices, logs
from mirror_server.store.conditions import Condition
from mirror_server.store.database import Database
from mirror_server.store.devices import DeviceRow
from mirror_server.store.session import Row, Session

_DEVICES_AT_A_TIME = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotSelection:
    """What a snapshot shows.

    Attributes:
        conditions: Which devices; all that meet every condition.
        patterns: Which of their resources, by path; all without any.
        changed_after: Of devices that have not changed after this revision, only that they are there.
    """

    conditions: tuple[Condition, ...] = ()
    patterns: tuple[str, ...] = ()
    changed_after: int | None = None


@dataclass(frozen=True, slots=True)
class EncodedPage:
    """A page and how it was encoded, for as long as it is the same."""

    page: SnapshotPage
    content: bytes

    def __len__(self) -> int:
        return len(self.content)


class Snapshot:
    """An open snapshot. It sees the mirror as it was when it was opened, until it is closed.

    Attributes:
        selection: What it shows.
        app_id: The application it is shown to.
        taken_at: When it was opened.
        device_count: How many devices it shows.
        revision: Number of the last change it shows.
        seq: Number of the last entry in the application's log that it knows of.
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
        self._held = ExitStack()

    def pages(self, size: int | None = None) -> Iterator[SnapshotPage]:
        """Its devices by id, so many at a time or a thousand; equal pages of equal selections hold the same."""
        return store.pages(self._session, self.selection.conditions, size or _DEVICES_AT_A_TIME)

    def devices(self, page: SnapshotPage) -> list[DeviceRow]:
        """The devices of a page."""
        return store.devices_of(self._session, self.selection.conditions, page)

    def resources(self, some: Sequence[DeviceRow], columns: str) -> Iterator[list[Row]]:
        """The resources of those devices that have changed; see :func:`.store.resources_of`."""
        device_ids = [device.device_id for device in some if self.is_changed(device)]
        return store.resources_of(self._session, columns, device_ids, self.selection.patterns)

    def desired(self, device_ids: Sequence[str]) -> Iterator[list[Row]]:
        """Device id and :data:`.store.STREAMED_DESIRED_COLUMNS` of their resources that have these."""
        return store.resources_of(
            self._session, store.STREAMED_DESIRED_COLUMNS, device_ids, self.selection.patterns, is_desired=True
        )

    def is_changed(self, device: DeviceRow) -> bool:
        """Whether more is to be told of the device than that it is there."""
        return self.selection.changed_after is None or device.revision > self.selection.changed_after

    def on_close(self, resource: ExitStack) -> None:
        """Have this closed with the snapshot."""
        self._held = resource

    def close(self) -> None:
        """Let go of the database; harmless when that was done."""
        self._held.close()


class SnapshotService:
    """Opens snapshots, a few at once: each keeps a connection, and the database from tidying up its log.

    Args:
        database: What is shown.
        clock: Domain time.
        slots: Those of downloads.

    Attributes:
        encoded_pages: What was encoded of them lately.
    """

    def __init__(self, database: Database, clock: Clock, slots: Slots) -> None:
        self._database = database
        self._clock = clock
        self.encoded_pages: LruCache[EncodedPage] = LruCache()
        self._slots = slots

    def open(self, app_id: str, selection: SnapshotSelection) -> Snapshot:
        """A snapshot as of now; whoever opens it closes it.

        Raises:
            ApiError: The mirror never reached the revision (400), or too many snapshots are open (429).
        """
        api_error = self._slots.acquire(app_id)
        if api_error is not None:
            raise api_error
        with ExitStack() as stack:
            stack.callback(partial(self._slots.release, app_id))
            # Before anything is read, so that no value is older than the snapshot says it is.
            taken_at = self._clock.now()
            session = stack.enter_context(self._database.read(with_revision=True))
            snapshot = Snapshot(session, selection, app_id, taken_at)
            if selection.changed_after is not None and selection.changed_after > snapshot.revision:
                message = f"{selection.changed_after} is beyond the last change, {snapshot.revision}; take it all again"
                raise ApiError.of_field("changed_after", message, reason=REVISION_BEYOND_MIRROR)
            snapshot.on_close(stack.pop_all())
        return snapshot
