"""What a recorder writes for what it read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from os import PathLike
from pathlib import Path
from typing import Protocol

import pandas as pd
import pyarrow as pa

from mirror_sdk._arguments import real
from mirror_sdk._caller import SourceLine, warn
from mirror_sdk._protocol.gaps import warn_of
from mirror_sdk.errors import InvalidValue, NotSubscribedWarning
from mirror_sdk.events import Event, event_filter, read_events, unreadable_keys, utc_now
from mirror_sdk.recording.coverage import Span
from mirror_sdk.recording.files import VERSION, About
from mirror_sdk.recording.folder import RecordingFolder
from mirror_sdk.tables.columns import text
from mirror_sdk.tables.units import UnitNames, Units, units_of
from mirror_sdk.values import NO_VALUE
from mirror_sdk.wire.log_entries import Batch
from mirror_sdk.wire.model import write_timestamp


class Placed(Protocol):
    """A reader with a position in the log."""

    @property
    def position(self) -> int | None:
        """Number of the last entry it read."""

    @property
    def served_at(self) -> datetime | None:
        """The instant before which all stands up to there, by the service's clock."""


class Tape:
    """What is written for what was read, whoever reads.

    Args:
        path: The folder of the recording.
        server: Where the log is read from.
        key: Tells its access key from others: each has a log of its own.
        devices: Ids of the devices to record; ``None`` for all.
        paths: Path patterns to record; ``None`` for all.
        rotate_bytes: How large a file may become before the next one is begun.
        rotate_seconds: After how many seconds an event stands in a file that every program sees.
        called_from: The line of the program that began to record, to which warnings point.
        now: Tells the time.

    Raises:
        OSError: The folder cannot be written.
        TypeError: A single text was given where a list of texts belongs.
        InvalidValue: There is something else, a recording of something else, or another recorder at work, or a
            rotation is none.
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
        self._wants = event_filter(paths, devices)
        for name, value in (("rotate_bytes", rotate_bytes), ("rotate_seconds", rotate_seconds)):
            if (real(value) or 0) <= 0:
                raise InvalidValue(f"{name}={value!r} must be a number above 0")
        about = About(
            version=VERSION,
            server=server,
            key=key,
            devices=None if devices is None else sorted(devices),
            paths=None if paths is None else sorted(paths),
        )
        self._now = now
        self.folder: RecordingFolder = RecordingFolder(
            Path(path).absolute(),
            about,
            rotate_bytes=rotate_bytes,
            rotate_seconds=rotate_seconds,
        )
        self.needs_state: bool = True
        self.uncovered: str | None = None
        self._units: Units = {}
        self._named = UnitNames()
        self._known_from: datetime | None = None

    def begin(self, reader: Placed, state: pd.DataFrame) -> None:
        """Write from where it is recorded, and the state to begin from, which was taken behind that.

        Raises:
            OSError: They could not be written.
        """
        if self.folder.position is None:
            self.write(Batch(served_at=reader.served_at), after=None, seq=reader.position)
        self.write_state(state)

    def write_end(self, end: Placed) -> None:
        """Write up to when nothing else came, where the log ends at what is recorded.

        Raises:
            OSError: It could not be written.
        """
        if end.position == self.folder.position:
            self.write(Batch(served_at=end.served_at), after=end.position, seq=end.position)

    def tell(self, uncovered: str | None) -> None:
        """Say aloud what nothing covers of what is to be recorded."""
        self.uncovered = uncovered
        if uncovered is not None:
            warn(uncovered, NotSubscribedWarning, self._called_from)

    def write(self, batch: Batch, *, after: int | None, seq: int | None) -> None:
        """Write what a look into the log gave, between two positions; a failed one has neither entries nor a way.

        Raises:
            OSError: It could not be written.
        """
        now = self._now()
        warn_of(batch.gap, (), self._called_from)
        if batch.gap is not None:
            self.needs_state = True
            self._known_from = None
        unreadable: set[str] = set()

        def events() -> Iterator[Event]:
            for event in read_events(batch, now):
                self._named.add(event.device_id, event.path, text(event.value or NO_VALUE))
                if not self._wants(event):
                    continue
                unreadable.update(unreadable_keys([event]))
                yield event if event.unit is not None else replace(event, unit=self._unit_of(event))

        self.folder.append(events(), None if seq is None else self._span(batch, after, seq))
        warn_of(None, unreadable, self._called_from)

    def _unit_of(self, event: Event) -> str | None:
        """The unit that the device has named since the state was taken, else by then."""
        if event.device_id is None or event.path is None:
            return None
        now = self._units.get((event.device_id, event.path))
        return self._named.unit_of(event.device_id, event.path, now)

    def write_state(self, state: pd.DataFrame) -> None:
        """Keep a state table to begin from.

        Raises:
            OSError: It could not be written.
        """
        about = state.attrs["mirror"]
        if about["taken_at"] is None and self.folder.known_until is not None:
            # There was no device, which would tell it; so there was none before.
            about["taken_at"] = write_timestamp(self.folder.known_until)
        self.folder.write_state(state)
        self._named = UnitNames()
        self._units = units_of(pa.Table.from_pandas(state[["device_id", "path", "unit"]], preserve_index=False))
        self.needs_state = False
        if about["taken_at"] is not None:
            self._known_from = datetime.fromisoformat(about["taken_at"])

    def _span(self, batch: Batch, after: int | None, seq: int) -> Span:
        """The coverage of a look: it goes on from the one before, where there is one and nothing lies between."""
        served_at = batch.served_at
        if served_at is None or after is None or batch.gap is not None:
            return Span(seq if after is None else after, seq, served_at, served_at)
        return Span(after, seq, self.folder.known_until or self._known_from or served_at, served_at)
