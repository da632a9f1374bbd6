"""Opens the history as of one moment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pyarrow as pa

from mirror_server.clock import Clock
from mirror_server.core.instants import Instant
from mirror_server.extensions.history.archive import Archive
from mirror_server.extensions.history.as_of import oldest_at, rows_up_to, states
from mirror_server.extensions.history.reading import HistoryTransaction, merged
from mirror_server.extensions.history.selection import HistorySelection, TooOld
from mirror_server.extensions.history.store import history
from mirror_server.store.database import Database


class OpenQuery:
    """Rows of the history, or the fleet as of an instant, as known when it was opened.

    Attributes:
        taken_at: When it was opened.
        oldest_at: The oldest instant of which the history knows everything.
        revision: Number of the last change that it can show; rows that are stored later have larger ones.
        resources: Closed with it.
    """

    def __init__(
        self, reading: HistoryTransaction, selection: HistorySelection, instant: Instant | None, taken_at: Instant
    ) -> None:
        self.taken_at = taken_at
        self.oldest_at = oldest_at(reading.session, taken_at)
        # Requests that are under way hold up the first of these, and no row.
        self.revision = max(reading.session.last_revision(), history.newest(reading.session))
        self._reading = reading
        self._wanted = reading.filter(selection)
        self._descending = selection.descending
        self._instant = instant
        self.resources = ExitStack()
        begin = selection.begin if instant is None else instant
        if begin is not None and begin < self.oldest_at:
            raise TooOld(self.oldest_at)
        # A missing archive is reported now: once the response has started, it could only be cut off.
        reading.files(self._wanted.span)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Return the rows in order, with the columns of :data:`.columns.SCHEMA` or :func:`.as_of.states`.

        No batch is empty. Of the fleet as of an instant, all rows of a device are in one batch.

        Raises:
            StorageFailed: The database or the archive cannot be read.
        """
        reading, wanted, descending = self._reading, self._wanted, self._descending
        if self._instant is not None:
            return states(rows_up_to(reading, wanted, self._instant), self._instant)
        rows = merged([*reading.sources(wanted, descending=descending), reading.tail(wanted)], descending=descending)
        return (batch for batch in rows if batch.num_rows)

    def close(self) -> None:
        """Release the database; calling it again does nothing."""
        self.resources.close()


class HistoryService:
    """Opens the history.

    Args:
        database: Where it is.
        clock: Domain time.
        archive: Where older days are; ``None`` without an archive.
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
        """Open rows, or the fleet as of an instant, as known now; the caller closes it.

        Args:
            selection: Which rows; as of an instant which devices and paths.
            instant: The instant; ``None`` for rows.
            release: Called when it is closed, or cannot be opened.

        Raises:
            TooOld: It begins before the history.
            StorageFailed: The database cannot be reached, or the archive is needed and not open.
        """
        with ExitStack() as stack:
            if release is not None:
                stack.callback(release)
            # Before anything is read, so that no row is older than the history says it is, and no file is deleted.
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
        """Return one object for each part of the past that is open."""
        return frozenset(self._readers)
