"""SQL queries over the archive of a server's history, which is a folder of Parquet files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mirror_sdk.arrow_tables.history import HISTORY_SCHEMA, history_of_batch
from mirror_sdk.errors import InvalidValue
from mirror_sdk.events import utc_now
from mirror_sdk.sql.conditions import expression_of
from mirror_sdk.sql.queryable import Queryable
from mirror_sdk.sql.source import Scan

_FILES = "day=*/devices-*.parquet"
_LIMITED = ("device_id", "endpoint_name", "path", "changed_at")
_BATCH_ROWS = 65_536


class HistoryArchive(Queryable):
    """The archive of a history, which ``mirror-server run --history-archive FOLDER`` writes.

    It contains the completed days, also of devices that no longer exist. The view ``history`` has the declared units
    only. If several mirrors share the folder, it has the rows of all of them. ``now()`` is the time of this machine.

    Args:
        folder: The path of the folder.

    Raises:
        InvalidValue: The folder has no files of an archive.

    Attributes:
        path: The path of the folder.
    """

    name = "this archive"
    server = ""
    views: Mapping[str, pa.Schema] = {"history": HISTORY_SCHEMA}
    functions: Mapping[str, pa.Schema] = {}

    def __init__(self, folder: str | PathLike[str]) -> None:
        self.path: Path = Path(folder).absolute()
        if not any(self.path.glob(_FILES)):
            raise InvalidValue(
                f"{folder} is not the archive of a history; pass the folder of mirror-server run --history-archive"
            )

    def __repr__(self) -> str:
        return f"<HistoryArchive {self.path}>"

    def _views(self) -> HistoryArchive:
        return self

    def now(self) -> datetime:
        """Return the time of this machine."""
        return utc_now()

    def sent(self, scan: Scan) -> Mapping[str, object]:
        """Return the conditions that limit the parts of the files that are read."""
        return {"filter": expression_of(scan.conditions, _LIMITED)}

    def expected_rows(self, scan: Scan) -> int | None:
        """Return the number of rows of all files, or ``None`` if there are conditions."""
        return None if scan.conditions else int(self._dataset().count_rows())

    def open(self, scan: Scan) -> Iterable[pa.Table]:
        """Return the rows of a scan while they are read."""
        return _read(self._dataset(), scan)

    def _dataset(self) -> Any:
        # Imported here, because recordings import this package, and this import takes time.
        import pyarrow.dataset as ds

        return ds.dataset(sorted(map(str, self.path.glob(_FILES))), format="parquet")


def _read(dataset: Any, scan: Scan) -> Iterator[pa.Table]:
    found = dataset.scanner(filter=expression_of(scan.conditions, _LIMITED), batch_size=_BATCH_ROWS)
    for batch in found.to_batches():
        if batch.num_rows:
            value = pc.coalesce(batch.column("value").cast(pa.binary()), batch.column("value_binary"))
            index = batch.schema.get_field_index("value")
            yield history_of_batch(batch.set_column(index, "value", value))
