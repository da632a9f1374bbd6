"""Reading a history as it arrives: where it breaks off it goes on behind the last row that came. Source: wire.md 10."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from io import BufferedReader
from typing import Annotated, Any, BinaryIO, NamedTuple

import pyarrow as pa
from pydantic import Discriminator, TypeAdapter

from mirror_sdk._protocol.answer_body import announced_bytes
from mirror_sdk._protocol.operation import Operation, content_type, elsewhere
from mirror_sdk.errors import APIError, CallTimeout, ConnectionFailed, UnexpectedAnswer
from mirror_sdk.history.contract import COLUMNS, RowChecker, require_columns
from mirror_sdk.history.request import HistoryRequest
from mirror_sdk.progress import ProgressBar
from mirror_sdk.snapshot.arriving import Bounded, Lines, Messages
from mirror_sdk.snapshot.reading import of_older_service
from mirror_sdk.tables.history import history_of_batch
from mirror_sdk.wire.history import AFTER_KEY, HistoryCursor, HistoryEnd, HistoryRow
from mirror_sdk.wire.model import write_timestamp
from mirror_sdk.wire.snapshot import ARROW, END_KEY, NDJSON

_LINES_AT_A_TIME = 2000
_LINE: TypeAdapter[HistoryRow | HistoryCursor | HistoryEnd] = TypeAdapter(
    Annotated[HistoryRow | HistoryCursor | HistoryEnd, Discriminator("object")]
)
_GOES_ON = "the history goes on after its end"
_CURE = "take a part of it with begin=, end=, paths= or devices=, or"


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryOutcome:
    """What a history gave beside its rows.

    Attributes:
        taken_at: What was known then is shown, by the service's clock; ``None`` where nothing was asked.
        oldest_at: From when on the service has kept everything.
        row_count: How many rows there were.
    """

    taken_at: str | None
    oldest_at: str | None
    row_count: int


def basis(request: HistoryRequest, told: HistoryOutcome) -> dict[str, object]:
    """What a table is based on, for ``attrs["mirror"]``."""
    return {
        "taken_at": told.taken_at,
        "server": request.server,
        "begin": None if request.begin is None else write_timestamp(request.begin),
        "end": None if request.end is None else write_timestamp(request.end),
        "oldest_at": told.oldest_at,
    }


class _RowPart(NamedTuple):
    """Some rows, and what goes on behind them; ``None`` where that is not told."""

    batch: pa.RecordBatch
    after: str | None


class HistoryReader:
    """Reads the answers to a request, one after another: a client sends :attr:`next_operation` until there is none.

    Args:
        request: What is asked for.
        keep: Takes tables of rows, in order.
        max_bytes: How many bytes all answers may have together after decompression.
        bar: Is told of the rows.
        raw: Whether the payloads are a column too.
    """

    def __init__(
        self,
        request: HistoryRequest,
        keep: Callable[[pa.Table], object],
        max_bytes: int,
        bar: ProgressBar,
        *,
        raw: bool = False,
    ) -> None:
        self._keep = keep
        self._bounded = Bounded(max_bytes, "history", _CURE)
        self._bar = bar
        self._raw = raw
        self._form = ARROW
        self._parts = request.parts()
        self._left = request.limit
        self._told: HistoryEnd | None = None
        self._row_count = 0
        self._part_number = 0
        self._next_part()

    @property
    def next_operation(self) -> Operation[None] | None:
        """What is to be sent now; :meth:`read` reads its answer. ``None`` when all has come."""
        if self._request is None or self._left == 0:
            return None
        self._asked_at_row = self._row_count
        return self._request.operation(self._form, self._after, self._left)

    @property
    def told(self) -> HistoryOutcome:
        """What was told beside the rows."""
        end = self._told
        return HistoryOutcome(
            taken_at=None if end is None else write_timestamp(end.taken_at),
            oldest_at=None if end is None else write_timestamp(end.oldest_at),
            row_count=self._row_count,
        )

    def read(self, headers: Mapping[str, str], body: BufferedReader[Any]) -> None:
        """Read an answer to its end, and have its rows kept as they arrive.

        Raises:
            ConnectionFailed: It broke off.
            UnexpectedAnswer: It is no history, is damaged, has rows that were not asked for, or too much.
        """
        self._bounded.require(announced_bytes(headers))
        read_parts = {ARROW: self._arrow_parts, NDJSON: self._ndjson_parts}.get(content_type(headers))
        if read_parts is None:
            raise UnexpectedAnswer(f"the answer is no history{elsewhere(headers)}")
        end: HistoryEnd | None = None
        for part in read_parts(body):
            if end is not None:
                raise UnexpectedAnswer(_GOES_ON)
            if isinstance(part, HistoryEnd):
                end = part
            else:
                self._take(part)
        if end is None:
            raise ConnectionFailed(f"the history broke off after {self._row_count} rows; take it again")
        # To the very end, so that the connection can be used again.
        if body.read(1):
            raise UnexpectedAnswer(_GOES_ON)
        self._finish(end)

    def cut(self, failure: ConnectionFailed) -> None:
        """Go on behind the last row that came.

        Raises:
            ConnectionFailed: The failure itself, where that is not possible: there is no time left, nothing came since
                the last one, or the service does not tell what goes on there.
        """
        is_further = self._row_count > self._asked_at_row
        if isinstance(failure, CallTimeout) or not is_further or not self._can_go_on:
            raise failure

    def refused(self, refusal: APIError) -> None:
        """Ask for another form, where the service has not the first one.

        Raises:
            APIError: The refusal itself, where that would not help.
            NoHistory: The service knows nothing of a history.
        """
        if refusal.status == 406 and self._form == ARROW:
            self._form = NDJSON
            return
        raise of_older_service(refusal) from refusal

    def _next_part(self) -> None:
        self._request = next(self._parts, None)
        self._part_number += 1
        self._after: str | None = None
        self._can_go_on = True
        if self._request is not None:
            self._rows = RowChecker(self._request)

    def _take(self, part: _RowPart) -> None:
        if not part.batch.num_rows:
            return
        if self._left is not None and part.batch.num_rows > self._left:
            raise UnexpectedAnswer("the history has more rows than were asked for")
        with self._bounded.as_unexpected():
            table = self._table_of(self._rows.checked(part.batch))
        self._keep(table)
        self._row_count += part.batch.num_rows
        self._left = None if self._left is None else self._left - part.batch.num_rows
        self._after, self._can_go_on = part.after, part.after is not None
        self._bar.update(part.batch.num_rows)

    def _table_of(self, batch: pa.RecordBatch) -> pa.Table:
        if self._part_number > 1:
            # What happened to the service itself stood in the first part already.
            batch = batch.filter(batch.column("device_id").is_valid())
        return history_of_batch(batch, raw=self._raw)

    def _finish(self, end: HistoryEnd) -> None:
        if end.row_count != self._row_count - self._asked_at_row:
            raise UnexpectedAnswer(
                f"the history has {self._row_count - self._asked_at_row} rows and tells of {end.row_count}"
            )
        self._told = self._told or end
        if end.after is None:
            self._next_part()
        elif end.row_count == 0:
            raise UnexpectedAnswer("the history has a page without rows and says that there is more")
        else:
            self._after, self._can_go_on = end.after, True

    def _arrow_parts(self, body: BinaryIO) -> Iterator[_RowPart | HistoryEnd]:
        """Each batch, and the end."""
        messages = Messages(body, self._bounded)
        try:
            with self._bounded.as_unexpected(), closing(messages), pa.ipc.open_stream(messages) as stream:
                require_columns(stream.schema)
                while True:
                    try:
                        batch, metadata = stream.read_next_batch_with_custom_metadata()
                    except StopIteration:
                        return
                    told = metadata or {}
                    after = told.get(AFTER_KEY)
                    yield _RowPart(batch, None if after is None else after.decode())
                    if END_KEY in told:
                        yield HistoryEnd.model_validate_json(told[END_KEY])
        except UnexpectedAnswer:
            if not messages.is_cut:
                raise

    def _ndjson_parts(self, body: BinaryIO) -> Iterator[_RowPart | HistoryEnd]:
        """The rows up to each cursor, and the end; what stands behind the last cursor of a cut answer comes again."""
        rows: list[HistoryRow] = []
        with self._bounded.as_unexpected():
            for some in Lines(body, self._bounded).some_at_a_time(_LINES_AT_A_TIME):
                for line in map(_LINE.validate_json, some):
                    if isinstance(line, HistoryRow):
                        rows.append(line)
                        continue
                    yield _RowPart(_batch_of(rows), line.after)
                    rows = []
                    if isinstance(line, HistoryEnd):
                        yield line


def _batch_of(rows: list[HistoryRow]) -> pa.RecordBatch:
    columns = {field.name: pa.array([getattr(row, field.name) for row in rows], field.type) for field in COLUMNS}
    return pa.RecordBatch.from_pydict(columns, schema=COLUMNS)
