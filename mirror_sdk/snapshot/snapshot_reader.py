"""A reader that processes a snapshot while it arrives. It rejects a response that is cut off or damaged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import BufferedReader
from typing import Annotated, Any, Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Discriminator, TypeAdapter

from mirror_sdk._protocol.operation_base import elsewhere
from mirror_sdk._protocol.operations import require_matches
from mirror_sdk._warnings import warn
from mirror_sdk.arrow_tables.device_batches import concatenated, state_of_batch
from mirror_sdk.errors import (
    APIError,
    BeforeHistory,
    ConnectionFailed,
    NoHistory,
    SnapshotWarning,
    UnexpectedResponse,
)
from mirror_sdk.progress import progress_bar
from mirror_sdk.snapshot.arrow_streams import Batch, SizeLimit, read_batches
from mirror_sdk.snapshot.batch_checks import COLUMNS, ContractError, checked
from mirror_sdk.snapshot.snapshot_request import SnapshotRequest
from mirror_sdk.wire.device_object import Desired, DeviceObjectBody, Reported
from mirror_sdk.wire.errors import ErrorBody
from mirror_sdk.wire.model import write_timestamp
from mirror_sdk.wire.paths import matches_any
from mirror_sdk.wire.routes import TOTAL_HEADER
from mirror_sdk.wire.snapshot import ARROW, END_KEY, NDJSON, SnapshotEnd, UnchangedDevice, streamed_columns

FIRST_FORM = ARROW
_Entry: TypeAlias = DeviceObjectBody | UnchangedDevice | SnapshotEnd
_ENTRY: TypeAdapter[_Entry] = TypeAdapter(Annotated[_Entry, Discriminator("object")])
_MAX_TOTAL_DIGITS = 18


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotResult:
    """The metadata of a snapshot.

    Attributes:
        taken_at: The time of the snapshot, by the service's clock. If devices were fetched one by one, it is the
            earliest time of their reads, or ``None`` if there are no devices.
        device_count: The number of devices.
        revision: The number of the last change of the mirror; ``None`` if devices were fetched one by one.
        seq: The number of the last entry in the application's notification log.
        unchanged: The ids of the devices that have not changed.
        missing: The ids of the requested devices that do not exist.
    """

    taken_at: str | None
    device_count: int
    revision: int | None = None
    seq: int | None = None
    unchanged: frozenset[str] = frozenset()
    missing: tuple[str, ...] = ()


TableSink: TypeAlias = Callable[[pa.Table], object]
"""A function that accepts tables of batches of devices, in the order of the device ids."""


@dataclass(slots=True)
class _DeviceReader:
    """A builder of tables from batches of devices, which also counts the devices."""

    request: SnapshotRequest
    unchanged: set[str] = field(default_factory=set)
    missing: set[str] = field(default_factory=set)
    received: int = 0
    selected_count: int = 0
    last_id: str = ""

    def table_of(self, batch: pa.RecordBatch) -> pa.Table:
        """Check a batch and return the rows of the selected devices.

        Raises:
            ContractError: The batch violates the interface, or has rows that were not requested.
            pyarrow.ArrowInvalid: The batch is damaged.
            UnexpectedResponse: A device was not requested.
        """
        request, selection = self.request, self.request.selection
        batch = checked(batch, may_be_unchanged=request.revision is not None, is_past=request.as_of is not None)
        self._check_order(batch.column("device_id"))
        if selection.sent_filters:
            require_matches(selection.sent_filters, "id", batch.column("device_id").to_pylist())
            require_matches(selection.sent_filters, "endpoint_name", batch.column("endpoint_name").to_pylist())
        if selection.sent_paths:
            _require_paths_match(selection.sent_paths, batch)
        # The service announces the number of all devices that it sends, including those that are omitted below.
        self.received += batch.num_rows
        if selection.device_ids is not None:
            batch = batch.filter(pc.is_in(batch.column("device_id"), pa.array(selection.device_ids, pa.string())))
        self.selected_count += batch.num_rows
        if self.missing:
            self.missing.difference_update(batch.column("device_id").to_pylist())
        if batch.column("resources").null_count:
            is_unchanged = batch.column("resources").is_null()
            self.unchanged.update(batch.column("device_id").filter(is_unchanged).to_pylist())
        if not len(batch.column("resources").flatten()):
            return concatenated([], raw=request.raw)
        return state_of_batch(batch, paths=selection.paths, raw=request.raw)

    def _check_order(self, device_ids: pa.StringArray) -> None:
        """Check that each device occurs only once, by checking that the devices are sorted by id."""
        ids = pa.concat_arrays([pa.array([self.last_id]), device_ids])
        # Arrow compares the bytes in UTF-8, which have the same order as the characters.
        last = pc.index(pc.less(ids[:-1], ids[1:]), value=False).as_py()
        if last >= 0:
            raise ContractError(
                f"device {ids[last + 1].as_py()!r} follows device {ids[last].as_py()!r}, so the server sent a device"
                " twice or out of order"
            )
        self.last_id = ids[-1].as_py()


def read_snapshot(
    request: SnapshotRequest, sink: TableSink, max_bytes: int, headers: Mapping[str, str], body: BufferedReader[Any]
) -> SnapshotResult:
    """Read a response to its end and pass its rows to the sink while they arrive.

    Raises:
        ConnectionFailed: The response was cut off, so rows are missing.
        UnexpectedResponse: The response is damaged or is not a snapshot, it announces another number of devices, or it
            is larger than ``max_bytes`` after decompression.
    """
    limit = SizeLimit(max_bytes)
    read = _DeviceReader(request)
    if request.selection.names_devices:
        read.missing.update(request.selection.device_ids or ())
    batches = read_batches(headers, body, limit, COLUMNS, _batches_of_lines)
    total = _total_of(headers)
    if total is None and not body.peek(1):
        raise UnexpectedResponse(f"the snapshot is empty{elsewhere(headers)}")
    end: SnapshotEnd | None = None
    with progress_bar(total or 0, "devices") as bar:
        for batch, metadata in batches:
            with limit.checking():
                table = read.table_of(batch)
                if END_KEY in metadata:
                    end = SnapshotEnd.model_validate_json(metadata[END_KEY])
            sink(table)
            bar.update(batch.num_rows)
    if end is None:
        raise ConnectionFailed(
            f"the snapshot was cut off after {read.received} of {'all' if total is None else total} devices; request"
            " it again"
        )
    _check_end(request, end)
    for announced in (end.device_count, total):
        if announced is not None and announced != read.received:
            raise UnexpectedResponse(
                f"the snapshot has {read.received} devices but announces {announced}; request it again"
            )
    with limit.checking():
        taken_at = write_timestamp(end.taken_at)
    return SnapshotResult(
        taken_at=taken_at,
        device_count=read.selected_count,
        revision=end.revision,
        seq=end.seq,
        unchanged=frozenset(read.unchanged),
        missing=tuple(sorted(read.missing)),
    )


def _check_end(request: SnapshotRequest, end: SnapshotEnd) -> None:
    if request.revision is not None and (end.revision is None or end.revision < request.revision):
        raise UnexpectedResponse(
            f"requested the changes since revision {request.revision}, but the snapshot has revision {end.revision}"
        )
    # A snapshot of the past has no revision, because no refresh can start from it.
    if request.as_of is not None and end.revision is not None:
        raise UnexpectedResponse(
            "requested the state at an earlier instant, but the snapshot has the current one: this version of the"
            " service has no history"
        )


def _total_of(headers: Mapping[str, str]) -> int | None:
    """Return the announced number of devices, or ``None`` if there is no such header."""
    total = headers.get(TOTAL_HEADER, "")
    return int(total) if total.isdecimal() and len(total) <= _MAX_TOTAL_DIGITS else None


def _require_paths_match(patterns: Sequence[str], batch: pa.RecordBatch) -> None:
    paths = batch.column("resources").flatten().field("path")
    for path in paths.dictionary.take(pc.unique(paths.indices)).to_pylist():
        if not matches_any(patterns, path):
            raise ContractError(f"requested {', '.join(patterns)}, but the response has {path}")


def _batches_of_lines(chunks: Iterator[list[bytearray]]) -> Iterator[Batch]:
    for lines in chunks:
        rows: list[dict[str, object]] = []
        for line in lines:
            entry = _ENTRY.validate_json(line)
            if isinstance(entry, SnapshotEnd):
                yield pa.RecordBatch.from_pylist(rows, schema=COLUMNS), {END_KEY: bytes(line)}
                rows = []
            else:
                rows.append(_row_of(entry))
        if rows:
            yield pa.RecordBatch.from_pylist(rows, schema=COLUMNS), {}


def _row_of(entry: DeviceObjectBody | UnchangedDevice) -> dict[str, object]:
    if isinstance(entry, UnchangedDevice):
        return {"device_id": entry.device_id}
    resources = [
        {"path": one.resource_path, "subscribed": one.subscribed, **_members("reported", one.reported)}
        for one in entry.resources
    ]
    desired = [{"resource": number, **_members("desired", one.desired)} for number, one in enumerate(entry.resources)]
    names = {"device_id": entry.device_id, "endpoint_name": entry.endpoint_name}
    return {**names, "resources": resources, "desired": desired}


def _members(part: Literal["reported", "desired"], value: Reported | Desired) -> dict[str, object]:
    return {column.name: getattr(value, column.member) for column in streamed_columns(part)}


def next_form(request: SnapshotRequest, form: str, error: APIError) -> str | None:
    """Return the form to request after an HTTP error.

    The result is ``None`` if the service does not support snapshots at all.

    Raises:
        APIError: The argument ``error``, if another form would not help.
        NoHistory: An earlier time was requested, and the service has no history.
    """
    if error.status == 406 and form == ARROW:
        return NDJSON
    # If devices are read one by one, only their current state is available.
    if request.as_of is not None:
        raise error_without_history(error) from error
    if error.status in {404, 405}:
        warn(
            f"this service does not support snapshots ({error.status}), so the client reads the devices one by one: the"
            ' rows of different devices are from different times (attrs["mirror"]["one_instant"] is false)',
            SnapshotWarning,
        )
        return None
    raise error


def error_without_history(error: APIError) -> APIError:
    """Return the error to raise for a service that may have no history.

    The result is :class:`NoHistory` if the version of the service is the reason.
    """
    # A service that supports the request gives a reason.
    is_unknown = error.status in {404, 405} or any(field.name == "as_of" for field in error.fields)
    if isinstance(error, NoHistory | BeforeHistory) or error.reason is not None or not is_unknown:
        return error
    message = "this version of the service has no history; client.record creates a recording from now on"
    return NoHistory(error.status, ErrorBody(code=error.status, type=error.type, message=message))
