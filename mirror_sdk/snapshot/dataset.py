"""A snapshot on disk, as a folder of Parquet files. Each file has the devices of a range of ids.

``part-00001.parquet`` and so on contain the rows, sorted by device and path. ``part-00000.parquet`` has no rows. It
contains the metadata of the entire table, because pandas and Arrow read the metadata from the first file. It is a
separate file, because the metadata are known only at the end. ``_snapshot.json`` lists the files. pandas and Arrow
ignore it when they read the folder, because its name starts with an underscore.
"""

from __future__ import annotations

import os
import re
import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, ValidationError

from mirror_sdk._arguments import instant
from mirror_sdk._file_version import file_fault
from mirror_sdk._fork import import_locked
from mirror_sdk._fsync import fsync
from mirror_sdk.arrow_tables.columns import INSTANT
from mirror_sdk.arrow_tables.device_batches import concatenated, reencoded
from mirror_sdk.errors import InvalidValue
from mirror_sdk.events import utc_now
from mirror_sdk.frames.columns import to_frame
from mirror_sdk.frames.files import read_parquet, to_arrow
from mirror_sdk.sql.queryable import Queryable
from mirror_sdk.wire.model import JsonForm, plain

if TYPE_CHECKING:
    import pandas as pd

    from mirror_sdk.sql.source import ViewSource

_LIST = "_snapshot.json"
_VERSION: Final = 1
_FIRST = "part-00000.parquet"
_PART = re.compile(r"part-[0-9]{5,}\.parquet")
_GROUP_BYTES = 32 * 1024 * 1024


class DatasetFile(BaseModel):
    """A file of a dataset: the ids of its first and last device, and how many devices and rows it has."""

    name: Annotated[str, Field(pattern=r"^part-[0-9]{5,}\.parquet$")]
    first: str
    last: str
    devices: NonNegativeInt
    rows: NonNegativeInt


class _Metadata(BaseModel):
    """The metadata of a dataset. Only this member is read here."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow")

    devices: NonNegativeInt


class _Contents(BaseModel):
    """The complete list of the files of a dataset."""

    version: Literal[1]
    metadata: _Metadata = Field(alias="about")
    files: list[DatasetFile]


class SnapshotDataset(JsonForm, Queryable):
    """A dataset written by ``client.fleet.dataset()``.

    pandas, Arrow and Dask can read the folder without this class. The class checks that the dataset is complete, and
    provides its metadata.

    Args:
        folder: The path of the folder.

    Raises:
        InvalidValue: The folder is not a dataset, or a file is missing or cut off.

    Attributes:
        path: The path of the folder.
        metadata: The metadata, as in ``attrs["mirror"]`` of a snapshot.
        files: The files with rows, sorted by device id.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.path: Path = Path(folder).absolute()
        try:
            listed = (self.path / _LIST).read_bytes()
        except (FileNotFoundError, NotADirectoryError) as exc:
            raise InvalidValue(f"{folder} is not a dataset; pass a folder that client.fleet.dataset() wrote") from exc
        try:
            contents = _Contents.model_validate_json(listed)
        except ValidationError as exc:
            raise InvalidValue(
                f"{folder} cannot be read as a dataset ({_LIST}: {file_fault(listed, exc, _VERSION)}); write it"
                " again with client.fleet.dataset()"
            ) from exc
        self.metadata: dict[str, Any] = contents.metadata.model_dump()
        self.files: list[DatasetFile] = contents.files
        self._check(_FIRST, 0)
        for file in self.files:
            self._check(file.name, file.rows)

    def __repr__(self) -> str:
        return f"<SnapshotDataset {self.path}: {self.rows} rows of {self.device_count} devices>"

    @property
    def device_count(self) -> int:
        """The number of devices of the snapshot. Devices without resources have no rows.

        >>> client.fleet.dataset(folder / "fleet").device_count
        2
        """
        count: int = self.metadata["devices"]
        return count

    @property
    def rows(self) -> int:
        """The number of rows.

        >>> client.fleet.dataset(folder / "fleet").rows
        4
        """
        return sum(file.rows for file in self.files)

    @property
    def head(self) -> Path:
        """The file that has no rows, but the columns and the metadata.

        >>> client.fleet.dataset(folder / "fleet").head.name
        'part-00000.parquet'
        """
        return self.path / _FIRST

    @property
    def paths(self) -> list[Path]:
        """The files with rows. If there are none, the file without rows.

        >>> [path.name for path in client.fleet.dataset(folder / "fleet", devices_per_file=1).paths]
        ['part-00001.parquet', 'part-00002.parquet']
        """
        return [self.path / file.name for file in self.files] or [self.head]

    def to_dict(self) -> dict[str, Any]:
        """Return the path, the size and the metadata as a JSON-compatible dictionary.

        >>> client.fleet.dataset(folder / "fleet").to_dict()["rows"]
        4
        """
        members = {"path": self.path, "rows": self.rows, "metadata": self.metadata, "files": self.files}
        plain_members: dict[str, Any] = plain(members)
        return plain_members

    def to_frame(self) -> pd.DataFrame:
        """Return the table that ``client.fleet.snapshot()`` would have returned.

        >>> client.fleet.dataset(folder / "fleet").to_frame()["path"].tolist()
        ['/3/0/4', '/3311/0/5850', '/3311/0/5851', '/3303/0/5700']
        """
        return read_parquet(self.path)

    def _views(self) -> ViewSource:
        import_locked("mirror_sdk.sql.dataset")
        from mirror_sdk.sql.dataset import DatasetViews

        # The snapshot of an empty fleet may have no timestamp.
        taken_at = instant("taken_at", self.metadata.get("taken_at") or utc_now(), utc_now)
        return DatasetViews(self.paths, self.metadata, taken_at)

    def _check(self, name: str, rows: int) -> None:
        try:
            found = pq.read_metadata(self.path / name).num_rows
        except (OSError, pa.ArrowException) as exc:
            raise InvalidValue(f"{self.path} is incomplete: {name} is missing or cut off; write it again") from exc
        if found != rows:
            raise InvalidValue(f"{self.path} is incomplete: {name} has {found} rows instead of {rows}; write it again")


class DatasetWriter:
    """A writer of a dataset.

    It writes into a temporary folder, which is renamed when the dataset is complete and on disk.

    Args:
        folder: The path of the folder, which is created if necessary.
        devices_per_file: The maximum number of devices with rows in a file.
        raw: Whether to add the columns with payloads.
        tz: The time zone of the time columns.
        overwrite: Whether another dataset in the folder may be replaced.

    Raises:
        InvalidValue: The folder contains something else, ``devices_per_file`` is below 1, or ``tz`` is not a time zone.
        OSError: The folder cannot be read. When the context manager is entered, it means that the folder cannot be
            written.
    """

    def __init__(
        self, folder: str | os.PathLike[str], *, devices_per_file: int, raw: bool, tz: str | None, overwrite: bool
    ) -> None:
        # A symbolic link remains, and its target is replaced.
        self._folder = Path(folder).resolve()
        if devices_per_file < 1:
            raise InvalidValue(f"devices_per_file={devices_per_file} must be 1 or more")
        _require_free(self._folder, overwrite=overwrite)
        self._devices_per_file = devices_per_file
        self._empty = concatenated([], raw=raw)
        self._tz = tz
        self._schema = self._schema_with({})
        self._partial = _hidden_path(self._folder, "partial")
        self._files: list[DatasetFile] = []
        self._writer: pq.ParquetWriter | None = None
        self._waiting: list[pa.Table] = []
        self._waiting_bytes = 0

    def __enter__(self) -> Self:
        self._partial.parent.mkdir(parents=True, exist_ok=True)
        self._partial.mkdir()
        return self

    def __exit__(self, *_: object) -> None:
        if self._writer is not None:
            self._writer.close()
        shutil.rmtree(self._partial, ignore_errors=True)

    @property
    def rows(self) -> int:
        """The number of rows that were added so far."""
        return sum(file.rows for file in self._files)

    def add(self, table: pa.Table) -> None:
        """Write the rows of the next devices. All rows of a device must be in the same table."""
        begins = _begins(table)
        while begins:
            writer = self._writer or self._open_file(table["device_id"][begins[0]].as_py())
            file = self._files[-1]
            count = self._devices_per_file - file.devices
            batch, begins = begins[:count], begins[count:]
            end = begins[0] if begins else table.num_rows
            part = table.slice(batch[0], end - batch[0])
            # A slice still has the categories of the entire batch.
            self._waiting.append(part if part.num_rows == table.num_rows else reencoded(part))
            self._waiting_bytes += self._waiting[-1].nbytes
            file.last = part["device_id"][-1].as_py()
            file.devices += len(batch)
            file.rows += part.num_rows
            # Many small row groups would make the files larger and slower to read.
            if self._waiting_bytes >= _GROUP_BYTES:
                self._write_group(writer)
            if file.devices == self._devices_per_file:
                self._close_file()

    def finish(self, metadata: Mapping[str, object]) -> SnapshotDataset:
        """Move the complete dataset to its folder.

        Args:
            metadata: The metadata of the table.

        Raises:
            OSError: The dataset could not be written, or another process created the folder in the meantime.
        """
        self._close_file()
        with pq.ParquetWriter(self._partial / _FIRST, self._schema_with(metadata)) as first:
            first.write_table(self._empty.cast(first.schema))
        contents = _Contents(version=_VERSION, about=_Metadata.model_validate(metadata), files=self._files)
        (self._partial / _LIST).write_text(contents.model_dump_json(indent=1, by_alias=True), encoding="utf-8")
        # The files with rows are already on disk. All files must be on disk before the folder gets its name.
        for name in (_FIRST, _LIST):
            fsync(self._partial / name)
        _replace_folder(self._partial, self._folder)
        return SnapshotDataset(self._folder)

    def _open_file(self, first: str) -> pq.ParquetWriter:
        file = DatasetFile(name=f"part-{len(self._files) + 1:05}.parquet", first=first, last=first, devices=0, rows=0)
        self._writer = pq.ParquetWriter(self._partial / file.name, self._schema, write_page_checksum=True)
        self._files.append(file)
        return self._writer

    def _write_group(self, writer: pq.ParquetWriter) -> None:
        writer.write_table(concatenated(self._waiting).cast(self._schema))
        self._waiting.clear()
        self._waiting_bytes = 0

    def _close_file(self) -> None:
        """Close the open file, if there is one. The file is on disk when the method returns."""
        if self._writer is None:
            return
        if self._waiting:
            self._write_group(self._writer)
        self._writer.close()
        self._writer = None
        fsync(self._partial / self._files[-1].name)

    def _schema_with(self, metadata: Mapping[str, object]) -> pa.Schema:
        """Return the schema with the metadata that pandas needs to restore the same columns."""
        of_schema = to_arrow(to_frame(self._empty, metadata, tz=self._tz)).schema.metadata
        fields = [
            field.with_type(pa.timestamp("ms", tz=self._tz)) if self._tz and field.type == INSTANT else field
            for field in self._empty.schema
        ]
        return pa.schema(fields, metadata=of_schema)


def _begins(table: pa.Table) -> list[int]:
    """Return the index of the first row of each device."""
    if not table.num_rows:
        return []
    codes = table["device_id"].combine_chunks().indices.to_numpy()
    begins: list[int] = np.flatnonzero(np.diff(codes, prepend=-1)).tolist()
    return begins


def _require_free(folder: Path, *, overwrite: bool) -> None:
    if folder.exists() and not folder.is_dir():
        raise InvalidValue(f"{folder} is a file, but a dataset is a folder; pass another name")
    names = {path.name for path in folder.iterdir()} if folder.exists() else set()
    others = sorted(name for name in names if name != _LIST and not _PART.fullmatch(name))
    if others or (names and _LIST not in names):
        raise InvalidValue(f"{folder} contains other files; pass another folder")
    if names and not overwrite:
        raise InvalidValue(f"{folder} has a dataset already; pass another folder, or overwrite=True (--overwrite)")


def _hidden_path(folder: Path, purpose: str) -> Path:
    """Return a unique hidden path on the same file system."""
    return folder.parent / f".{folder.name}-{uuid.uuid4().hex[:12]}.{purpose}"


def _replace_folder(partial: Path, folder: Path) -> None:
    """Replace a folder.

    A reader sees the old or the new folder, or no folder for a short time.
    """
    old: Path | None = None
    if (folder / _LIST).exists():
        old = folder.replace(_hidden_path(folder, "replaced"))
    elif folder.exists():
        # The folder is empty. rmdir() fails if another process has written into it in the meantime.
        folder.rmdir()
    partial.replace(folder)
    # The new name must be on disk before the old files are deleted, because a power failure must not lose both.
    fsync(folder.parent)
    if old is not None:
        shutil.rmtree(old, ignore_errors=True)
