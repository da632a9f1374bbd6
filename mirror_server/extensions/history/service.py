"""Opens the history as of one moment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pyarrow as pa

from mirror_server.clock import Clock
from mirror_server.core.timestamps import Instant
from mirror_server.extensions.history.archive import Archive
from mirror_server.extensions.history.point_in_time import oldest_at, rows_up_to, states
from mirror_server.extensions.history.row_reader import HistoryTransaction, merged
from mirror_server.extensions.history.selection import HistorySelection, TooOld
from mirror_server.extensions.history.store import history
from mirror_server.store.database import Database


class OpenQuery:
    """Rows of the history, or the fleet as of an instant, as known when it was opened.

    Attributes:
        taken_at: When it was opened.
        oldest_at: The oldest instant for which the history is complete.
        revision: Number of the last change that it can contain. Rows that are stored later have larger revisions.
        resources: Closed with it.
    """

    def __init__(
        self, reading: HistoryTransaction, selection: HistorySelection, instant: Instant | None, taken_at: Instant
    ) -> None:
        self.taken_at = taken_at
        self.oldest_at = oldest_at(reading.session, taken_at)
        # Open transactions delay the first of these numbers, but no row.
        self.revision = max(reading.session.last_revision(), history.newest(reading.session))
        self._reading = reading
        self._filter = reading.filter(selection)
        self._descending = selection.descending
        self._instant = instant
        self.resources = ExitStack()
        begin = selection.begin if instant is None else instant
        if begin is not None and begin < self.oldest_at:
            raise TooOld(self.oldest_at)
        # A missing archive is reported now, because a response that has started could only be cut off.
        reading.files(self._filter.span)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Return the rows in order, with the columns of :data:`.columns.SCHEMA` or :func:`.as_of.states`.

        No batch is empty. For the fleet as of an instant, all rows of a device are in one batch.

        Raises:
            StorageFailed: The database or the archive cannot be read.
        """
        reading, where, descending = self._reading, self._filter, self._descending
        if self._instant is not None:
            return states(rows_up_to(reading, where, self._instant), self._instant)
        rows = merged([*reading.sources(where, descending=descending), reading.tail(where)], descending=descending)
        return (batch for batch in rows if batch.num_rows)

    def close(self) -> None:
        """Release the database; calling it again does nothing."""
        self.resources.close()


class HistoryService:
    """Opens the history.

    Args:
        database: The database of the history.
        clock: Domain time.
        archive: The archive with older days, or ``None`` without an archive.
    """

    def __init__(self, database: Database, clock: Clock, archive: Archive | None = None) -> None:
        self._database = database
        self._clock = clock
        self._archive = archive
        self._readers: set[object] = set()

    def open(
        self,
        selection: HistorySelection,
        instant: Instant | None = None,
        *,
        release: Callable[[], object] | None = None,
    ) -> OpenQuery:
        """Open rows, or the fleet as of an instant, as known now. The caller closes the query.

        Args:
            selection: The rows. For the state at an instant, the devices and paths.
            instant: The instant, or ``None`` for rows.
            release: Called when the query is closed or cannot be opened.

        Raises:
            TooOld: The selection begins before the history.
            StorageFailed: The database cannot be reached, or the archive is needed and not open.
        """
        with ExitStack() as stack:
            if release is not None:
                stack.callback(release)
            # Before the first read, so that no returned row is older than ``oldest_at``, and no file is deleted.
            taken_at = self._clock.now()
            reader = object()
            self._readers.add(reader)
            stack.callback(self._readers.discard, reader)
            opened = OpenQuery(stack.enter_context(self.reading()), selection, instant, taken_at)
            opened.resources = stack.pop_all()
        return opened

    @contextmanager
    def reading(self) -> Iterator[HistoryTransaction]:
        """Read the history in one transaction."""
        with self._database.read(with_revision=True) as session:
            yield HistoryTransaction(session, self._database, self._archive)

    def readers(self) -> frozenset[object]:
        """Return one object for each open query."""
        return frozenset(self._readers)
