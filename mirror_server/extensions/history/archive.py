"""The archive of the history, which stores completed days as Parquet files in a folder or at a URL that fsspec opens.

The path of a file is ``day=2026-11-22/devices-MIRROR-RUN-PART-WRITER.parquet``, so pandas, DuckDB, Dask, Spark and
Polars can read the folder as a data set with the column ``day``. The rows of unusual days are in ``day=other``, because
a clock that is far off would otherwise create a folder for each of its rows.

The database lists the valid files. All other files were left by a process that was killed; see :meth:`Archive.names`. A
file never changes. When a device is erased, the remaining rows are written to a file with a new name; see
:func:`name_of_rewrite`. Several mirrors may share a folder, because each recognizes its files by the MIRROR part of
their names.
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
"""The value of ``day`` for days without a folder. Data sets use null for this, but pandas cannot read null there."""

_SUFFIX = ".parquet"
_UNFINISHED = ".unfinished"
# Values may be personal data, so only the owner may read the archive, as with the database.
_OWNER_ONLY_FOLDER = 0o700
_OWNER_ONLY_FILE = 0o600


def name_of_file(mirror: str, day: str, run: int, part: int, leader: str | None = None) -> str:
    """Return the name of a file. The files of one run contain sorted rows, which continue from one part to the next.

    Args:
        mirror: The name of the mirror, which all of its files have in common.
        day: The day of the rows.
        run: The number of the run.
        part: The number of the file within the run.
        leader: The token of the leader if there are several processes, so that no other process ever writes this file.
    """
    by = "" if leader is None else f"-{hashlib.sha256(leader.encode()).hexdigest()[:8]}"
    return f"day={day}/devices-{mirror}-{run:06}-{part:04}{by}{_SUFFIX}"


def name_of_rewrite(name: str) -> str:
    """Return a new name for the remaining rows of a file. The suffix is longer than the suffix of a leader's files."""
    return f"{part_prefix(name)}-{uuid.uuid4().hex[:12]}{_SUFFIX}"


def part_prefix(name: str) -> str:
    """Return the prefix that the names of a file and of its replacements have in common."""
    return _begin_of(name, 4)


def run_prefix(name: str) -> str:
    """Return the prefix that the names of all files of a run have in common."""
    return _begin_of(name, 3)


class Archive:
    """The files of an archive, by name. A file becomes visible only when it is complete.

    Args:
        location: The path of a folder, or a URL.

    Raises:
        ValueError: No installed package can open the URL.
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
        """Create the folder of the archive, unless it already exists.

        Raises:
            OSError: The folder cannot be created or written to.
        """
        if not self._is_local:
            self._files.makedirs(self._root, exist_ok=True)
            return
        for folder in reversed((Path(self._root), *Path(self._root).parents)):
            if not folder.exists():
                # The folders are created one by one, because ``parents=True`` would create the parents with the default
                # mode.
                folder.mkdir(_OWNER_ONLY_FOLDER, exist_ok=True)
        if not os.access(self._root, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), self._root)

    def names(self, mirror: str) -> set[str]:
        """Return the names of all existing files of a mirror.

        Raises:
            OSError: The folder cannot be read.
        """
        # fsspec caches listings, but other processes also write and delete files.
        self._files.invalidate_cache()
        # The names are not found by a pattern for the full path, because the name of a folder may look like a pattern.
        found = (PurePosixPath(path).parts[-2:] for path in self._files.find(self._root, maxdepth=2))
        own = f"devices-{mirror}-"
        return {"/".join(names) for names in found if names[0].startswith("day=") and names[-1].startswith(own)}

    def source(self, name: str) -> Any:
        """Open a file in a form that pyarrow can read.

        Raises:
            FileNotFoundError: The file does not exist.
            OSError: The file cannot be read.
        """
        if self._is_local:
            return pa.OSFile(self._path(name))
        # The file is read completely, so that its concurrent replacement does not matter. Such files have a few
        # megabytes.
        return pa.BufferReader(self._files.cat_file(self._path(name)))

    @contextmanager
    def writing(self, name: str) -> Iterator[Any]:
        """Write a file. The file either exists afterwards under its name, durably, or nothing has changed.

        Raises:
            OSError: The file cannot be written.
        """
        if not self._is_local:
            # Object stores show a file only after it is complete.
            sink = pa.BufferOutputStream()
            yield sink
            self._files.makedirs(self._path(name).rpartition("/")[0], exist_ok=True)
            self._files.pipe_file(self._path(name), sink.getvalue().to_pybytes())
            return
        path = Path(self._path(name))
        _make_folder(path.parent)
        unfinished = path.with_suffix(_UNFINISHED)
        try:
            # A file that was left by a killed process may have another mode.
            unfinished.unlink(missing_ok=True)
            unfinished.touch(_OWNER_ONLY_FILE)
            with unfinished.open("wb") as file:
                yield file
                file.flush()
                # This happens before the file gets its name, so that a file with a name is complete even after a crash.
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
        """Delete a file if it exists.

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
    """Create a folder in the folder of the archive.

    The folder of the archive is not created, because its disk may not be mounted.
    """
    if not folder.exists():
        folder.mkdir(_OWNER_ONLY_FOLDER)
        _make_durable(folder.parent)


def _make_durable(folder: Path) -> None:
    # Windows cannot open a folder in order to synchronize it.
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
