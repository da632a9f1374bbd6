"""What a service is asked for a snapshot. Source: wire.md 7."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from mirror_sdk._protocol.operation import HTTPResponse, Operation, read_json
from mirror_sdk._protocol.operations import nothing
from mirror_sdk.config import is_loopback
from mirror_sdk.errors import UnexpectedAnswer
from mirror_sdk.snapshot.selection import Selection
from mirror_sdk.wire import routes
from mirror_sdk.wire.model import write_timestamp
from mirror_sdk.wire.snapshot import ARROW, Compression, DeviceRanges


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRequest:
    """A selection, where it is asked for, and how its table is to look.

    Attributes:
        selection: What is wanted.
        server: Address of the service.
        raw: Whether the payloads are columns too.
        tz: Time zone of the time columns.
        compression: How an Arrow stream is compressed; ``None`` goes by whether the service is on this machine.
        revision: That of the table there is, where only what has changed since is wanted.
        as_of: The instant of the past that is to be shown; ``None`` for the present.
        max_retries: How often it may be sent again while the service is busy or out of reach; ``None`` goes by the
            client.
    """

    selection: Selection
    server: str
    raw: bool = False
    tz: str | None = None
    compression: Compression | None = None
    revision: int | None = None
    as_of: datetime | None = None
    max_retries: int | None = None

    def operation(self, form: str) -> Operation[None]:
        """What to send for an answer of this media type, which is to be read as it arrives."""
        params: dict[str, str | int | Sequence[str]] = {
            **self.selection.sent_filters,
            "path": self.selection.sent_paths,
        }
        headers = {"Accept": form}
        if form == ARROW:
            params["compression"] = self.compression or ("none" if is_loopback(self.server) else "lz4")
            # It is compressed in itself.
            headers["Accept-Encoding"] = "identity"
        if self.revision is not None:
            params["changed_after"] = self.revision
        if self.as_of is not None:
            params["as_of"] = write_timestamp(self.as_of)
        return Operation("GET", routes.SNAPSHOT, nothing, params=params, headers=headers, max_retries=self.max_retries)


def get_device_ranges(selection: Selection, devices_per_range: int) -> Operation[DeviceRanges]:
    """The devices of a selection in ranges of their ids."""
    params: dict[str, str | int] = {**selection.filters, "devices_per_range": devices_per_range}
    return Operation("GET", routes.SNAPSHOT_RANGES, _read_ranges, params=params)


def _read_ranges(answer: HTTPResponse) -> DeviceRanges:
    ranges = read_json(DeviceRanges.model_validate_json)(answer)
    ends = [None, *(one.last for one in ranges.data)]
    begins = [*(one.after for one in ranges.data), None]
    if begins != ends or ranges.device_count != sum(one.device_count for one in ranges.data):
        raise UnexpectedAnswer("the ranges of the answer are not those of one selection, each behind the one before")
    return ranges
