"""A snapshot on disk: a folder of Parquet files, each with the devices of a range of ids.

``part-00001.parquet`` and so on hold the rows, by device and path. ``part-00000.parquet`` has none: pandas and Arrow
take from the first file what the whole table is based on, which is known last. ``_snapshot.json`` lists the files;
names with an underscore are passed over by pandas and Arrow when they read the folder.
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

from mirror_sdk._disk import sync
from mirror_sdk._file_version import file_fault
from mirror_sdk.errors import InvalidValue
from mirror_sdk.frames.columns import to_frame
from mirror_sdk.frames.files import read_parquet, to_arrow
from mirror_sdk.tables.columns import INSTANT
from mirror_sdk.tables.device_batches import joined, recoded
from mirror_sdk.wire.model import JsonForm, plain

if TYPE_CHECKING:
    import pandas as pd

_LIST = "_snapshot.json"
_VERSION: Final = 1
_FIRST = "part-00000.parquet"
_PART = re.compile(r"part-[0-9]{5,}\.parquet")
_GROUP_ROWS = 100_000
_GROUP_BYTES = 32 * 1024 * 1024


class DatasetFile(BaseModel):
    """A file of a dataset: the ids of the first and the last device with rows in it, and how many of both."""

    name: Annotated[str, Field(pattern=r"^part-[0-9]{5,}\.parquet$")]
    first: str
    last: str
    devices: NonNegativeInt
    rows: NonNegativeInt


class _About(BaseModel):
    """What it is based on; what is not read here stands beside."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow")

    devices: NonNegativeInt


class _Contents(BaseModel):
    """The list of files; what stands here is all there is."""

    version: Literal[1]
    about: _About
    files: list[DatasetFile]


class SnapshotDataset(JsonForm):
    """The dataset that ``client.fleet.dataset()`` wrote.

    pandas, Arrow and Dask read the folder as it is; this also tells what it is based on, and sees that it is whole.

    Args:
        folder: Where it is.

    Raises:
        InvalidValue: There is no dataset, or a file of it is missing or cut off.

    Attributes:
        path: Where it is.
        about: What it is based on, as in ``attrs["mirror"]`` of a snapshot.
        files: The files with rows, by the ids of the devices in them.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.path: Path = Path(folder).absolute()
        try:
            listed = (self.path / _LIST).read_bytes()
        except (FileNotFoundError, NotADirectoryError) as exc:
            raise InvalidValue(f"{folder} is not a dataset that client.fleet.dataset() wrote") from exc
        try:
            contents = _Contents.model_validate_json(listed)
        except ValidationError as exc:
            raise InvalidValue(
                f"{folder} is not a dataset that can be read ({_LIST}: {file_fault(listed, exc, _VERSION)}); write it"
                " anew with client.fleet.dataset()"
            ) from exc
        self.about: dict[str, Any] = contents.about.model_dump()
        self.files: list[DatasetFile] = contents.files
        self._check(_FIRST, 0)
        for file in self.files:
            self._check(file.name, file.rows)

    def __repr__(self) -> str:
        return f"<SnapshotDataset {self.path}: {self.rows} rows of {self.device_count} devices>"

    @property
    def device_count(self) -> int:
        """How many devices the snapshot has; those without any resource have no rows.

        >>> client.fleet.dataset(folder / "fleet").device_count
        2
        """
        count: int = self.about["devices"]
        return count

    @property
    def rows(self) -> int:
        """How many rows it has.

        >>> client.fleet.dataset(folder / "fleet").rows
        4
        """
        return sum(file.rows for file in self.files)

    @property
    def head(self) -> Path:
        """The file without rows, which has the columns and what all is based on.

        >>> client.fleet.dataset(folder / "fleet").head.name
        'part-00000.parquet'
        """
        return self.path / _FIRST

    @property
    def paths(self) -> list[Path]:
        """The files with rows; the one without where there are none.

        >>> [path.name for path in client.fleet.dataset(folder / "fleet", devices_per_file=1).paths]
        ['part-00001.parquet', 'part-00002.parquet']
        """
        return [self.path / file.name for file in self.files] or [self.head]

    def to_dict(self) -> dict[str, Any]:
        """Where it is, how large it is and what it is based on, for any JSON encoder.

        >>> client.fleet.dataset(folder / "fleet").to_dict()["rows"]
        4
        """
        told = {"path": self.path, "rows": self.rows, "about": self.about, "files": self.files}
        found: dict[str, Any] = plain(told)
        return found

    def to_frame(self) -> pd.DataFrame:
        """All of it, as ``client.fleet.snapshot()`` would have given it.

        >>> client.fleet.dataset(folder / "fleet").to_frame()["path"].tolist()
        ['/3/0/4', '/3311/0/5850', '/3311/0/5851', '/3303/0/5700']
        """
        return read_parquet(self.path)

    def _check(self, name: str, rows: int) -> None:
        try:
            found = pq.read_metadata(self.path / name).num_rows
        except (OSError, pa.ArrowException) as exc:
            raise InvalidValue(f"{self.path} is not whole: {name} is missing or cut off; write it anew") from exc
        if found != rows:
            raise InvalidValue(f"{self.path} is not whole: {name} has {found} rows instead of {rows}; write it anew")


class DatasetWriter:
    """Writes a dataset: into a folder beside, which takes its place when all of it is on disk.

    Args:
        folder: Where it is to be; made when it is not there.
        devices_per_file: How many devices with rows a file has at most.
        raw: Whether the payloads are columns too.
        tz: Time zone of the time columns.
        overwrite: Whether it may take the place of a dataset that is there.

    Raises:
        InvalidValue: There is something else, ``devices_per_file`` is not 1 or more, or ``tz`` is no time zone.
        OSError: The folder cannot be read; it cannot be written, when the writer is entered.
    """

    def __init__(
        self, folder: str | os.PathLike[str], *, devices_per_file: int, raw: bool, tz: str | None, overwrite: bool
    ) -> None:
        # A link stays one: what it leads to is replaced.
        self._folder = Path(folder).resolve()
        if devices_per_file < 1:
            raise InvalidValue(f"devices_per_file={devices_per_file} is not 1 or more")
        _refuse_what_is_there(self._folder, overwrite=overwrite)
        self._devices_per_file = devices_per_file
        self._empty = joined([], raw=raw)
        self._tz = tz
        self._schema = self._schema_with({})
        self._partial = _beside(self._folder, "partial")
        self._files: list[DatasetFile] = []
        self._file: _PartFile | None = None

    def __enter__(self) -> Self:
        self._partial.parent.mkdir(parents=True, exist_ok=True)
        self._partial.mkdir()
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.abandon()
        shutil.rmtree(self._partial, ignore_errors=True)

    @property
    def rows(self) -> int:
        """How many rows were written."""
        return sum(file.rows for file in self._files) + (self._file.rows if self._file else 0)

    def add(self, table: pa.Table) -> None:
        """Write the rows of some devices, which follow those before; all rows of a device come at once."""
        begins = _begins(table)
        while begins:
            file = self._file or self._open()
            some, begins = (
                begins[: self._devices_per_file - file.devices],
                begins[self._devices_per_file - file.devices :],
            )
            end = begins[0] if begins else table.num_rows
            part = table.slice(some[0], end - some[0])
            file.add(part if part.num_rows == table.num_rows else recoded(part), len(some))
            if file.devices == self._devices_per_file:
                self._close_file()

    def finish(self, about: Mapping[str, object]) -> SnapshotDataset:
        """Put the dataset into its place.

        Args:
            about: What it is based on.

        Raises:
            OSError: It could not be written, or something came into its place meanwhile.
        """
        self._close_file()
        with pq.ParquetWriter(self._partial / _FIRST, self._schema_with(about)) as first:
            first.write_table(self._empty.cast(first.schema))
        contents = _Contents(version=_VERSION, about=_About.model_validate(about), files=self._files)
        (self._partial / _LIST).write_text(contents.model_dump_json(indent=1), encoding="utf-8")
        for name in (_FIRST, _LIST):
            sync(self._partial / name)
        _put_in_place(self._partial, self._folder)
        return SnapshotDataset(self._folder)

    def _open(self) -> _PartFile:
        self._file = _PartFile(self._partial / f"part-{len(self._files) + 1:05}.parquet", self._schema)
        return self._file

    def _close_file(self) -> None:
        if self._file is not None:
            self._files.append(self._file.close())
            self._file = None

    def _schema_with(self, about: Mapping[str, object]) -> pa.Schema:
        """The columns with what pandas needs to make the same of them."""
        metadata = to_arrow(to_frame(self._empty, about, tz=self._tz)).schema.metadata
        fields = [
            field.with_type(pa.timestamp("ms", tz=self._tz)) if self._tz and field.type == INSTANT else field
            for field in self._empty.schema
        ]
        return pa.schema(fields, metadata=metadata)


class _PartFile:
    """A file that is being written, group of rows by group of rows."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._path = path
        self._writer = pq.ParquetWriter(path, schema, write_page_checksum=True)
        self._waiting: list[pa.Table] = []
        self._first = self._last = ""
        self.devices = 0
        self.rows = 0

    def add(self, table: pa.Table, devices: int) -> None:
        """Write rows, or keep them until there are enough for a group."""
        self._first = self._first or table["device_id"][0].as_py()
        self._last = table["device_id"][-1].as_py()
        self.devices += devices
        self.rows += table.num_rows
        self._waiting.append(table)
        if sum(one.num_rows for one in self._waiting) >= _GROUP_ROWS or self._waiting_bytes >= _GROUP_BYTES:
            self._write()

    def close(self) -> DatasetFile:
        """Write the rest; it is on disk when this returns."""
        self._write()
        self._writer.close()
        sync(self._path)
        return DatasetFile(
            name=self._path.name, first=self._first, last=self._last, devices=self.devices, rows=self.rows
        )

    def abandon(self) -> None:
        """Let go of the file, which is not needed."""
        self._writer.close()

    @property
    def _waiting_bytes(self) -> int:
        return sum(int(one.nbytes) for one in self._waiting)

    def _write(self) -> None:
        if self._waiting:
            self._writer.write_table(joined(self._waiting).cast(self._writer.schema))
            self._waiting.clear()


def _begins(table: pa.Table) -> list[int]:
    """The row with which each device begins."""
    if not table.num_rows:
        return []
    codes = table["device_id"].combine_chunks().indices.to_numpy()
    begins: list[int] = np.flatnonzero(np.diff(codes, prepend=-1)).tolist()
    return begins


def _refuse_what_is_there(folder: Path, *, overwrite: bool) -> None:
    if folder.exists() and not folder.is_dir():
        raise InvalidValue(f"{folder} is a file; a dataset is a folder of files, give another name")
    names = {path.name for path in folder.iterdir()} if folder.exists() else set()
    strange = sorted(name for name in names if name != _LIST and not _PART.fullmatch(name))
    if strange or (names and _LIST not in names):
        raise InvalidValue(f"{folder} is not empty, and holds something else than a dataset; give another folder")
    if names and not overwrite:
        raise InvalidValue(f"{folder} has a dataset already; give another folder, or overwrite=True (--overwrite)")


def _beside(folder: Path, what: str) -> Path:
    """A name nobody else has, hidden, and on the same disk."""
    return folder.parent / f".{folder.name}-{uuid.uuid4().hex[:12]}.{what}"


def _put_in_place(partial: Path, folder: Path) -> None:
    """Have one folder take the place of another: whoever looks sees the one or the other, or for a moment none."""
    old: Path | None = None
    if (folder / _LIST).exists():
        old = folder.replace(_beside(folder, "replaced"))
    elif folder.exists():
        folder.rmdir()
    partial.replace(folder)
    sync(folder.parent)
    if old is not None:
        shutil.rmtree(old, ignore_errors=True)
