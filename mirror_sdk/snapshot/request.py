"""What a snapshot is asked for, and what its table keeps of that, so that it can be taken again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mirror_sdk import _operations
from mirror_sdk._exchange import Operation
from mirror_sdk.config import is_loopback
from mirror_sdk.errors import ValueRefused
from mirror_sdk.frames.columns import frame_of
from mirror_sdk.frames.device_batches import taken_apart
from mirror_sdk.frames.state import REVISIONS, checked_patterns
from mirror_sdk.object_table import SENSOR_UNITS
from mirror_sdk.wire.snapshot import Compression

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from mirror_sdk.snapshot.reading import Taken

_MOST_IDS = 100
"""How many device ids fit into a URL that everything on the way takes; of more, the right ones are picked here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRequest:
    """A selection, and how its table is to look.

    Attributes:
        filters: Conditions of the directory, as they are sent.
        device_ids: Only these devices.
        paths: Path patterns; ``None`` takes every resource.
        raw: Whether the payloads are columns too.
        tz: Time zone of the time columns.
        server: Address of the service.
        compression: How an Arrow stream is compressed; ``None`` goes by whether the service is on this machine.
        revision: That of the table there is, where only what has changed since is wanted.
        max_retries: How often it may be sent again while the service is busy or out of reach; ``None`` goes by the
            client.
    """

    filters: Mapping[str, str] = field(default_factory=dict)
    device_ids: tuple[str, ...] | None = None
    paths: tuple[str, ...] | None = None
    raw: bool = False
    tz: str | None = None
    server: str
    compression: Compression | None = None
    revision: int | None = None
    max_retries: int | None = None

    @classmethod
    def of(
        cls,
        conditions: Mapping[str, object],
        device_ids: Iterable[str] | None,
        paths: Sequence[str] | None,
        *,
        server: str,
        raw: bool = False,
        tz: str | None = None,
        compression: Compression | None = None,
        max_retries: int | None = None,
    ) -> SnapshotRequest:
        """A request, checked.

        Raises:
            ValueError: A time in the conditions has no zone.
            ValueRefused: ``paths`` is one text or has a ``*`` that is not at its end.
        """
        patterns = checked_patterns(paths)
        return cls(
            filters=_operations.filter_texts(conditions),
            device_ids=None if device_ids is None else tuple(dict.fromkeys(device_ids)),
            paths=None if patterns is None else tuple(patterns),
            raw=raw,
            tz=tz,
            server=server,
            compression=compression,
            max_retries=max_retries,
        )

    @classmethod
    def from_frame(cls, frame: pd.DataFrame, *, server: str) -> SnapshotRequest:
        """The request for what has changed since a table was taken.

        Raises:
            ValueRefused: It is not the table that a snapshot gave, or not all of it.
        """
        about = frame.attrs.get("mirror", {})
        selection = about.get("selection")
        if selection is None:
            raise ValueRefused(
                "the table does not say what it shows; refresh the one that client.snapshot() gave, then join or change"
                " it. Where pandas dropped that of the same rows, frame.mirror.based_on(snapshot) brings it back"
            )
        if len(frame) != about.get("rows"):
            raise ValueRefused(
                f"the table has {len(frame)} rows and the snapshot had {about.get('rows')}; refresh the whole table,"
                " then select from it"
            )
        if {"device_id", "path"} <= set(frame.columns) and frame.duplicated(["device_id", "path"]).any():
            raise ValueRefused(
                "the table has a device's resource more than once; refresh the one that client.snapshot() gave"
            )
        try:
            device_ids, paths = selection["device_ids"], selection["paths"]
            return cls(
                filters=selection["filters"],
                device_ids=None if device_ids is None else tuple(device_ids),
                paths=None if paths is None else tuple(paths),
                raw="reported_raw" in frame,
                tz=str(frame["reported_at"].dt.tz),
                server=server,
                # What an earlier version made lacks the revisions of its rows: all are taken anew.
                revision=about["revision"] if set(REVISIONS) <= set(frame.columns) else None,
            )
        except (AttributeError, LookupError, TypeError) as exc:
            raise ValueRefused(f"what the table says of itself is damaged ({exc!r}); take a new snapshot") from exc

    def operation(self, form: str) -> Operation[None]:
        """What to send for an answer of this media type."""
        compression = self.compression or ("none" if is_loopback(self.server) else "lz4")
        return _operations.get_snapshot(
            self.sent_filters,
            self.sent_paths,
            form=form,
            compression=compression,
            changed_after=self.revision,
            max_retries=self.max_retries,
        )

    @property
    def names_devices(self) -> bool:
        """Whether it is for certain devices, whatever they are like, so that each must be there."""
        return self.device_ids is not None and not self.filters

    @property
    def sent_filters(self) -> dict[str, str]:
        """The conditions the service is given."""
        if self.device_ids is None or len(self.device_ids) > _MOST_IDS or "id__in" in self.filters:
            return dict(self.filters)
        return {**self.filters, "id__in": ",".join(self.device_ids)}

    @property
    def sent_paths(self) -> list[str]:
        """The patterns the service is given: also those of the resources that name the units of what is wanted."""
        patterns = self.paths or ()
        units = (
            "/".join([*pattern.split("/")[:3], str(SENSOR_UNITS)]) for pattern in patterns if pattern.count("/") > 2
        )
        return list(dict.fromkeys([*patterns, *units]))

    def frame(self, taken: Taken, tables: list[pa.Table]) -> pd.DataFrame:
        """The state table of what was taken; the tables of its rows are used up by this, and the list is empty then.

        Raises:
            ValueRefused: ``tz`` is no time zone.
        """
        about = self.about(taken, sum(table.num_rows for table in tables))
        return frame_of(taken_apart(tables, raw=self.raw), about, tz=self.tz)

    def about(self, taken: Taken, rows: int) -> dict[str, object]:
        """What a table of so many rows is based on, for ``attrs["mirror"]``."""
        return {
            "taken_at": taken.taken_at,
            "devices": taken.device_count,
            "complete": True,
            "server": self.server,
            "one_instant": taken.revision is not None,
            "seq": taken.seq,
            "revision": taken.revision,
            "rows": rows,
            # Lists, as they are when they come back from a file.
            "selection": {
                "filters": dict(self.filters),
                "device_ids": None if self.device_ids is None else list(self.device_ids),
                "paths": None if self.paths is None else list(self.paths),
            },
        }
