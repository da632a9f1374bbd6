"""Opens the history: what is asked for, as of one moment."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TypeVar

import pyarrow as pa

from mirror_server.clock import Clock
from mirror_server.core.instants import Instant
from mirror_server.extensions.history.archive import Archive
from mirror_server.extensions.history.as_of import states
from mirror_server.extensions.history.checkpoints import oldest_at, rows_up_to
from mirror_server.extensions.history.filters import RowFilter
from mirror_server.extensions.history.merging import merged
from mirror_server.extensions.history.reading import Reading
from mirror_server.extensions.history.selection import HistorySelection, TooOld
from mirror_server.extensions.history.store import history
from mirror_server.store import devices
from mirror_server.store.database import Database

_ROWS_OF_A_BATCH = 50_000


class OpenPast(ABC):
    """A part of the past as it was known when it was opened, until it is closed.

    Attributes:
        taken_at: When it was opened.
        oldest_at: The oldest instant of which the history knows all.
        revision: Number of the last change that it can show; rows that come later have larger ones.
    """

    def __init__(self, reading: Reading, selection: HistorySelection, taken_at: Instant) -> None:
        self.taken_at = taken_at
        self.oldest_at = oldest_at(reading.session, taken_at)
        # Requests that are under way hold up the first of these, and no row.
        self.revision = max(reading.session.last_revision(), history.newest(reading.session))
        self._reading = reading
        self._selection = selection
        self._held = ExitStack()

    def check_places(self) -> None:
        """See that what is asked for is in no place that is not open.

        Raises:
            StorageFailed: Some of it is in an archive, and it is not said where.
        """
        self._reading.check_places(self._filter(self._reading.base_at).span)

    @abstractmethod
    def batches(self) -> Iterator[pa.RecordBatch]:
        """What is read of it, in order."""

    def on_close(self, resource: ExitStack) -> None:
        """Have this closed with it."""
        self._held = resource

    def close(self) -> None:
        """Let go of the database; harmless when that was done."""
        self._held.close()

    def _filter(self, base_at: Instant | None) -> RowFilter:
        conditions = self._selection.conditions
        ids = sorted(devices.ids(self._reading.session, conditions)) if conditions else None
        return RowFilter(self._selection, ids, self._reading.erased, base_at)


class OpenHistory(OpenPast):
    """Rows of the history, open."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, with the columns of :data:`.columns.SCHEMA`; none of the batches is empty.

        Raises:
            StorageFailed: The database or the archive cannot be read.
        """
        left = self._selection.limit
        for batch in self._merged():
            for begin in range(0, batch.num_rows, _ROWS_OF_A_BATCH):
                some = batch.slice(begin, _ROWS_OF_A_BATCH if left is None else min(left, _ROWS_OF_A_BATCH))
                if left is not None:
                    left -= some.num_rows
                if some.num_rows:
                    yield some
            if left == 0:
                return

    def _merged(self) -> Iterator[pa.RecordBatch]:
        reading, descending = self._reading, self._selection.descending
        wanted = self._filter(reading.base_at)
        sources = [*reading.sources(wanted, descending=descending), reading.tail(wanted)]
        return merged(sources, descending=descending)


class OpenAsOf(OpenPast):
    """The fleet as it was at an instant, open."""

    def __init__(self, reading: Reading, selection: HistorySelection, taken_at: Instant, instant: Instant) -> None:
        super().__init__(reading, selection, taken_at)
        self._instant = instant

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The state, with the columns of :func:`mirror_server.extensions.history.as_of.states`.

        No batch is empty, and all rows of a device are in one.

        Raises:
            StorageFailed: The database or the archive cannot be read.
        """
        return states(rows_up_to(self._reading, self._filter, self._instant), self._instant)


_P = TypeVar("_P", bound=OpenPast)


class HistoryService:
    """Opens the history.

    Args:
        database: Where it is.
        clock: Domain time.
        archive: Where older days of it are; ``None`` for nowhere else.
    """

    def __init__(self, database: Database, clock: Clock, archive: Archive | None = None) -> None:
        self._database = database
        self._clock = clock
        self._archive = archive
        self._readers: set[object] = set()

    def open(self, selection: HistorySelection) -> OpenHistory:
        """The rows of a selection as of now; whoever opens it closes it.

        Raises:
            TooOld: It begins before what is kept.
            StorageFailed: The database cannot be reached.
        """
        return self._open(lambda reading, taken_at: OpenHistory(reading, selection, taken_at), selection.begin)

    def open_as_of(self, selection: HistorySelection, instant: Instant) -> OpenAsOf:
        """The fleet as it was at an instant, as is known now; whoever opens it closes it.

        Args:
            selection: Which devices, by its conditions, and which resources, by its patterns.
            instant: When.

        Raises:
            TooOld: The instant is before what is kept.
            StorageFailed: The database cannot be reached.
        """
        return self._open(lambda reading, taken_at: OpenAsOf(reading, selection, taken_at, instant), instant)

    @contextmanager
    def reading(self) -> Iterator[Reading]:
        """All that there is, as it stands in one transaction."""
        with self._database.read(with_revision=True) as session:
            yield Reading(session, self._database, self._archive)

    def readers(self) -> frozenset[object]:
        """Those that are open."""
        return frozenset(self._readers)

    def _open(self, make: Callable[[Reading, Instant], _P], begin: Instant | None) -> _P:
        with ExitStack() as stack:
            # Before anything is read, so that no row is older than the history says it is, and no file is deleted.
            taken_at = self._clock.now()
            reader = object()
            self._readers.add(reader)
            stack.callback(self._readers.discard, reader)
            opened = make(stack.enter_context(self.reading()), taken_at)
            if begin is not None and begin < opened.oldest_at:
                raise TooOld(opened.oldest_at)
            # Told before the answer begins: after that it could only be cut off.
            opened.check_places()
            opened.on_close(stack.pop_all())
        return opened
