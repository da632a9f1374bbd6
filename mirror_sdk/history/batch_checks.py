"""Checks of the batches of a history, before anything is computed from them."""

from __future__ import annotations

from datetime import datetime

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mirror_sdk._protocol.operations import require_matches
from mirror_sdk.arrow_tables.columns import INSTANT, STREAM_TYPES
from mirror_sdk.history.history_request import HistoryRequest, up_to_millisecond
from mirror_sdk.snapshot.batch_checks import (
    LAST_REVISION,
    ContractError,
    require_all,
    require_between,
    require_instants,
    require_paths,
)
from mirror_sdk.wire import history
from mirror_sdk.wire.device_object import DesiredStatus
from mirror_sdk.wire.paths import matches_any

COLUMNS = pa.schema([(name, STREAM_TYPES[kind]) for name, kind in history.COLUMNS.items()])
"""The columns that are used. A service may send further columns."""

_WORDS = [name for name, kind in history.COLUMNS.items() if kind == "word"]
_INSTANTS = [name for name, kind in history.COLUMNS.items() if kind == "instant"]
_Column = npt.NDArray[np.int64]


class RowChecker:
    """A check that all rows were requested, and that each occurs once and in order.

    Args:
        request: The request for the history.
    """

    def __init__(self, request: HistoryRequest) -> None:
        self._request = request
        self._sign = -1 if request.newest_first else 1
        self._last: tuple[str, str, int, int] | None = None

    def checked(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return only the used columns of a batch, after checking them.

        Raises:
            ContractError: The batch contradicts itself, lacks a required member, or has rows that were not requested.
            pyarrow.ArrowInvalid: The batch is damaged.
            UnexpectedResponse: The batch contains a device that was not requested.
        """
        batch.validate(full=True)
        batch = batch.select(COLUMNS.names)
        if batch.num_rows:
            _check_columns(batch)
            self._check_requested(batch)
            self._check_order(batch)
        return batch

    def _check_requested(self, batch: pa.RecordBatch) -> None:
        selection = self._request.selection
        require_matches(selection.sent_filters, "id", _occurring(batch.column("device_id")))
        patterns = selection.paths
        paths = _occurring(batch.column("path"))
        require_paths(paths)
        if others := [path for path in paths if not matches_any(patterns, path)]:
            raise ContractError(f"requested {', '.join(patterns or ())}, but the response has {others[0]}")
        # A gap may begin before the interval and end after it, so it is not checked here.
        is_gap = pc.fill_null(pc.equal(batch.column("what").cast(pa.string()), "gap"), False)
        happened = batch.column("changed_at").cast(pa.int64()).filter(pc.invert(is_gap))
        begin, end = _milliseconds(self._request.begin), _milliseconds(self._request.end)
        require_between("changed_at", happened, begin, None if end is None else end - 1)

    def _check_order(self, batch: pa.RecordBatch) -> None:
        """Check that each row is after the previous one, which may be the last row of the previous batch."""
        device_id, path, changed_at, revision = self._last or (None, None, None, None)
        columns = (
            _ranks(batch.column("device_id"), device_id),
            _ranks(batch.column("path"), path),
            _with_first(batch.column("changed_at").cast(pa.int64()).to_numpy(), changed_at),
            _with_first(batch.column("revision").to_numpy(), revision),
        )
        is_after = np.zeros(len(columns[0]) - 1, np.bool_)
        is_same = ~is_after
        # The first column in which two rows differ determines their order.
        for column in columns:
            difference = self._sign * np.diff(column)
            is_after |= is_same & (difference > 0)
            is_same &= difference == 0
        if not is_after.all():
            raise ContractError("a row was sent twice or out of order")
        last = batch.slice(batch.num_rows - 1).to_pylist()[0]
        self._last = (last["device_id"] or "", last["path"] or "", int(columns[2][-1]), last["revision"])


def _check_columns(batch: pa.RecordBatch) -> None:
    for name in ("changed_at", "what", "revision"):
        require_all(name, batch.column(name))
    for name in _WORDS:
        require_all(name, batch.column(name).dictionary)
    for name in _INSTANTS:
        require_instants(name, batch.column(name))
    require_between("status", batch.column("status"), min(DesiredStatus), max(DesiredStatus))
    require_between("revision", batch.column("revision"), 0, LAST_REVISION)
    has_value = batch.column("value").is_valid()
    require_all("path", batch.column("path").filter(has_value))


def _occurring(column: pa.DictionaryArray) -> list[str]:
    """Return the distinct strings that occur in a column."""
    found: list[str] = column.dictionary.take(column.indices.unique().drop_null()).to_pylist()
    return found


def _ranks(column: pa.DictionaryArray, before: str | None) -> _Column:
    """Return the sort order of strings, with the previous row's string first. Null sorts like an empty string."""
    words = column.dictionary.to_pylist()
    rank_of = {word: rank for rank, word in enumerate(sorted({"", before or "", *words}))}
    ranks = np.array([rank_of[word] for word in [*words, ""]], np.int64)
    codes = column.indices.fill_null(len(words)).to_numpy()
    return _with_first(ranks[codes], None if before is None else rank_of[before])


def _with_first(column: _Column, first: int | None) -> _Column:
    return column if first is None else np.concatenate([np.array([first], np.int64), column])


def _milliseconds(instant: datetime | None) -> int | None:
    return None if instant is None else int(pa.scalar(up_to_millisecond(instant), INSTANT).value)
