"""Writes a recording: a journal that survives a kill, and is finalized by size and time."""

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
from mirror_sdk.errors import InvalidValue
from mirror_sdk.events import Event
from mirror_sdk.recording import files, layout
from mirror_sdk.recording.coverage import Span
from mirror_sdk.tables.events import event_columns
from mirror_sdk.wire.subscriptions import PresubscriptionRule


class RecordingFolder:
    """The folder of a recording, open for writing by one recorder. Journals of a killed recorder are finalized first.

    Args:
        folder: The folder; it is created if necessary.
        about: What is recorded.
        rotate_bytes: The size in bytes at which a journal is finalized.
        rotate_seconds: The age in seconds of its oldest event at which a journal is finalized.
        clock: Returns seconds.

    Raises:
        OSError: The folder or its sidecar cannot be written.
        RecordingDamaged: A file in it is damaged.
        InvalidValue: It contains something else or another recording, or another recorder is at work.

    Attributes:
        events: The number of events that were written.
        rules: The rules to remove when the recording ends.
    """

    def __init__(
        self,
        folder: Path,
        about: files.About,
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
        self._waiting_since: float | None = None
        self.events: int = 0
        self._last: Span | None = None
        _require_recording_or_nothing(folder)
        folder.mkdir(parents=True, exist_ok=True)
        layout.sidecar_of(folder).mkdir(exist_ok=True)
        self._lock = FileLock(layout.lock_path(folder), thread_local=False)
        # Nothing is read before, since a recorder at work would change it.
        try:
            self._lock.acquire(timeout=0)
        except Timeout as exc:
            raise InvalidValue(f"{self.path} has another recorder at work; stop it, or give another folder") from exc
        self._is_of_parent = False
        register_fork_handler(self)
        try:
            known = files.read_about(folder)
            self._about = self._with_id(known, about)
            if known is None:
                files.clear_sidecar(folder)
            else:
                self._recover()
            self.rules: list[PresubscriptionRule] = files.read_rules(folder, self._about)
        except BaseException:
            self._lock.release()
            raise

    def _after_fork_in_child(self) -> None:
        """Leave the files to the parent process: nothing is flushed, finalized or unlocked here."""
        self._is_of_parent = True
        # Both processes share the lock and the journal.
        abandon_in_child((self._lock, self._journal))
        if self._journal is not None:
            close_in_child(self._journal[0].fileno())
            self._journal = None

    @property
    def is_open(self) -> bool:
        """Whether it can be written."""
        return not self._is_of_parent and self._lock.is_locked

    @property
    def position(self) -> int | None:
        """Number of the last entry that was read from the log; ``None`` in a new recording."""
        return None if self._last is None else self._last.seq

    @property
    def known_until(self) -> datetime | None:
        """The instant by the service's clock up to which nothing is missing; ``None`` if unknown."""
        return None if self._last is None else self._last.until_at

    def append(self, events: Iterable[Event], span: Span | None) -> None:
        """Write events and the span of the log that was read. They are on disk when this returns.

        Raises:
            OSError: They could not be written.
        """
        file, journal = self._journal or self._begin()
        columns = event_columns(events)
        arrays = [pa.array(columns[field.name], type=field.type) for field in files.STORED_SCHEMA]
        batch = pa.RecordBatch.from_arrays(arrays, schema=files.STORED_SCHEMA)
        journal.write_batch(batch, custom_metadata=files.batch_metadata(span))
        file.flush()
        os.fsync(file.fileno())
        # Not before it is on disk, so that the position is never ahead of the journal.
        self.events += batch.num_rows
        if span is not None:
            self._last = span
        if batch.num_rows and self._waiting_since is None:
            self._waiting_since = self._clock()
        # The first one is finalized at once, so that readers find a table from the first moment on.
        if self._number == 1 or file.tell() >= self._rotate_bytes:
            self.finalize()
        self.finalize_when_due()

    def write_state(self, state: pd.DataFrame) -> None:
        """Write a state table to start from.

        Raises:
            OSError: It could not be written.
        """
        files.write_state(self.path, state)

    def note_rules(self, rules: Sequence[PresubscriptionRule]) -> None:
        """Write the rules that this recorder, or the next one, has to remove when the recording ends.

        Raises:
            OSError: It could not be written.
        """
        if rules != self.rules:
            files.write_rules(self.path, self._about, rules)
            self.rules = list(rules)

    def finalize(self) -> None:
        """Finalize the journal."""
        if self._journal is None:
            return
        file, journal = self._journal
        self._journal = self._waiting_since = None
        with file:
            journal.close()
        files.finalize(self.path, self._number, self._about)

    @property
    def due_in_seconds(self) -> float:
        """Seconds until the journal has to be finalized; ``inf`` while it has no event."""
        if self._waiting_since is None:
            return math.inf
        return max(0.0, self._rotate_seconds - (self._clock() - self._waiting_since))

    def finalize_when_due(self) -> None:
        """Finalize the journal if its oldest event is old enough."""
        if self.due_in_seconds <= 0:
            self.finalize()

    def close(self) -> None:
        """Finalize the journal and release the folder. Closing it again does nothing."""
        if self._is_of_parent:
            return
        try:
            self.finalize()
        finally:
            self._lock.release()

    def _begin(self) -> tuple[BinaryIO, pa.RecordBatchStreamWriter]:
        # Not before there is something to write: a recorder that could not start leaves the folder free for others.
        self._number = max(files.event_numbers(self.path), default=0) + 1
        if self._number == 1:
            files.write_about(self.path, self._about)
        file = layout.journal_path(self.path, self._number).open("wb")
        self._journal = file, pa.ipc.new_stream(file, files.STORED_SCHEMA)
        return self._journal

    def _with_id(self, known: files.About | None, about: files.About) -> files.About:
        """Return what is recorded, with the id of the existing recording.

        Raises:
            InvalidValue: The existing recording is of something else.
        """
        if known is None:
            return about.model_copy(update={"id": uuid.uuid4().hex})
        if known.key not in {None, about.key} and known.server == about.server:
            raise InvalidValue(
                f"{self.path} records the log of another access key, and each key has a log of its own; go on with the "
                "same, or give another folder"
            )
        if (known.server, known.devices, known.paths) != (about.server, about.devices, about.paths):
            raise InvalidValue(
                f"{self.path} records devices={known.devices} paths={known.paths} of {known.server}; go on with the "
                "same, or give another folder"
            )
        return about.model_copy(update={"id": known.id})

    def _recover(self) -> None:
        files.write_about(self.path, self._about)
        for number in layout.journal_numbers(self.path):
            if layout.part_path(self.path, number).exists():
                files.remove_journal(self.path, number)
            else:
                files.finalize(self.path, number, self._about)
        layout.unfinished_path(self.path).unlink(missing_ok=True)
        self._last = files.last_span(self.path)


def _require_recording_or_nothing(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise InvalidValue(f"{folder} is a file; a recording is a folder of files, give another name")
    is_free = not folder.exists() or not any(folder.iterdir())
    if not is_free and files.read_about(folder) is None:
        raise InvalidValue(f"{folder} holds other files; give another folder")
