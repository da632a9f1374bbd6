"""Reading a snapshot as it arrives: counted, and refused where it breaks off. Source: wire.md 7."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from typing import Annotated, Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Discriminator, TypeAdapter, ValidationError

from mirror_sdk._exchange import first_fault
from mirror_sdk.device import DeviceObject
from mirror_sdk.errors import APIError, ConnectionFailed, SnapshotWarning, UnexpectedAnswer
from mirror_sdk.frames.device_batches import state_of_batch
from mirror_sdk.frames.state import state_table
from mirror_sdk.progress import progress_bar
from mirror_sdk.snapshot.request import SnapshotRequest
from mirror_sdk.wire import device_object as wire_object
from mirror_sdk.wire.model import write_timestamp
from mirror_sdk.wire.routes import TOTAL_HEADER
from mirror_sdk.wire.snapshot import ARROW, END_KEY, NDJSON, SnapshotEnd, UnchangedDevice

FIRST_FORM = ARROW
_LINES_AT_A_TIME = 200
_ENTRY: TypeAdapter[wire_object.DeviceObject | UnchangedDevice | SnapshotEnd] = TypeAdapter(
    Annotated[wire_object.DeviceObject | UnchangedDevice | SnapshotEnd, Discriminator("object")]
)
_LABEL = "devices"
"""What a progress bar counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What a snapshot gave beside its rows.

    Attributes:
        taken_at: The instant it shows; the earliest, where devices were read one by one.
        device_count: How many devices there are.
        revision: Number of the mirror's last change; ``None`` where devices were read one by one.
        seq: Number of the last entry in the application's log.
        unchanged: Ids of the devices that have not changed.
        missing: Ids of the devices that were asked for by name and are not there.
    """

    taken_at: str
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
    keep: Keep
    unchanged: set[str] = field(default_factory=set)
    arrived: int = 0
    kept: int = 0
    missing: set[str] = field(init=False)

    def __post_init__(self) -> None:
        self.missing = set(self.request.device_ids or ()) if self.request.names_devices else set()


def read_snapshot(request: SnapshotRequest, keep: Keep, headers: Mapping[str, str], body: BinaryIO) -> Taken:
    """Read an answer to its end, and have its rows kept as they arrive.

    Raises:
        ConnectionFailed: It broke off, and what was kept is not all.
        UnexpectedAnswer: It is no snapshot, or has another number of devices than it says.
    """
    read = _Read(request, keep)
    is_arrow = headers.get("Content-Type", "").partition(";")[0] == ARROW
    total = headers.get(TOTAL_HEADER, "")
    batches = _arrow_batches(read, body) if is_arrow else _ndjson_batches(read, body)
    with progress_bar(int(total) if total.isdecimal() else 0, _LABEL) as bar:
        end = _consumed(batches, bar)
    if end is None:
        raise ConnectionFailed(
            f"the snapshot broke off after {read.arrived} of {total or 'all'} devices; take it again"
        )
    if end.device_count != read.arrived:
        raise UnexpectedAnswer(f"the snapshot has {read.arrived} devices and tells of {end.device_count}")
    return Taken(
        taken_at=write_timestamp(end.taken_at),
        device_count=read.kept,
        revision=end.revision,
        seq=end.seq,
        unchanged=frozenset(read.unchanged),
        missing=tuple(sorted(read.missing)),
    )


def _consumed(batches: Iterator[int | SnapshotEnd], bar: Any) -> SnapshotEnd | None:
    end = None
    for batch in batches:
        if isinstance(batch, SnapshotEnd):
            end = batch
        else:
            bar.update(batch)
    return end


def _arrow_batches(read: _Read, body: BinaryIO) -> Iterator[int | SnapshotEnd]:
    """The number of devices of each batch that was read, and the end."""
    try:
        with pa.ipc.open_stream(body) as stream:
            while True:
                batch, metadata = stream.read_next_batch_with_custom_metadata()
                yield _take_batch(read, batch)
                if metadata is not None and END_KEY in metadata:
                    yield SnapshotEnd.model_validate_json(metadata[END_KEY])
    except StopIteration:
        # To the very end, so that the connection can be used again.
        body.read()
    except (pa.ArrowInvalid, OSError, KeyError, ValidationError) as exc:
        if body.read(1):
            raise UnexpectedAnswer(f"the snapshot is not what the interface says: {exc}") from exc


def _take_batch(read: _Read, batch: pa.RecordBatch) -> int:
    count: int = batch.num_rows
    read.arrived += count
    wanted = read.request.device_ids
    if wanted is not None:
        batch = batch.filter(pc.is_in(batch.column("device_id"), pa.array(wanted, pa.string())))
    read.kept += batch.num_rows
    if read.missing:
        read.missing.difference_update(batch.column("device_id").to_pylist())
    is_unchanged = batch.column("resources").is_null()
    read.unchanged.update(batch.column("device_id").filter(is_unchanged).to_pylist())
    read.keep(state_of_batch(batch, paths=read.request.paths, raw=read.request.raw))
    return count


def _ndjson_batches(read: _Read, body: BinaryIO) -> Iterator[int | SnapshotEnd]:
    """The number of devices of each batch that was read, and the end."""
    lines = (line for line in body if line.endswith(b"\n"))
    while some := list(islice(lines, _LINES_AT_A_TIME)):
        try:
            entries = list(map(_ENTRY.validate_json, some))
        except ValidationError as exc:
            raise UnexpectedAnswer(f"the snapshot is not what the interface says: {first_fault(exc)}") from exc
        yield _take_objects(read, [entry for entry in entries if not isinstance(entry, SnapshotEnd)])
        yield from (entry for entry in entries if isinstance(entry, SnapshotEnd))


def _take_objects(read: _Read, entries: Sequence[wire_object.DeviceObject | UnchangedDevice]) -> int:
    read.arrived += len(entries)
    wanted = read.request.device_ids
    kept = [entry for entry in entries if wanted is None or entry.device_id in wanted]
    read.kept += len(kept)
    read.missing.difference_update(entry.device_id for entry in kept)
    read.unchanged.update(entry.device_id for entry in kept if isinstance(entry, UnchangedDevice))
    changed = (DeviceObject.from_wire(entry) for entry in kept if isinstance(entry, wire_object.DeviceObject))
    read.keep(state_table(changed, paths=read.request.paths, raw=read.request.raw)[0])
    return len(entries)


def next_form(form: str, error: APIError) -> str | None:
    """What to ask for after a refusal; ``None`` where the service has no snapshots at all.

    Raises:
        APIError: The refusal itself, where asking for something else would not help.
    """
    if error.status == 406 and form == ARROW:
        return NDJSON
    if error.status in {404, 405}:
        warnings.warn(
            f"this service has no snapshots ({error.status}), so devices are read one by one: the table is not of one"
            " instant",
            SnapshotWarning,
            stacklevel=3,
        )
        return None
    raise error


class OneByOne:
    """The same of device objects that are read one by one."""

    def __init__(self, request: SnapshotRequest, keep: Keep) -> None:
        self._request = request
        self._keep = keep
        self._device_count = 0
        # The oldest in the end, so that no row is older than the table says it is.
        self._taken_at = datetime.now(UTC)

    def add(self, objects: Sequence[DeviceObject]) -> None:
        """Have the rows of some devices kept."""
        table, device_count = state_table(objects, paths=self._request.paths, raw=self._request.raw)
        self._device_count += device_count
        self._taken_at = min([self._taken_at, *(one.created_at for one in objects)])
        self._keep(table)

    def taken(self) -> Taken:
        """What was taken."""
        return Taken(taken_at=write_timestamp(self._taken_at), device_count=self._device_count)
