"""A day of history in a database, written by the store and the codec, because storing it is not measured.

Each resource is reported every 29 minutes, plus or minus a second, by a device whose clock has a resolution of one
second. Values are numbers with one decimal that change little, like those of sensors. A fleet that reports at random
times takes twice as many bytes per row, because the times are what remains to be compressed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mirror_server.clock import ManualClock
from mirror_server.extensions.arrow_columns import to_array
from mirror_server.extensions.history.columns import SCHEMA, in_order
from mirror_server.extensions.history.compaction import DAY, ROWS_OF_A_SEGMENT, Compaction, store_segment
from mirror_server.extensions.history.service import HistoryService
from mirror_server.extensions.history.store import history, segments
from mirror_server.store.database import Database
from mirror_server.store.session import Session

REPORTS = 50
"""Reports of each resource in the day."""


def add_day(database: Database, device_ids: Sequence[str], paths: Sequence[str], day_at: int) -> int:
    """Start a history at an instant, store a compacted day with checkpoints in it, and return the number of rows."""
    with database.read(with_revision=True) as session:
        revision = session.last_revision()
    database.write(partial(history.begin, revision=revision))
    sealing, service = Compaction(database), HistoryService(database, ManualClock(day_at))
    sealing.begin(day_at, day_at)
    for rows in _reports(device_ids, paths, day_at, revision + 1):
        database.write(partial(segments.put, new_blocks=store_segment(database, [in_order(rows)])))
        database.write(partial(_seal, revision=rows.column("revision")[-1].as_py()))
        with service.reading() as reading:
            sealing.checkpoint(reading, rows.column("received_at")[-1].value)
    return len(device_ids) * len(paths) * REPORTS


def _seal(session: Session, revision: int) -> None:
    history.compact(session, revision)
    session.run("UPDATE revisions SET last_revision = :revision", revision=revision)


def _reports(device_ids: Sequence[str], paths: Sequence[str], day_at: int, revision: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows in the order of their arrival, one segment at a time."""
    random = np.random.default_rng(0)
    count = len(device_ids) * len(paths)
    value, first_at = np.full(count, 20.0), random.integers(0, DAY // REPORTS - 2000, count)
    order = np.argsort(first_at, kind="stable")
    for report in range(REPORTS):
        value = value + random.normal(0, 0.1, count)
        sent_at = day_at + report * (DAY // REPORTS) + first_at + random.integers(0, 1000, count)
        for begin in range(0, count, ROWS_OF_A_SEGMENT):
            which = order[begin : begin + ROWS_OF_A_SEGMENT]
            device, path = which // len(paths), which % len(paths)
            none = np.zeros(len(which), np.int64)
            columns: dict[str, Any] = {
                "revision": revision + np.arange(len(which)),
                "device_id": _words(device, device_ids),
                "endpoint_name": _words(device, device_ids),
                "path": _words(path, paths),
                "changed_at": sent_at[which] // 1000 * 1000,
                "received_at": np.maximum.accumulate(sent_at[which] + random.integers(20, 300, len(which))),
                "what": _words(none, ["reported"]),
                "origin": _words(none, ["observation"]),
                "value": to_array([b"%.1f" % each for each in value[which].tolist()], pa.binary()),
                "content_type": _words(none, ["text/plain"]),
            }
            revision += len(which)
            arrays = [_column(columns.get(field.name), field, len(which)) for field in SCHEMA]
            yield pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _words(positions: npt.NDArray[Any], words: Sequence[str]) -> pa.Array:
    indices = pa.Array.from_buffers(pa.int32(), len(positions), [None, pa.py_buffer(positions.astype(np.int32))])
    return pa.DictionaryArray.from_arrays(indices, to_array(words, pa.string()))


def _column(values: Any, field: pa.Field, length: int) -> pa.Array:
    if values is None:
        return pa.nulls(length, field.type)
    if isinstance(values, np.ndarray):
        return pa.Array.from_buffers(field.type, length, [None, pa.py_buffer(values.astype(np.int64))])
    return values
