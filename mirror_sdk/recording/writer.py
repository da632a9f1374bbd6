"""Storage of the log entries that a recorder reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from os import PathLike
from pathlib import Path

import pandas as pd
import pyarrow as pa

from mirror_sdk._arguments import real
from mirror_sdk._protocol.gap_warnings import warn_of_gap
from mirror_sdk._warnings import SourceLine, warn
from mirror_sdk.arrow_tables.columns import text
from mirror_sdk.arrow_tables.units import UnitNames, Units, units_of
from mirror_sdk.errors import InvalidValue, NotSubscribedWarning
from mirror_sdk.events import Event, event_filter, read_events, unreadable_keys, utc_now
from mirror_sdk.recording.files import VERSION, RecordingSettings
from mirror_sdk.recording.folder import RecordingFolder
from mirror_sdk.recording.log_spans import LogSpan
from mirror_sdk.values import NO_VALUE
from mirror_sdk.wire.log_entries import Batch
from mirror_sdk.wire.model import write_timestamp


class RecordingWriter:
    """A writer, which stores batches of the log in the folder of a recording.

    Args:
        path: The folder of the recording.
        server: The address of the service.
        key: The identifier of the access key. Each access key has a separate log.
        devices: The ids of the devices to record; ``None`` for all.
        paths: The path patterns to record; ``None`` for all.
        rotate_bytes: The size in bytes at which a file is finalized.
        rotate_seconds: The age of the oldest event, in seconds, at which a file is finalized.
        called_from: The line of the program that started the recording. Warnings point to this line.
        now: A function that returns the current time.

    Raises:
        OSError: The folder cannot be written.
        TypeError: A single string was passed instead of a list of strings.
        InvalidValue: The folder contains something else or another recording, another recorder is running, or a
            rotation limit is not above 0.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        server: str,
        key: str,
        devices: Sequence[str] | None,
        paths: Sequence[str] | None,
        rotate_bytes: int,
        rotate_seconds: float,
        called_from: SourceLine | None = None,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._called_from = called_from
        self._is_selected = event_filter(paths, devices)
        for name, value in (("rotate_bytes", rotate_bytes), ("rotate_seconds", rotate_seconds)):
            if (real(value) or 0) <= 0:
                raise InvalidValue(f"{name}={value!r} must be a number above 0")
        settings = RecordingSettings(
            version=VERSION,
            server=server,
            key=key,
            devices=None if devices is None else sorted(devices),
            paths=None if paths is None else sorted(paths),
        )
        self._now = now
        self.folder: RecordingFolder = RecordingFolder(
            Path(path).absolute(),
            settings,
            rotate_bytes=rotate_bytes,
            rotate_seconds=rotate_seconds,
        )
        self.needs_state: bool = True
        self.uncovered: str | None = None
        self._units: Units = {}
        self._named = UnitNames()
        self._covered_from: datetime | None = None

    def start(self, position: int | None, served_at: datetime | None, state: pd.DataFrame) -> None:
        """Write the start position in the log, and a state table that was read after it.

        Raises:
            OSError: The files could not be written.
        """
        if self.folder.position is None:
            self.write(Batch(served_at=served_at), after=None, seq=position)
        self.write_state(state)

    def write_end(self, position: int | None, served_at: datetime | None) -> None:
        """Record that the log has no further entries up to a time, if it ends at the last recorded position.

        Raises:
            OSError: The file could not be written.
        """
        if position == self.folder.position:
            self.write(Batch(served_at=served_at), after=position, seq=position)

    def warn_of_uncovered(self, uncovered: str | None) -> None:
        """Warn of paths that are not subscribed, if there are any."""
        self.uncovered = uncovered
        if uncovered is not None:
            warn(uncovered, NotSubscribedWarning, self._called_from)

    def write(self, batch: Batch, *, after: int | None, seq: int | None) -> None:
        """Write a batch of the log between two positions.

        The batch of a failed request has no entries.

        Raises:
            OSError: The file could not be written.
        """
        now = self._now()
        warn_of_gap(batch.gap, (), self._called_from)
        if batch.gap is not None:
            # The lost entries may have changed any value.
            self.needs_state = True
            self._covered_from = None
        unreadable: set[str] = set()

        def events() -> Iterator[Event]:
            for event in read_events(batch, now):
                # This precedes the selection, because a resource that is not recorded may contain the unit of one that
                # is recorded.
                self._named.add(event.device_id, event.path, text(event.value or NO_VALUE))
                if not self._is_selected(event):
                    continue
                unreadable.update(unreadable_keys([event]))
                yield event if event.unit is not None else replace(event, unit=self._unit_of(event))

        self.folder.append(events(), None if seq is None else self._span(batch, after, seq))
        # The warning comes last. By now, append() has consumed the generator, so a warning that is raised as an error
        # loses no entries.
        warn_of_gap(None, unreadable, self._called_from)

    def _unit_of(self, event: Event) -> str | None:
        """Return the last unit that the device reported, in the state table or after it."""
        if event.device_id is None or event.path is None:
            return None
        now = self._units.get((event.device_id, event.path))
        return self._named.unit_of(event.device_id, event.path, now)

    def write_state(self, state: pd.DataFrame) -> None:
        """Write a state table, on which later events build.

        Raises:
            OSError: The file could not be written.
        """
        metadata = state.attrs["mirror"]
        if metadata["taken_at"] is None and self.folder.covered_until is not None:
            # A table without devices has no timestamp. There were no devices before it either.
            metadata["taken_at"] = write_timestamp(self.folder.covered_until)
        self.folder.write_state(state)
        self._named = UnitNames()
        self._units = units_of(pa.Table.from_pandas(state[["device_id", "path", "unit"]], preserve_index=False))
        self.needs_state = False
        if metadata["taken_at"] is not None:
            self._covered_from = datetime.fromisoformat(metadata["taken_at"])

    def _span(self, batch: Batch, after: int | None, seq: int) -> LogSpan:
        """Return the span of a batch.

        It starts at the end of the previous span if nothing is missing between them.
        """
        served_at = batch.served_at
        if served_at is None or after is None or batch.gap is not None:
            return LogSpan(seq if after is None else after, seq, served_at, served_at)
        return LogSpan(after, seq, self.folder.covered_until or self._covered_from or served_at, served_at)
