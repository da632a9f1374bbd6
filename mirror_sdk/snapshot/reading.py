"""Reading a snapshot as it arrives: counted, and refused where it breaks off or is damaged. Source: wire.md 7."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BufferedReader
from itertools import islice
from typing import Annotated, Any, BinaryIO, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Discriminator, TypeAdapter, ValidationError

from mirror_sdk._caller import warn
from mirror_sdk._service.answer_body import announced_bytes
from mirror_sdk._service.operation import content_type, elsewhere, first_fault
from mirror_sdk._service.operations import require_asked
from mirror_sdk._visible import visible_line
from mirror_sdk.device import DeviceObject
from mirror_sdk.errors import APIError, ConnectionFailed, MirrorError, SnapshotWarning, UnexpectedAnswer
from mirror_sdk.frames.device_batches import joined, state_of_batch
from mirror_sdk.frames.state import DeviceRows, StateRows, state_table
from mirror_sdk.progress import ProgressBar, progress_bar
from mirror_sdk.snapshot.arriving import Bounded, Lines, Messages
from mirror_sdk.snapshot.contract import DeviceOrder, NotAsAgreed, check_entry, checked, require_columns
from mirror_sdk.snapshot.request import SnapshotRequest
from mirror_sdk.wire import device_object as wire_object
from mirror_sdk.wire.model import write_timestamp
from mirror_sdk.wire.paths import matches_any
from mirror_sdk.wire.routes import TOTAL_HEADER
from mirror_sdk.wire.snapshot import ARROW, END_KEY, NDJSON, SnapshotEnd, UnchangedDevice

FIRST_FORM = ARROW
_LINES_AT_A_TIME = 200
_ENTRY: TypeAdapter[wire_object.DeviceObject | UnchangedDevice | SnapshotEnd] = TypeAdapter(
    Annotated[wire_object.DeviceObject | UnchangedDevice | SnapshotEnd, Discriminator("object")]
)
_LABEL = "devices"
"""What a progress bar counts."""
_LONGEST_TOTAL = 18
_FAULTS = (pa.ArrowException, LookupError, OSError, OverflowError, TypeError, ValueError)
"""What Arrow, pandas and Python say of what they cannot read."""
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
class _Read:
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

    def require_paths(self, paths: Iterable[str]) -> None:
        """Make sure that these resources were asked for."""
        patterns = self.request.selection.sent_paths or None
        if others := [path for path in paths if not matches_any(patterns, path)]:
            raise NotAsAgreed(f"asked for {', '.join(patterns or ())}, and the answer has {others[0]}")


class _Part(NamedTuple):
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
    read = _Read(request)
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
    if request.revision is not None and end.revision < request.revision:
        raise UnexpectedAnswer(
            f"asked for what follows revision {request.revision}, and the snapshot is of revision {end.revision}"
        )
    for told in (end.device_count, total):
        if told is not None and told != read.arrived:
            raise UnexpectedAnswer(f"the snapshot has {read.arrived} devices and tells of {told}")
    with _as_unexpected():
        taken_at = write_timestamp(end.taken_at)
    return Taken(
        taken_at=taken_at,
        device_count=read.kept,
        revision=end.revision,
        seq=end.seq,
        unchanged=frozenset(read.unchanged),
        missing=tuple(sorted(read.missing)),
    )


def _read_total(headers: Mapping[str, str]) -> int | None:
    """How many devices were announced."""
    total = headers.get(TOTAL_HEADER, "")
    return int(total) if total.isdecimal() and len(total) <= _LONGEST_TOTAL else None


@contextmanager
def _as_unexpected() -> Iterator[None]:
    """Whatever cannot be made of what arrived is told as what it is: not what the interface says."""
    try:
        yield
    except MirrorError:
        raise
    except _FAULTS as exc:
        fault = first_fault(exc) if isinstance(exc, ValidationError) else exc
        raise UnexpectedAnswer(f"the snapshot is not what the interface says: {visible_line(str(fault))}") from exc


def _consumed(parts: Iterator[_Part | SnapshotEnd], keep: Keep, bar: ProgressBar) -> SnapshotEnd | None:
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


def _arrow_parts(read: _Read, body: BinaryIO, bounded: Bounded) -> Iterator[_Part | SnapshotEnd]:
    """Each batch, and the end."""
    messages = Messages(body, bounded)
    try:
        with _as_unexpected(), pa.ipc.open_stream(messages) as stream:
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


def _of_batch(read: _Read, batch: pa.RecordBatch) -> _Part:
    batch = checked(batch, may_be_unchanged=read.request.revision is not None)
    count = batch.num_rows
    read.follow(batch.column("device_id").to_pylist(), batch.column("endpoint_name").to_pylist())
    read.require_paths(_paths_of(batch))
    read.arrived += count
    wanted = read.request.selection.device_ids
    if wanted is not None:
        batch = batch.filter(pc.is_in(batch.column("device_id"), pa.array(wanted, pa.string())))
    read.kept += batch.num_rows
    if read.missing:
        read.missing.difference_update(batch.column("device_id").to_pylist())
    is_unchanged = batch.column("resources").is_null()
    read.unchanged.update(batch.column("device_id").filter(is_unchanged).to_pylist())
    if not len(batch.column("resources").flatten()):
        return _Part(count, joined([], raw=read.request.raw))
    return _Part(count, state_of_batch(batch, paths=read.request.selection.paths, raw=read.request.raw))


def _paths_of(batch: pa.RecordBatch) -> list[str]:
    """The paths that occur, each once."""
    paths = batch.column("resources").flatten().field("path")
    found: list[str] = paths.dictionary.take(pc.unique(paths.indices)).to_pylist()
    return found


def _ndjson_parts(read: _Read, body: BinaryIO, bounded: Bounded) -> Iterator[_Part | SnapshotEnd]:
    """The devices of some lines each, and the end."""
    lines = Lines(body, bounded)
    each_line, end = iter(lines), None
    with _as_unexpected():
        while some := list(islice(each_line, _LINES_AT_A_TIME)):
            *entries, last = map(_ENTRY.validate_json, some)
            if end or any(isinstance(entry, SnapshotEnd) for entry in entries):
                raise NotAsAgreed(_GOES_ON)
            end = last if isinstance(last, SnapshotEnd) else None
            yield _of_objects(read, [entry for entry in (*entries, last) if not isinstance(entry, SnapshotEnd)])
    if end is not None:
        if lines.is_cut:
            raise UnexpectedAnswer(_GOES_ON)
        yield end


def _of_objects(read: _Read, entries: Sequence[wire_object.DeviceObject | UnchangedDevice]) -> _Part:
    told = [entry for entry in entries if isinstance(entry, wire_object.DeviceObject)]
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
    changed = (DeviceObject.from_wire(entry) for entry in kept if isinstance(entry, wire_object.DeviceObject))
    return _Part(len(entries), state_table(changed, paths=read.request.selection.paths, raw=read.request.raw)[0])


_FORMS = {ARROW: _arrow_parts, NDJSON: _ndjson_parts}
"""Who reads which content type."""


def next_form(form: str, error: APIError) -> str | None:
    """What to ask for after a refusal; ``None`` where the service has no snapshots at all.

    Raises:
        APIError: The refusal itself, where asking for something else would not help.
    """
    if error.status == 406 and form == ARROW:
        return NDJSON
    if error.status in {404, 405}:
        warn(
            f"this service has no snapshots ({error.status}), so devices are read one by one: the table is not of one"
            " instant",
            SnapshotWarning,
        )
        return None
    raise error


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
