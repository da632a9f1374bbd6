"""Writing a recording: a journal that survives a kill, sealed into Parquet files by size and time."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import BinaryIO, Self

import pandas as pd
import pyarrow as pa
from filelock import FileLock, Timeout

from mirror_sdk._fork import close_in_child, leave_to_parent, tell_in_child
from mirror_sdk.errors import ValueRefused
from mirror_sdk.events import Event
from mirror_sdk.frames.events import event_columns
from mirror_sdk.recording import files
from mirror_sdk.recording.coverage import Span

_BEFORE_A_RECORDING = {"_lock", "_recording.unfinished"}


class RecordingFolder:
    """The folder of a recording, open for writing by one recorder.

    Args:
        folder: Where it is; made when it is not there.
        about: What is recorded.
        rotate_bytes: How large a journal may become before it is sealed.
        rotate_after: How old it may become.

    Raises:
        OSError: The folder cannot be written.
        RecordingDamaged: A file in it is not as it was written.
        ValueRefused: There is something else, a recording of something else, or another recorder at work.

    Attributes:
        position: Number of the last entry that was looked at; ``None`` in a new recording.
        events: How many events were written.
    """

    def __init__(self, folder: Path, about: files.About, *, rotate_bytes: int, rotate_after: timedelta) -> None:
        self.path = folder
        self._about = about
        self._rotate_bytes = rotate_bytes
        self._rotate_after = rotate_after
        self._journal: tuple[BinaryIO, pa.RecordBatchStreamWriter] | None = None
        self._began_at: datetime | None = None
        self.events: int = 0
        self.position: int | None = None
        if folder.exists() and not folder.is_dir():
            raise ValueRefused(f"{folder} is a file; a recording is a folder of files, give another name")
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = FileLock(folder / "_lock", thread_local=False)
        try:
            self._lock.acquire(timeout=0)
        except Timeout as exc:
            raise ValueRefused(f"{folder} has another recorder at work; stop it, or give another folder") from exc
        self._is_of_parent = False
        tell_in_child(self)
        try:
            self._check()
            self._recover()
        except BaseException:
            self._lock.release()
            raise

    def _begin_in_child(self) -> None:
        """The parent alone writes it: here nothing is flushed, sealed or unlocked."""
        self._is_of_parent = True
        # Of the lock and the journal there is one for both processes.
        leave_to_parent((self._lock, self._journal))
        if self._journal is not None:
            close_in_child(self._journal[0].fileno())
            self._journal = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_open(self) -> bool:
        """Whether it can be written."""
        return not self._is_of_parent and self._lock.is_locked

    def append(self, events: Iterable[Event], span: Span | None, now: datetime) -> None:
        """Write events, and how far the log was looked at; they are on disk when this returns.

        Raises:
            OSError: They could not be written.
        """
        file, journal = self._journal or self._begin(now)
        columns = event_columns(events)
        arrays = [pa.array(columns[field.name], type=field.type) for field in files.STORED_SCHEMA]
        batch = pa.RecordBatch.from_arrays(arrays, schema=files.STORED_SCHEMA)
        journal.write_batch(batch, custom_metadata=files.batch_metadata(span))
        file.flush()
        os.fsync(file.fileno())
        self.events += batch.num_rows
        if span is not None:
            self.position = span.seq
        if file.tell() >= self._rotate_bytes or (self._began_at and now - self._began_at >= self._rotate_after):
            self.seal()

    def write_state(self, state: pd.DataFrame) -> None:
        """Keep a state table to begin from.

        Raises:
            OSError: It could not be written.
        """
        number = max(files.state_numbers(self.path), default=0) + 1
        target = files.state_path(self.path, number)
        unfinished = target.with_suffix(".unfinished")
        state.to_parquet(unfinished, write_page_checksum=True)
        unfinished.replace(target)

    def seal(self) -> None:
        """Make a Parquet file of what the journal holds."""
        if self._journal is None:
            return
        file, journal = self._journal
        self._journal = None
        with file:
            journal.close()
        files.seal(self.path, self._number)

    def close(self) -> None:
        """Seal it and leave it to others; once is enough, more does no harm."""
        if self._is_of_parent:
            return
        try:
            self.seal()
        finally:
            self._lock.release()

    def _begin(self, now: datetime) -> tuple[BinaryIO, pa.RecordBatchStreamWriter]:
        # Not before there is something to write: what could not begin leaves a folder that is free for something else.
        if files.read_about(self.path) is None:
            files.write_about(self.path, self._about)
        self._number = max(files.part_numbers(self.path), default=0) + 1
        file = files.journal_path(self.path, self._number).open("wb")
        self._journal = file, pa.ipc.new_stream(file, files.STORED_SCHEMA)
        self._began_at = now
        return self._journal

    def _check(self) -> None:
        known = files.read_about(self.path)
        if known is None:
            if any(path.name not in _BEFORE_A_RECORDING for path in self.path.iterdir()):
                raise ValueRefused(f"{self.path} holds other files; give another folder")
        elif known.key not in {None, self._about.key} and known.server == self._about.server:
            raise ValueRefused(
                f"{self.path} records the log of another access key, and each key has a log of its own; go on with the "
                "same, or give another folder"
            )
        elif known.model_copy(update={"key": self._about.key}) != self._about:
            raise ValueRefused(
                f"{self.path} records devices={known.devices} paths={known.paths} of {known.server}; go on with the "
                "same, or give another folder"
            )

    def _recover(self) -> None:
        for leftover in self.path.glob("*.unfinished"):
            leftover.unlink()
        for sealed in set(files.part_numbers(self.path)):
            files.journal_path(self.path, sealed).unlink(missing_ok=True)
        for number in files.journal_numbers(self.path):
            files.seal(self.path, number)
        spans = [span for number in files.part_numbers(self.path) for span in files.read_part(self.path, number)[1]]
        self.position = spans[-1].seq if spans else None
