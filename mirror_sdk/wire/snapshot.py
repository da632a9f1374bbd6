"""The fleet snapshot: the forms it comes in, how it ends, and the parts it may be taken in. Source: wire.md 7."""

from __future__ import annotations

from typing import Literal

from mirror_sdk.wire.model import Timestamp, WireModel

ARROW = "application/vnd.apache.arrow.stream"
NDJSON = "application/x-ndjson"

Compression = Literal["none", "lz4", "zstd"]
COMPRESSIONS: tuple[Compression, ...] = ("none", "lz4", "zstd")
"""How the buffers of an Arrow stream may be compressed."""

END_KEY = b"mirror.end"
"""The key under which the last batch of an Arrow stream, an empty one, has the end in its metadata."""

MAX_PATTERNS = 256
DEFAULT_DEVICES_PER_RANGE = 10_000
MAX_DEVICES_PER_RANGE = 1_000_000
MAX_RANGES = 10_000
REVISION_BEYOND_MIRROR = "REVISION_BEYOND_MIRROR"
"""The reason where the revision of a request is one the mirror never had."""


class UnchangedDevice(WireModel):
    """A device that has not changed after the revision that was asked for, in the place of its device object."""

    object: Literal["device-echo-unchanged"] = "device-echo-unchanged"
    device_id: str


class SnapshotEnd(WireModel):
    """How a snapshot ends: the last line of NDJSON. What breaks off before it is not whole.

    ``device_count`` counts the devices before it. ``revision`` is the number of the mirror's last change, ``seq`` that
    of the last entry in the application's notification log, both at ``taken_at``; a snapshot as of an earlier instant
    has neither, since nothing goes on from there.
    """

    object: Literal["snapshot-end"] = "snapshot-end"
    taken_at: Timestamp
    device_count: int
    revision: int | None = None
    seq: int | None = None


class DeviceRange(WireModel):
    """The devices whose ids follow ``after``, up to ``last``; of all that follow where there is no ``last``.

    As conditions: ``id__gt`` and ``id__lte``. ``device_count`` is how many there were when the ranges were made.
    """

    after: str | None = None
    last: str | None = None
    device_count: int


class DeviceRanges(WireModel):
    """All devices of a selection in ranges of about as many each.

    The first has no ``after`` and the last no ``last``, and each goes on where the one before ends: a device that
    comes later is in one of them too. ``revision`` is the number of the mirror's last change.

    Attributes:
        device_count: How many devices there are in all.
        data: The ranges, by id.
    """

    object: Literal["device-ranges"] = "device-ranges"
    device_count: int
    revision: int
    data: list[DeviceRange]
