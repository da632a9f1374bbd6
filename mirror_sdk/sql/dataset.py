"""The views of a snapshot that was written to a folder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds

from mirror_sdk.arrow_tables.state import STATE_SCHEMA
from mirror_sdk.frames.drift import DRIFT_SCHEMA
from mirror_sdk.sql.categories import with_schema
from mirror_sdk.sql.conditions import expression_of
from mirror_sdk.sql.source import Scan
from mirror_sdk.sql.tables import drift_table

_LIMITED = ("device_id", "endpoint_name", "path")


class DatasetViews:
    """The views ``state`` and ``drift`` of a snapshot in Parquet files.

    Args:
        paths: The files.
        metadata: The metadata of the snapshot.
        now: The time of the snapshot.
    """

    name = "this dataset"
    views: Mapping[str, pa.Schema] = {"state": STATE_SCHEMA, "drift": DRIFT_SCHEMA}
    functions: Mapping[str, pa.Schema] = {}

    def __init__(self, paths: list[Path], metadata: Mapping[str, object], now: datetime) -> None:
        self.server: str = str(metadata.get("server", ""))
        self._dataset = ds.dataset(list(map(str, paths)), format="parquet")
        self._metadata = metadata
        self._instant = now

    def now(self) -> datetime:
        """Return the time of the snapshot."""
        return self._instant

    def sent(self, scan: Scan) -> Mapping[str, object]:
        """Return the conditions that limit the parts of the files that are read."""
        return {"filter": expression_of(scan.conditions, _LIMITED)}

    def expected_rows(self, scan: Scan) -> int | None:
        """Return the number of rows of all files, or ``None`` if there are conditions."""
        return None if scan.conditions else self._dataset.count_rows()

    def open(self, scan: Scan) -> Iterable[pa.Table]:
        """Return the rows of a scan while they are read."""
        tables = self._state(scan)
        return iter([drift_table(list(tables), self._metadata)]) if scan.view == "drift" else tables

    def _state(self, scan: Scan) -> Iterator[pa.Table]:
        found = self._dataset.scanner(columns=STATE_SCHEMA.names, filter=expression_of(scan.conditions, _LIMITED))
        for batch in found.to_batches():
            if batch.num_rows or scan.view == "drift":
                yield with_schema(pa.Table.from_batches([batch]), STATE_SCHEMA)
