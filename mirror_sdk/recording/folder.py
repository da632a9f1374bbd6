"""Storage of a recording.

Events are appended to a journal, which survives a kill of the process. The journal is finalized when it reaches a size
or an age.
"""

from __future__ import annotations

import math
import os
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

import pandas as pd
import pyarrow as pa
from filelock import FileLock, Timeout

from mirror_sdk._fork import abandon_in_child, close_in_child, register_fork_handler
from mirror_sdk._protocol.defaults import DEFAULT_ROTATE_BYTES, DEFAULT_ROTATE_SECONDS
from mirror_sdk.arrow_tables.events import event_columns
from mirror_sdk.errors import InvalidValue
from mirror_sdk.events import Event
from mirror_sdk.recording import file_names, files
from mirror_sdk.recording.log_spans import LogSpan
from mirror_sdk.wire.subscriptions import PresubscriptionRule


class RecordingFolder:
    """The folder of a recording, which one recorder opens for writing.

    If an earlier recorder was killed, its journals are finalized first.

    Args:
        folder: The path of the folder, which is created if necessary.
        settings: The settings of the recording.
        rotate_bytes: The size in bytes at which a journal is finalized.
        rotate_seconds: The age of the oldest event, in seconds, at which a journal is finalized.
        clock: A function that returns the current time in seconds.

    Raises:
        OSError: The folder or its sidecar cannot be written.
        RecordingDamaged: A file in the folder is damaged.
        InvalidValue: The folder contains something else or another recording, or another recorder is running.

    Attributes:
        events: The number of events that were written.
        rules: The rules to remove when the recording ends.
    """

    def __init__(
        self,
        folder: Path,
        settings: files.RecordingSettings,
        *,
        rotate_bytes: int = DEFAULT_ROTATE_BYTES,
        rotate_seconds: float = DEFAULT_ROTATE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.path = folder
        self._rotate_bytes = rotate_bytes
        self._rotate_seconds = rotate_seconds
        self._clock = clock
        self._journal: tuple[BinaryIO, pa.RecordBatchStreamWriter] | None = None
        self._oldest_at: float | None = None
        self.events: int = 0
        self._last: LogSpan | None = None
        _require_recording_or_nothing(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            file_names.sidecar_of(folder).mkdir(exist_ok=True)
        except OSError as exc:
            raise InvalidValue(f"cannot create {folder}: {exc.strerror}; use a folder where you may write") from exc
        # The lock is not bound to a thread, because an asynchronous recorder acquires and releases it in different
        # threads.
        self._lock = FileLock(file_names.lock_path(folder), thread_local=False)
        # The folder is locked before it is read, because a running recorder would change the files.
        try:
            self._lock.acquire(timeout=0)
        except Timeout as exc:
            raise InvalidValue(f"{self.path} is in use by another recorder; stop it, or pass another folder") from exc
        self._is_forked = False
        register_fork_handler(self)
        try:
            existing = files.read_settings(folder)
            self._settings = self._with_id(existing, settings)
            if existing is None:
                files.clear_sidecar(folder)
            else:
                self._recover()
            self.rules: list[PresubscriptionRule] = files.read_rules(folder, self._settings)
        except BaseException:
            self._lock.release()
            raise

    def _after_fork_in_child(self) -> None:
        """Leave the files to the parent process. The child process does not flush, finalize or unlock them."""
        self._is_forked = True
        # Both processes share the lock and the journal.
        abandon_in_child((self._lock, self._journal))
        if self._journal is not None:
            close_in_child(self._journal[0].fileno())
            self._journal = None

    @property
    def is_open(self) -> bool:
        """Whether the folder can be written."""
        return not self._is_forked and self._lock.is_locked

    @property
    def position(self) -> int | None:
        """The number of the last entry that was read from the log; ``None`` in a new recording."""
        return None if self._last is None else self._last.seq

    @property
    def covered_until(self) -> datetime | None:
        """The time by the service's clock up to which nothing is missing; ``None`` if it is unknown."""
        return None if self._last is None else self._last.until_at

    def append(self, events: Iterable[Event], span: LogSpan | None) -> None:
        """Write events, and the span of the log in which they were read. They are on disk when the method returns.

        Raises:
            OSError: The events could not be written.
        """
        file, journal = self._journal or self._open_journal()
        columns = event_columns(events)
        arrays = [pa.array(columns[field.name], type=field.type) for field in files.STORED_SCHEMA]
        batch = pa.RecordBatch.from_arrays(arrays, schema=files.STORED_SCHEMA)
        journal.write_batch(batch, custom_metadata=files.batch_metadata(span))
        file.flush()
        os.fsync(file.fileno())
        # The position is updated only now, so that it is never ahead of the journal on disk.
        self.events += batch.num_rows
        if span is not None:
            self._last = span
        if batch.num_rows and self._oldest_at is None:
            self._oldest_at = self._clock()
        # The first journal is finalized immediately, so that readers always find a table.
        if self._number == 1 or file.tell() >= self._rotate_bytes:
            self.finalize()
        self.finalize_when_due()

    def write_state(self, state: pd.DataFrame) -> None:
        """Write a state table, on which later events build.

        Raises:
            OSError: The file could not be written.
        """
        files.write_state(self.path, state)

    def save_rules(self, rules: Sequence[PresubscriptionRule]) -> None:
        """Store the rules that have to be removed when the recording ends.

        If this recorder is killed, the next recorder removes them.

        Raises:
            OSError: The file could not be written.
        """
        if rules != self.rules:
            files.write_rules(self.path, self._settings, rules)
            self.rules = list(rules)

    def finalize(self) -> None:
        """Finalize the journal."""
        if self._journal is None:
            return
        file, journal = self._journal
        # This is reset first. If finalizing fails, the next recorder does it, and the next write starts another
        # journal.
        self._journal = self._oldest_at = None
        with file:
            journal.close()
        files.finalize(self.path, self._number, self._settings)

    @property
    def due_in_seconds(self) -> float:
        """The time until the journal has to be finalized, in seconds. It is ``inf`` while the journal has no events."""
        if self._oldest_at is None:
            return math.inf
        return max(0.0, self._rotate_seconds - (self._clock() - self._oldest_at))

    def finalize_when_due(self) -> None:
        """Finalize the journal if its oldest event is old enough."""
        if self.due_in_seconds <= 0:
            self.finalize()

    def close(self) -> None:
        """Finalize the journal and release the folder. Further calls do nothing."""
        if self._is_forked:
            return
        try:
            self.finalize()
        finally:
            self._lock.release()

    def _open_journal(self) -> tuple[BinaryIO, pa.RecordBatchStreamWriter]:
        # The journal is opened at the first write, so that a recorder that fails to start leaves the folder empty.
        self._number = max(files.event_numbers(self.path), default=0) + 1
        if self._number == 1:
            files.write_settings(self.path, self._settings)
        file = file_names.journal_path(self.path, self._number).open("wb")
        self._journal = file, pa.ipc.new_stream(file, files.STORED_SCHEMA)
        return self._journal

    def _with_id(self, old: files.RecordingSettings | None, new: files.RecordingSettings) -> files.RecordingSettings:
        """Return the new settings with the id of the existing recording."""
        if old is None:
            return new.model_copy(update={"id": uuid.uuid4().hex})
        # The key is unknown if the folder was copied without its sidecar.
        if old.key not in {None, new.key} and old.server == new.server:
            raise InvalidValue(
                f"{self.path} records the log of another access key; use that key, or pass another folder"
            )
        if (old.server, old.devices, old.paths) != (new.server, new.devices, new.paths):
            raise InvalidValue(
                f"{self.path} records devices={old.devices} paths={old.paths} of {old.server}; pass the"
                " same devices= and paths=, or use another folder"
            )
        return new.model_copy(update={"id": old.id})

    def _recover(self) -> None:
        files.write_settings(self.path, self._settings)
        for number in file_names.journal_numbers(self.path):
            if file_names.part_path(self.path, number).exists():
                # The previous recorder was killed between the two steps of finalizing. The finalized file is therefore
                # complete.
                files.remove_journal(self.path, number)
            else:
                files.finalize(self.path, number, self._settings)
        file_names.unfinished_path(self.path).unlink(missing_ok=True)
        self._last = files.last_span(self.path)


def _require_recording_or_nothing(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise InvalidValue(f"{folder} is a file, but a recording is a folder; pass another name")
    is_free = not folder.exists() or not any(folder.iterdir())
    if not is_free and files.read_settings(folder) is None:
        raise InvalidValue(f"{folder} contains other files; pass another folder")
