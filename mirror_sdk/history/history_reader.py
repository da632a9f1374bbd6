"""A reader of a history while it arrives. After an interruption, it continues after the last row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from io import BufferedReader
from itertools import chain
from typing import Annotated, Any, TypeAlias

import pyarrow as pa
from pydantic import Discriminator, TypeAdapter

from mirror_sdk._protocol.operation_base import Operation
from mirror_sdk.arrow_tables.history import history_of_batch
from mirror_sdk.errors import APIError, CallTimeout, ConnectionFailed, UnexpectedResponse
from mirror_sdk.history.batch_checks import COLUMNS, RowChecker
from mirror_sdk.history.history_request import HistoryRequest
from mirror_sdk.progress import ProgressBar
from mirror_sdk.snapshot.arrow_streams import Batch, SizeLimit, read_batches
from mirror_sdk.snapshot.snapshot_reader import error_without_history
from mirror_sdk.wire.history import AFTER_KEY, HistoryCursor, HistoryEnd, HistoryRow
from mirror_sdk.wire.model import write_timestamp
from mirror_sdk.wire.snapshot import ARROW, END_KEY, NDJSON

_Line: TypeAlias = HistoryRow | HistoryCursor | HistoryEnd
_LINE: TypeAdapter[_Line] = TypeAdapter(Annotated[_Line, Discriminator("object")])
_CURE = "request less with begin=, end=, paths= or devices=, or"


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryResult:
    """The metadata of a history.

    Attributes:
        taken_at: The time of the history by the service's clock, or ``None`` if nothing was requested.
        oldest_at: The start of the stored history.
        row_count: The number of rows.
    """

    taken_at: str | None
    oldest_at: str | None
    row_count: int


def history_metadata(request: HistoryRequest, result: HistoryResult) -> dict[str, object]:
    """Return the metadata of a history table, for ``attrs["mirror"]``."""
    return {
        "taken_at": result.taken_at,
        "server": request.server,
        "begin": None if request.begin is None else write_timestamp(request.begin),
        "end": None if request.end is None else write_timestamp(request.end),
        "oldest_at": result.oldest_at,
    }


class HistoryReader:
    """A reader of the responses to a request. The client sends :attr:`next_operation` until it is ``None``.

    Args:
        request: The request for the history.
        sink: A function that receives tables of rows, in order.
        max_bytes: The maximum size of all responses together after decompression, in bytes.
        bar: The progress bar that displays the number of rows.
        raw: Whether to add a column with the raw payloads.
    """

    def __init__(
        self,
        request: HistoryRequest,
        sink: Callable[[pa.Table], object],
        max_bytes: int,
        bar: ProgressBar,
        *,
        raw: bool = False,
    ) -> None:
        self._sink = sink
        self._limit = SizeLimit(max_bytes, "history", _CURE)
        self._bar = bar
        self._raw = raw
        self._form = ARROW
        self._requests = request.requests()
        self._left = request.limit
        self._first_end: HistoryEnd | None = None
        self._row_count = 0
        self._request_number = 0
        self._next_request()

    @property
    def next_operation(self) -> Operation[None] | None:
        """The next operation, whose response :meth:`read` reads, or ``None`` when everything has been read."""
        if self._request is None or self._left == 0:
            return None
        self._rows_before = self._row_count
        return self._request.operation(self._form, self._after, self._left)

    @property
    def result(self) -> HistoryResult:
        """The metadata of the history. It is complete when everything has been read."""
        end = self._first_end
        return HistoryResult(
            taken_at=None if end is None else write_timestamp(end.taken_at),
            oldest_at=None if end is None else write_timestamp(end.oldest_at),
            row_count=self._row_count,
        )

    def read(self, headers: Mapping[str, str], body: BufferedReader[Any]) -> None:
        """Read a response to its end, and pass its rows on while they arrive.

        Raises:
            ConnectionFailed: The response was cut off.
            UnexpectedResponse: The response is damaged, too large or not a history, or contains rows that were not
                requested.
        """
        end: HistoryEnd | None = None
        for batch, metadata in read_batches(headers, body, self._limit, COLUMNS, _batches_of_lines):
            if self._left is not None and batch.num_rows > self._left:
                raise UnexpectedResponse("the history has more rows than the requested limit")
            with self._limit.checking():
                table = self._table_of(self._rows.checked(batch))
                after = metadata.get(AFTER_KEY, b"").decode() or None
                if END_KEY in metadata:
                    end = HistoryEnd.model_validate_json(metadata[END_KEY])
            if batch.num_rows:
                self._add(table, batch.num_rows, after)
        if end is None:
            raise ConnectionFailed(f"the history was cut off after {self._row_count} rows; request it again")
        self._finish(end)

    def require_progress(self, failure: ConnectionFailed) -> None:
        """Check whether the next request can continue after the last row that arrived.

        Raises:
            ConnectionFailed: The failure itself, if no time is left, no row has arrived since the last failure, or the
                service did not send the position.
        """
        if isinstance(failure, CallTimeout) or self._row_count == self._rows_before or self._after is None:
            raise failure

    def try_other_form(self, error: APIError) -> None:
        """Switch to NDJSON if the service does not support Arrow.

        Raises:
            APIError: The error itself, if NDJSON would not help.
            NoHistory: The service has no history.
        """
        if error.status != 406 or self._form != ARROW:
            raise error_without_history(error) from error
        self._form = NDJSON

    def _next_request(self) -> None:
        self._request = next(self._requests, None)
        self._request_number += 1
        self._after: str | None = None
        if self._request is not None:
            # Each response begins with the gaps of the service, which are out of order after the rows of the previous
            # response. Each request therefore has a checker of its own.
            self._rows = RowChecker(self._request)

    def _add(self, table: pa.Table, row_count: int, after: str | None) -> None:
        self._sink(table)
        self._row_count += row_count
        self._left = None if self._left is None else self._left - row_count
        self._after = after
        self._bar.update(row_count)

    def _table_of(self, batch: pa.RecordBatch) -> pa.Table:
        if self._request_number > 1:
            # The first response already contained the gaps of the service.
            batch = batch.filter(batch.column("device_id").is_valid())
        return history_of_batch(batch, raw=self._raw)

    def _finish(self, end: HistoryEnd) -> None:
        row_count = self._row_count - self._rows_before
        if end.row_count != row_count:
            raise UnexpectedResponse(
                f"the history has {row_count} rows but announces {end.row_count}; request it again"
            )
        # The responses are read one after another. All of them are complete only up to the time of the first one.
        self._first_end = self._first_end or end
        if end.after is None:
            self._next_request()
        elif end.row_count == 0:
            raise UnexpectedResponse("the history has a page without rows and announces more rows")
        else:
            self._after = end.after


def _batches_of_lines(chunks: Iterator[list[bytearray]]) -> Iterator[Batch]:
    """Yield the rows before each cursor. If the response is cut off, rows after the last cursor will be sent again."""
    rows: list[HistoryRow] = []
    for line in chain.from_iterable(chunks):
        entry = _LINE.validate_json(line)
        if isinstance(entry, HistoryRow):
            rows.append(entry)
            continue
        metadata = {AFTER_KEY: entry.after.encode()} if entry.after else {}
        yield _batch_of(rows), metadata | ({END_KEY: bytes(line)} if isinstance(entry, HistoryEnd) else {})
        rows = []


def _batch_of(rows: list[HistoryRow]) -> pa.RecordBatch:
    columns = {field.name: pa.array([getattr(row, field.name) for row in rows], field.type) for field in COLUMNS}
    return pa.RecordBatch.from_pydict(columns, schema=COLUMNS)
