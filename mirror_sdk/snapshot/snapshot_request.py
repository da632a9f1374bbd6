"""The requests for a snapshot, and for any other table that arrives as a stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from mirror_sdk._protocol.operation_base import HTTPResponse, Operation, read_json
from mirror_sdk._protocol.operations import nothing
from mirror_sdk.config import is_loopback
from mirror_sdk.errors import UnexpectedResponse
from mirror_sdk.snapshot.device_selection import Selection
from mirror_sdk.wire import routes
from mirror_sdk.wire.model import write_timestamp
from mirror_sdk.wire.snapshot import ARROW, Compression, DeviceRanges


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRequest:
    """A request for a table that arrives as a stream.

    Attributes:
        selection: The selected devices and resources.
        server: The address of the service.
        compression: The compression of an Arrow stream. ``None`` selects ``none`` if the service is on this machine,
            else ``lz4``.
        max_retries: The number of times that the request is repeated while the service is busy or unreachable. ``None``
            uses the setting of the client.
    """

    selection: Selection
    server: str
    compression: Compression | None = None
    max_retries: int | None = None

    def streamed(
        self, route: str, form: str, params: Mapping[str, str | int | Sequence[str] | None]
    ) -> Operation[None]:
        """Return the operation that requests a response of this media type and reads it while it arrives."""
        headers = {"Accept": form}
        if form == ARROW:
            params = {**params, "compression": self.compression or ("none" if is_loopback(self.server) else "lz4")}
            # HTTP compression is not needed, because the stream itself is compressed.
            headers["Accept-Encoding"] = "identity"
        sent = {**self.selection.sent_filters, **{name: one for name, one in params.items() if one is not None}}
        return Operation("GET", route, nothing, params=sent, headers=headers, max_retries=self.max_retries)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRequest(StreamRequest):
    """A request for a snapshot, and the options of its table.

    Attributes:
        raw: Whether to add the columns with payloads.
        tz: The time zone of the time columns.
        revision: The revision of an earlier table, to fetch only the changes since then.
        as_of: An earlier point in time; ``None`` for the current state.
    """

    raw: bool = False
    tz: str | None = None
    revision: int | None = None
    as_of: datetime | None = None

    def operation(self, form: str) -> Operation[None]:
        """Return the operation that requests a response of this media type."""
        as_of = None if self.as_of is None else write_timestamp(self.as_of)
        params = {"path": self.selection.sent_paths, "changed_after": self.revision, "as_of": as_of}
        return self.streamed(routes.SNAPSHOT, form, params)


def get_device_ranges(selection: Selection, devices_per_range: int) -> Operation[DeviceRanges]:
    """Return the operation that lists the devices of a selection in ranges of their ids."""
    params: dict[str, str | int] = {**selection.filters, "devices_per_range": devices_per_range}
    return Operation("GET", routes.SNAPSHOT_RANGES, _read_ranges, params=params)


def _read_ranges(response: HTTPResponse) -> DeviceRanges:
    ranges = read_json(DeviceRanges.model_validate_json)(response)
    ends = [None, *(one.last for one in ranges.data)]
    begins = [*(one.after for one in ranges.data), None]
    if begins != ends or ranges.device_count != sum(one.device_count for one in ranges.data):
        raise UnexpectedResponse("the ranges of the response are not consecutive, or their device counts do not add up")
    return ranges
