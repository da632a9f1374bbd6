"""The state that rows lead to: the last value told and the last write of each resource, the last of each registration.

What was told last is what happened last, by the devices' own clocks, and of things at one instant the one that came
last. The last write is the one that was placed last; one that waits still is behind all others of its instant.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from mirror_sdk.wire.device_object import DesiredStatus
from mirror_server.extensions.history.columns import Flags, Integers, is_one_of, numbered, numbers, taken

_OF_SERVICE = ("gap",)


def winners(batch: pa.RecordBatch, flags: Flags | None = None) -> pa.RecordBatch:
    """Those rows of a batch, which is in order, that make the state it leads to; of those with a flag, where given.

    The winners of winners and more rows are those of all of them.
    """
    what = batch.column("what")
    known = np.ones(batch.num_rows, np.bool_) if flags is None else flags
    is_write = is_one_of(what, "desired")
    others = np.flatnonzero(known & ~is_write & ~is_one_of(what, *_OF_SERVICE))
    series = numbered(batch, "device_id", "path")
    places = [others[_is_last(series[others])]]
    if is_write.any():
        places.append(_last_writes(batch, series, np.flatnonzero(known & is_write)))
    return taken(batch, np.sort(np.concatenate(places)))


def _last_writes(batch: pa.RecordBatch, series: Integers, places: Integers) -> Integers:
    requested_at, revision = numbers(batch.column("requested_at")), numbers(batch.column("revision"))
    waits = is_waiting(batch)
    order = places[np.lexsort((revision[places], waits[places], requested_at[places], series[places]))]
    return order[_is_last(series[order])]


def is_waiting(batch: pa.RecordBatch) -> Flags:
    """Where a write has not ended."""
    status = batch.column("status").fill_null(int(DesiredStatus.SUCCESS))
    codes = np.frombuffer(status.buffers()[1], np.int8, len(status), status.offset)
    waits: Flags = codes == int(DesiredStatus.PENDING)
    return waits


def _is_last(series: Integers) -> Flags:
    """Where the next row is of another series."""
    flags = np.ones(len(series), np.bool_)
    flags[:-1] = series[1:] != series[:-1]
    return flags
