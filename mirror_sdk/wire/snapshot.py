"""The snapshot of a fleet: its formats, its end and its ranges of devices. Source: wire.md 7."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias

from mirror_sdk.wire.device_object import Desired, Reported
from mirror_sdk.wire.model import Kind, Timestamp, WireModel, kinds_of

ARROW = "application/vnd.apache.arrow.stream"
NDJSON = "application/x-ndjson"

Compression = Literal["none", "lz4", "zstd"]
COMPRESSIONS: tuple[Compression, ...] = ("none", "lz4", "zstd")
"""The possible compressions of the buffers of an Arrow stream."""

END_KEY = b"mirror.end"
"""The key of the snapshot's end in the metadata of the last batch of an Arrow stream, which has no rows."""

Part: TypeAlias = Literal["resource", "reported", "desired"]
"""The part of a resource in a device object that contains a member."""


class ResourceColumn(NamedTuple):
    """A column of the resource states, in the database and in the Arrow form of a snapshot.

    Attributes:
        name: The name of the column.
        part: The part of a resource that contains the member in JSON.
        member: The name of the member in JSON.
        kind: The type of the values.
        is_in_stream: Whether the Arrow form contains the column.
    """

    name: str
    part: Part
    member: str
    kind: Kind
    is_in_stream: bool

    @property
    def source(self) -> str:
        """The name of the member together with its part, such as ``reported.revision``."""
        return f"{self.part}.{self.member}"


_NAMES = {
    name: name for name in ("reported_at", "desired_at", "requested_at", "acknowledged_at", "acknowledged_by")
} | {"status_updated_at": "desired_updated_at"}
"""The column names by member, for columns that do not have the usual name, such as ``reported_value``."""
_NOT_IN_STREAM = {"status_updated_at", "category"}


def _columns() -> Iterator[ResourceColumn]:
    yield ResourceColumn("path", "resource", "resource_path", "word", is_in_stream=True)
    yield ResourceColumn("subscribed", "resource", "subscribed", "flag", is_in_stream=True)
    parts: tuple[tuple[Part, type[WireModel]], ...] = (("reported", Reported), ("desired", Desired))
    for part, model in parts:
        for member, kind in kinds_of(model).items():
            name = _NAMES.get(member, f"{part}_{member}")
            yield ResourceColumn(name, part, member, kind, is_in_stream=member not in _NOT_IN_STREAM)


COLUMNS = tuple(_columns())
"""The columns of a resource, followed by one column for each member of ``Reported`` and ``Desired`` in their order."""


def streamed_columns(*of_parts: Part) -> list[ResourceColumn]:
    """Return the columns of these parts that the Arrow form contains."""
    return [column for column in COLUMNS if column.part in of_parts and column.is_in_stream]


MAX_PATTERNS = 256
DEFAULT_DEVICES_PER_RANGE = 10_000
MAX_DEVICES_PER_RANGE = 1_000_000
MAX_RANGES = 10_000
REVISION_BEYOND_MIRROR = "REVISION_BEYOND_MIRROR"
"""The reason of the error if the mirror never had the revision in a request."""


class UnchangedDevice(WireModel):
    """A device that has not changed since the requested revision. It replaces the device object."""

    object: Literal["device-echo-unchanged"] = "device-echo-unchanged"
    device_id: str


class SnapshotEnd(WireModel):
    """The end of a snapshot: the last line of NDJSON. A snapshot without it is incomplete.

    ``device_count`` is the number of devices before this line. ``revision`` is the number of the mirror's last change
    at ``taken_at``, and ``seq`` is the number of the last entry in the application's notification log at that time. A
    snapshot of the past has neither of them, because it is not possible to continue from it.
    """

    object: Literal["snapshot-end"] = "snapshot-end"
    taken_at: Timestamp
    device_count: int
    revision: int | None = None
    seq: int | None = None


class DeviceRange(WireModel):
    """The devices whose ids follow ``after``, up to and including ``last``. Without ``last``, the range has no end.

    To select these devices, pass ``after`` as ``id__gt`` and ``last`` as ``id__lte``. ``device_count`` is the number of
    devices at the time of the query.
    """

    after: str | None = None
    last: str | None = None
    device_count: int


class DeviceRanges(WireModel):
    """All devices of a selection, divided into ranges of about the same size.

    Each range begins where the previous one ends. The first range has no ``after``, and the last one has no ``last``. A
    device that is added later therefore also belongs to one of the ranges. ``revision`` is the number of the mirror's
    last change.

    Attributes:
        device_count: The number of devices in all ranges.
        data: The ranges, sorted by id.
    """

    object: Literal["device-ranges"] = "device-ranges"
    device_count: int
    revision: int
    data: list[DeviceRange]
