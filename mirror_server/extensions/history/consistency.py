"""Checks whether segments and files contain the rows that the database describes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from mirror_server.extensions.history.archive import Archive
from mirror_server.extensions.history.columns import Integers, concat, in_order, numbers
from mirror_server.extensions.history.parquet import bounds
from mirror_server.extensions.history.row_reader import OrderedRows, batches_of, file_chunk, runs_of
from mirror_server.extensions.history.store import history, segments
from mirror_server.extensions.history.store.segments import ROWS, STATE, ArchivedFile
from mirror_server.store.backend import MOST_EXAMPLES, Violation
from mirror_server.store.database import Database

_DAMAGED = "a segment or file of the history cannot be read"
_OTHER = "a segment or file of the history does not match the database"
_TWICE = "a history row is stored twice"


def violations(database: Database, archive: Archive | None) -> Iterator[Violation]:
    """Read all segments and files, and return how they differ from the database.

    Args:
        database: The database of the history.
        archive: The archive, or ``None`` if there is no archive.

    Raises:
        StorageFailed: The database cannot be reached.
    """
    with database.read() as session:
        erased = frozenset(segments.erasures(session))
        compacted_revision = history.state(session).compacted_revision
        states = [chunk for run in runs_of(session, segments.blocks(session, STATE)) for chunk in run]
        chunks = [chunk for run in runs_of(session, segments.blocks(session, ROWS)) for chunk in run]
        named = {file.file_name: file for file in segments.files(session)}
        found: dict[str, list[str]] = {_DAMAGED: [], _OTHER: [], _TWICE: []}
        if archive is None:
            found[_DAMAGED] = [
                f"{name}: the file is in an archive; pass its location with --history-archive" for name in named
            ]
        else:
            chunks += [file_chunk(archive, database, file) for file in named.values()]
        revisions = []
        for chunk in [*states, *chunks]:
            try:
                rows = concat(batches_of(chunk))
            except (OSError, pa.ArrowException) as error:
                if not _has_changed(database, named.get(chunk.name)):
                    found[_DAMAGED].append(f"{chunk.name}: {str(error).partition(chr(10))[0]}")
                continue
            if (
                bounds(rows) != chunk.bounds
                # An erasure may have rewritten the file before the database records this.
                and not any(_has(chunk, device_id) for device_id in erased.union(database.query(segments.erasures)))
                and not _has_changed(database, named.get(chunk.name))
            ):
                found[_OTHER].append(f"{chunk.name}: its rows differ from the rows that were written")
            elif not in_order(rows).equals(rows):
                found[_OTHER].append(f"{chunk.name}: its rows are not in order")
            if chunk not in states:
                revisions.append(numbers(rows.column("revision")))
        found[_TWICE] += _repeated(revisions, compacted_revision)
    yield from (Violation(kind, len(where), where[:MOST_EXAMPLES]) for kind, where in found.items() if where)


def _has_changed(database: Database, file: ArchivedFile | None) -> bool:
    """Return whether a server has trimmed a file, or has erased rows from it, since the file was listed."""
    return file is not None and file not in database.query(segments.files)


def _has(chunk: OrderedRows, device_id: str) -> bool:
    return chunk.bounds.first_device <= device_id <= chunk.bounds.last_device


def _repeated(revisions: Sequence[Integers], compacted_revision: int) -> Iterator[str]:
    """Yield the revisions that are in two segments or files, or both in a segment and in the tail."""
    every = np.concatenate([np.zeros(0, np.int64), *revisions])
    values, counts = np.unique(every, return_counts=True)
    yield from (f"revision {value}" for value in values[counts > 1].tolist())
    yield from (
        f"revision {value} is in a segment although it is not marked as compacted"
        for value in values[values > compacted_revision].tolist()
    )
