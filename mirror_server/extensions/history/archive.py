"""The archive: completed days as Parquet files, in a folder or at a URL that fsspec opens.

The path of a file is ``day=2026-11-22/devices-MIRROR-RUN-PART-WRITER.parquet``, so that pandas, DuckDB, Dask, Spark and
Polars read the folder as a data set with the column ``day``. Clocks that are far off would create a folder for each of
their rows, so rows of unusual days are in ``day=other``.

The database lists the valid files. Any other file remains from a process that was killed; see :meth:`Archive.names`. A
file never changes: when a device is erased, the other rows are written to a file with a new name, see
:func:`name_of_rewrite`. Several mirrors may share a folder. Each mirror recognizes its files, because their names
contain the name of the mirror.
"""

from __future__ import annotations

import errno
import hashlib
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any

import fsspec
import pyarrow as pa
from fsspec.implementations.local import LocalFileSystem

from mirror_server.store.backend import redacted

OTHER_DAY = "other"
"""The name for days without their own folder. Data sets use null for it, which pandas does not read."""

_SUFFIX = ".parquet"
_UNFINISHED = ".unfinished"
# Values may be personal data, in the archive as in the database.
_OWNER_ONLY_FOLDER = 0o700
_OWNER_ONLY_FILE = 0o600


def name_of_file(mirror: str, day: str, run: int, part: int, leader: str | None = None) -> str:
    """Return the name of a file. The parts of one run are sorted, one after the other.

    Args:
        mirror: The common part of the names of a mirror's files.
        day: The day of the rows.
        run: The number of the run.
        part: The number of the part.
        leader: The token of the leader if there are several processes: no other process ever writes this file.
    """
    by = "" if leader is None else f"-{hashlib.sha256(leader.encode()).hexdigest()[:8]}"
    return f"day={day}/devices-{mirror}-{run:06}-{part:04}{by}{_SUFFIX}"


def name_of_rewrite(name: str) -> str:
    """Return a new name for the remaining rows of a file. The suffix is longer than the suffix of a leader's files."""
    return f"{part_prefix(name)}-{uuid.uuid4().hex[:12]}{_SUFFIX}"


def part_prefix(name: str) -> str:
    """Return the part of a file's name that the names of its replacements also have."""
    return _begin_of(name, 4)


def run_prefix(name: str) -> str:
    """Return the common part of the names of the files of one run."""
    return _begin_of(name, 3)


class Archive:
    """Files by name. A file appears complete or not at all.

    Args:
        location: A folder, or a URL.

    Raises:
        ValueError: No installed package opens such a URL.
    """

    def __init__(self, location: str) -> None:
        self.location = location
        try:
            self._files, self._root = fsspec.core.url_to_fs(location)
        except (ImportError, ValueError) as error:
            raise ValueError(
                f"cannot open the archive {redacted(location)}: {error}; pass a folder, or a URL that fsspec can open"
            ) from error
        self._is_local = isinstance(self._files, LocalFileSystem)

    def make(self) -> None:
        """Make the folder if it does not exist.

        Raises:
            OSError: The folder cannot be created or written to.
        """
        if not self._is_local:
            self._files.makedirs(self._root, exist_ok=True)
            return
        for folder in reversed((Path(self._root), *Path(self._root).parents)):
            if not folder.exists():
                # One by one: ``parents=True`` would create the parents with the default mode.
                folder.mkdir(_OWNER_ONLY_FOLDER, exist_ok=True)
        if not os.access(self._root, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), self._root)

    def names(self, mirror: str) -> set[str]:
        """Return the files of a mirror that exist.

        Raises:
            OSError: The folder cannot be read.
        """
        # fsspec caches listings, but other processes write and delete files.
        self._files.invalidate_cache()
        # Not by a pattern of the full path, because the name of a folder may look like a pattern.
        found = (PurePosixPath(path).parts[-2:] for path in self._files.find(self._root, maxdepth=2))
        own = f"devices-{mirror}-"
        return {"/".join(names) for names in found if names[0].startswith("day=") and names[-1].startswith(own)}

    def source(self, name: str) -> Any:
        """Open a file for pyarrow.

        Raises:
            FileNotFoundError: The file does not exist.
            OSError: The file cannot be read.
        """
        if self._is_local:
            return pa.OSFile(self._path(name))
        # Read completely, so that a concurrent replacement does not matter; such files have some megabytes.
        return pa.BufferReader(self._files.cat_file(self._path(name)))

    @contextmanager
    def writing(self, name: str) -> Iterator[Any]:
        """Write a file. Afterwards it exists under its name, durably, or nothing has changed.

        Raises:
            OSError: The file cannot be written.
        """
        if not self._is_local:
            # Object stores show a file only when it is complete.
            sink = pa.BufferOutputStream()
            yield sink
            self._files.makedirs(self._path(name).rpartition("/")[0], exist_ok=True)
            self._files.pipe_file(self._path(name), sink.getvalue().to_pybytes())
            return
        path = Path(self._path(name))
        _make_folder(path.parent)
        unfinished = path.with_suffix(_UNFINISHED)
        try:
            # A file of a killed process may have another mode.
            unfinished.unlink(missing_ok=True)
            unfinished.touch(_OWNER_ONLY_FILE)
            with unfinished.open("wb") as file:
                yield file
                file.flush()
                # Before the file gets its name: after a crash, a file with a name is complete.
                os.fsync(file.fileno())
            unfinished.replace(path)
            _make_durable(path.parent)
        except BaseException:
            with suppress(OSError):
                unfinished.unlink()
            raise

    def size(self, name: str) -> int:
        """Return the size of a file in bytes."""
        self._files.invalidate_cache()
        return int(self._files.size(self._path(name)))

    def delete(self, name: str) -> None:
        """Delete a file, if it exists.

        Raises:
            OSError: The file cannot be deleted.
        """
        with suppress(FileNotFoundError):
            self._files.rm_file(self._path(name))

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"


def _begin_of(name: str, members: int) -> str:
    folder, _, file = name.partition("/")
    return f"{folder}/{'-'.join(file.removesuffix(_SUFFIX).split('-')[:members])}"


def _make_folder(folder: Path) -> None:
    """Make a folder in the archive's own, which must exist: if it does not, its disk may not be mounted."""
    if not folder.exists():
        folder.mkdir(_OWNER_ONLY_FOLDER)
        _make_durable(folder.parent)


def _make_durable(folder: Path) -> None:
    # Windows cannot open a folder to synchronize it.
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
