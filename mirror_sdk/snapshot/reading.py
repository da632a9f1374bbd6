"""Reading a snapshot as it arrives: counted, and refused where it breaks off or is damaged. Source: wire.md 7."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from io import BufferedReader
from typing import Annotated, Any, BinaryIO, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Discriminator, TypeAdapter

from mirror_sdk._caller import warn
from mirror_sdk._protocol.answer_body import announced_bytes
from mirror_sdk._protocol.operation import content_type, elsewhere
from mirror_sdk._protocol.operations import require_asked
from mirror_sdk.device import DeviceObject
from mirror_sdk.errors import (
    APIError,
    BeforeHistory,
    ConnectionFailed,
    NoHistory,
    SnapshotWarning,
    UnexpectedAnswer,
)
from mirror_sdk.progress import ProgressBar, progress_bar
from mirror_sdk.snapshot.arriving import Bounded, Lines, Messages
from mirror_sdk.snapshot.contract import DeviceOrder, NotAsAgreed, check_entry, checked, require_columns
from mirror_sdk.snapshot.request import SnapshotRequest
from mirror_sdk.tables.device_batches import joined, state_of_batch
from mirror_sdk.tables.state import DeviceRows, StateRows, state_table
from mirror_sdk.wire import device_object as wire_object
from mirror_sdk.wire.errors import ErrorBody
from mirror_sdk.wire.model import write_timestamp
from mirror_sdk.wire.paths import matches_any
from mirror_sdk.wire.routes import TOTAL_HEADER
from mirror_sdk.wire.snapshot import ARROW, END_KEY, NDJSON, SnapshotEnd, UnchangedDevice

FIRST_FORM = ARROW
_LINES_AT_A_TIME = 200
_ENTRY: TypeAdapter[wire_object.DeviceObjectBody | UnchangedDevice | SnapshotEnd] = TypeAdapter(
    Annotated[wire_object.DeviceObjectBody | UnchangedDevice | SnapshotEnd, Discriminator("object")]
)
_LABEL = "devices"
"""What a progress bar counts."""
_LONGEST_TOTAL = 18
_GOES_ON = "the snapshot goes on after its end"


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What a snapshot gave beside its rows.

    Attributes:
        taken_at: The instant it shows, by the service's clock; the earliest, where devices were read one by one, and
            ``None`` where there were none of them to tell it.
        device_count: How many devices there are.
        revision: Number of the mirror's last change; ``None`` where devices were read one by one.
        seq: Number of the last entry in the application's log.
        unchanged: Ids of the devices that have not changed.
        missing: Ids of the devices that were asked for by name and are not there.
    """

    taken_at: str | None
    device_count: int
    revision: int | None = None
    seq: int | None = None
    unchanged: frozenset[str] = frozenset()
    missing: tuple[str, ...] = ()


Keep = Callable[[pa.Table], object]
"""Takes the tables of some devices each, in the order of their ids."""


@dataclass(slots=True)
class _ReadingState:
    """What has arrived so far."""

    request: SnapshotRequest
    order: DeviceOrder = field(default_factory=DeviceOrder)
    unchanged: set[str] = field(default_factory=set)
    arrived: int = 0
    kept: int = 0
    missing: set[str] = field(init=False)

    def __post_init__(self) -> None:
        self.missing = set(self.request.selection.device_ids or ()) if self.request.selection.names_devices else set()

    def follow(self, device_ids: Sequence[str], endpoint_names: Iterable[str | None]) -> None:
        """Look at the next devices: each comes once, and was asked for."""
        self.order.follow(device_ids)
        require_asked(self.request.selection.sent_filters, "id", device_ids)
        require_asked(self.request.selection.sent_filters, "endpoint_name", endpoint_names)

    def follow_batch(self, batch: pa.RecordBatch) -> None:
        """The same of the devices of a batch, which are made Python's own only where they have to meet something."""
        device_ids, endpoint_names = batch.column("device_id"), batch.column("endpoint_name")
        if self.request.selection.sent_filters:
            self.follow(device_ids.to_pylist(), endpoint_names.to_pylist())
        else:
            self.order.follow_batch(device_ids)

    def require_paths(self, paths: Iterable[str]) -> None:
        """Make sure that these resources were asked for."""
        patterns = self.request.selection.sent_paths or None
        if others := [path for path in paths if not matches_any(patterns, path)]:
            raise NotAsAgreed(f"asked for {', '.join(patterns or ())}, and the answer has {others[0]}")


class _SnapshotPart(NamedTuple):
    """Some devices: how many, and their rows."""

    device_count: int
    table: pa.Table


def read_snapshot(
    request: SnapshotRequest, keep: Keep, max_bytes: int, headers: Mapping[str, str], body: BufferedReader[Any]
) -> Taken:
    """Read an answer to its end, and have its rows kept as they arrive.

    Raises:
        ConnectionFailed: It broke off, and what was kept is not all.
        UnexpectedAnswer: It is no snapshot, is damaged, has another number of devices than it says, or more than
            ``max_bytes`` after decompression.
    """
    bounded = Bounded(max_bytes)
    bounded.require(announced_bytes(headers))
    read = _ReadingState(request)
    read_parts = _FORMS.get(content_type(headers))
    if read_parts is None:
        raise UnexpectedAnswer(f"the answer is no snapshot{elsewhere(headers)}")
    total = _read_total(headers)
    if total is None and not body.peek(1):
        raise UnexpectedAnswer(f"the snapshot is empty{elsewhere(headers)}")
    with progress_bar(total or 0, _LABEL) as bar:
        end = _consumed(read_parts(read, body, bounded), keep, bar)
    if end is None:
        raise ConnectionFailed(
            f"the snapshot broke off after {read.arrived} of {'all' if total is None else total} devices; take it again"
        )
    # To the very end, so that the connection can be used again.
    if body.read(1):
        raise UnexpectedAnswer(_GOES_ON)
    if request.revision is not None and (end.revision is None or end.revision < request.revision):
        raise UnexpectedAnswer(
            f"asked for what follows revision {request.revision}, and the snapshot is of revision {end.revision}"
        )
    _require_instant(request, end)
    for told in (end.device_count, total):
        if told is not None and told != read.arrived:
            raise UnexpectedAnswer(f"the snapshot has {read.arrived} devices and tells of {told}")
    with bounded.as_unexpected():
        taken_at = write_timestamp(end.taken_at)
    return Taken(
        taken_at=taken_at,
        device_count=read.kept,
        revision=end.revision,
        seq=end.seq,
        unchanged=frozenset(read.unchanged),
        missing=tuple(sorted(read.missing)),
    )


def _require_instant(request: SnapshotRequest, end: SnapshotEnd) -> None:
    """Make sure that a snapshot of the past is one: its end tells the instant, and no revision to go on from."""
    if request.as_of is not None and end.revision is not None:
        raise UnexpectedAnswer(
            "asked for the state at an instant of the past, and the snapshot is of the present: this service is of a"
            " version without a history"
        )


def _read_total(headers: Mapping[str, str]) -> int | None:
    """How many devices were announced."""
    total = headers.get(TOTAL_HEADER, "")
    return int(total) if total.isdecimal() and len(total) <= _LONGEST_TOTAL else None


def _consumed(parts: Iterator[_SnapshotPart | SnapshotEnd], keep: Keep, bar: ProgressBar) -> SnapshotEnd | None:
    end = None
    for part in parts:
        if end is not None:
            raise UnexpectedAnswer(_GOES_ON)
        if isinstance(part, SnapshotEnd):
            end = part
        else:
            keep(part.table)
            bar.update(part.device_count)
    return end


def _arrow_parts(read: _ReadingState, body: BinaryIO, bounded: Bounded) -> Iterator[_SnapshotPart | SnapshotEnd]:
    """Each batch, and the end."""
    messages = Messages(body, bounded)
    try:
        with bounded.as_unexpected(), closing(messages), pa.ipc.open_stream(messages) as stream:
            require_columns(stream.schema)
            while (found := _next_batch(stream)) is not None:
                batch, metadata = found
                yield _of_batch(read, batch)
                if metadata is not None and END_KEY in metadata:
                    yield SnapshotEnd.model_validate_json(metadata[END_KEY])
    except UnexpectedAnswer:
        if not messages.is_cut:
            raise


def _next_batch(stream: pa.RecordBatchStreamReader) -> tuple[pa.RecordBatch, Mapping[bytes, bytes] | None] | None:
    try:
        found: tuple[pa.RecordBatch, Mapping[bytes, bytes] | None] = stream.read_next_batch_with_custom_metadata()
    except StopIteration:
        return None
    return found


def _of_batch(read: _ReadingState, batch: pa.RecordBatch) -> _SnapshotPart:
    batch = checked(batch, may_be_unchanged=read.request.revision is not None, is_past=read.request.as_of is not None)
    count = batch.num_rows
    read.follow_batch(batch)
    if read.request.selection.sent_paths:
        read.require_paths(_paths_of(batch))
    read.arrived += count
    wanted = read.request.selection.device_ids
    if wanted is not None:
        batch = batch.filter(pc.is_in(batch.column("device_id"), pa.array(wanted, pa.string())))
    read.kept += batch.num_rows
    if read.missing:
        read.missing.difference_update(batch.column("device_id").to_pylist())
    if batch.column("resources").null_count:
        is_unchanged = batch.column("resources").is_null()
        read.unchanged.update(batch.column("device_id").filter(is_unchanged).to_pylist())
    if not len(batch.column("resources").flatten()):
        return _SnapshotPart(count, joined([], raw=read.request.raw))
    return _SnapshotPart(count, state_of_batch(batch, paths=read.request.selection.paths, raw=read.request.raw))


def _paths_of(batch: pa.RecordBatch) -> list[str]:
    """The paths that occur, each once."""
    paths = batch.column("resources").flatten().field("path")
    found: list[str] = paths.dictionary.take(pc.unique(paths.indices)).to_pylist()
    return found


def _ndjson_parts(read: _ReadingState, body: BinaryIO, bounded: Bounded) -> Iterator[_SnapshotPart | SnapshotEnd]:
    """The devices of some lines each, and the end."""
    lines = Lines(body, bounded)
    end = None
    with bounded.as_unexpected():
        for some in lines.some_at_a_time(_LINES_AT_A_TIME):
            *entries, last = map(_ENTRY.validate_json, some)
            if end or any(isinstance(entry, SnapshotEnd) for entry in entries):
                raise NotAsAgreed(_GOES_ON)
            end = last if isinstance(last, SnapshotEnd) else None
            yield _of_objects(read, [entry for entry in (*entries, last) if not isinstance(entry, SnapshotEnd)])
    if end is not None:
        if lines.is_cut:
            raise UnexpectedAnswer(_GOES_ON)
        yield end


def _of_objects(
    read: _ReadingState, entries: Sequence[wire_object.DeviceObjectBody | UnchangedDevice]
) -> _SnapshotPart:
    told = [entry for entry in entries if isinstance(entry, wire_object.DeviceObjectBody)]
    read.follow([entry.device_id for entry in entries], [entry.endpoint_name for entry in told])
    for entry in entries:
        check_entry(entry, may_be_unchanged=read.request.revision is not None)
    read.require_paths({resource.resource_path for entry in told for resource in entry.resources})
    read.arrived += len(entries)
    wanted = read.request.selection.device_ids
    kept = [entry for entry in entries if wanted is None or entry.device_id in wanted]
    read.kept += len(kept)
    read.missing.difference_update(entry.device_id for entry in kept)
    read.unchanged.update(entry.device_id for entry in kept if isinstance(entry, UnchangedDevice))
    changed = (DeviceObject.from_wire(entry) for entry in kept if isinstance(entry, wire_object.DeviceObjectBody))
    table = state_table(changed, paths=read.request.selection.paths, raw=read.request.raw)[0]
    return _SnapshotPart(len(entries), table if read.request.as_of is None else _without_subscribed(table))


def _without_subscribed(table: pa.Table) -> pa.Table:
    """A state table of the past, of which it is not known what was subscribed; a resource says yes or no."""
    place = table.schema.get_field_index("subscribed")
    return table.set_column(place, table.schema.field(place), pa.nulls(table.num_rows, pa.bool_()))


_FORMS = {ARROW: _arrow_parts, NDJSON: _ndjson_parts}
"""Who reads which content type."""


def next_form(request: SnapshotRequest, form: str, error: APIError) -> str | None:
    """What to ask for after a refusal; ``None`` where the service has no snapshots at all.

    Raises:
        APIError: The refusal itself, where asking for something else would not help.
        NoHistory: An instant of the past was asked for, and the service knows nothing of that.
    """
    if error.status == 406 and form == ARROW:
        return NDJSON
    if request.as_of is not None:
        raise of_older_service(error) from error
    if error.status in {404, 405}:
        warn(
            f"this service has no snapshots ({error.status}), so devices are read one by one: the table is not of one"
            " instant",
            SnapshotWarning,
        )
        return None
    raise error


def of_older_service(refusal: APIError) -> APIError:
    """What a refusal means where the service may be of a version that knows nothing of a history."""
    # One that knows what is meant says why.
    is_strange = refusal.status in {404, 405} or any(field.name == "as_of" for field in refusal.fields)
    if isinstance(refusal, NoHistory | BeforeHistory) or refusal.reason is not None or not is_strange:
        return refusal
    message = "this service is of a version without a history; a recording (client.record) keeps one from now on"
    return NoHistory(refusal.status, ErrorBody(code=refusal.status, type=refusal.type, message=message))


class OneByOne:
    """The same of device objects that are read one by one."""

    def __init__(self, request: SnapshotRequest, keep: Keep) -> None:
        self._keep = keep
        self._rows = StateRows(paths=request.selection.paths, raw=request.raw)

    def rows_of(self, device: DeviceObject) -> DeviceRows:
        """The rows of a device, to be added when it is its turn."""
        return self._rows.of(device)

    def add(self, devices: Iterable[DeviceRows]) -> None:
        """Have the rows of some devices kept."""
        for rows in devices:
            self._rows.add(rows)
        self._keep(self._rows.pop_table())

    def taken(self) -> Taken:
        """What was taken."""
        taken_at = None if self._rows.taken_at is None else write_timestamp(self._rows.taken_at)
        return Taken(taken_at=taken_at, device_count=self._rows.device_count)
