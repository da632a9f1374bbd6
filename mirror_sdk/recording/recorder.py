"""Recording on a thread. What both kinds of recorders do with a message stands in :class:`Tape`."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Protocol, Self

import pandas as pd
import pyarrow as pa

from mirror_sdk._arguments import real
from mirror_sdk._caller import SourceLine, warn
from mirror_sdk._fork import cannot_be_pickled, tell_in_child
from mirror_sdk._service.deadline import Deadline
from mirror_sdk._service.gaps import warn_of
from mirror_sdk._service.log_reader import LogReader
from mirror_sdk._service.steps import Steps
from mirror_sdk.errors import InvalidValue, MirrorError, NotSubscribedWarning
from mirror_sdk.events import Event, event_filter, read_events, unreadable_keys, utc_now
from mirror_sdk.recording.audit import Audit
from mirror_sdk.recording.coverage import Span
from mirror_sdk.recording.files import About
from mirror_sdk.recording.folder import RecordingFolder
from mirror_sdk.recording.reading import Recording
from mirror_sdk.recording.subscribing import Subscribing
from mirror_sdk.tables.columns import text
from mirror_sdk.tables.units import UnitNames, Units, units_of
from mirror_sdk.values import NO_VALUE
from mirror_sdk.wire.entries import Batch
from mirror_sdk.wire.model import write_timestamp
from mirror_sdk.wire.routes import DEFAULT_HOLD_SECONDS

_log = logging.getLogger(__name__)

RULES_LEFT = "rules that were added for a recording are still there; the next one with its folder takes them away"


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


class Recorder:
    """Writes the log into a recording, from a thread of its own, until it is stopped.

    It can be used in a ``with`` statement, which stops it at the end. Failures of the connection are waited out. One
    that cannot be waited out ends it and is logged. It stands in ``failure``, and ``stop()`` or the end of the ``with``
    statement raises it; what was written is kept. Rules that it added go when it ends. In a child process it is
    stopped, and its files are left alone: the parent goes on with them.
    """

    def __init__(
        self,
        tape: Tape,
        reader: LogReader,
        new_reader: Callable[[int | None], LogReader],
        take_state: Callable[[Deadline | None], pd.DataFrame],
        leave: Callable[[], None],
    ) -> None:
        self._tape = tape
        self._reader = reader
        self._new_reader = new_reader
        self._take_state = take_state
        self._leave = leave
        self._stopped = threading.Event()
        self._writing = threading.Lock()
        self.failure: Exception | None = None
        self._unraised: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="mirror-recorder", daemon=True)
        self._thread.start()
        tell_in_child(self)

    def _begin_in_child(self) -> None:
        """It is stopped here, whatever its thread was about to do."""
        self._stopped = threading.Event()
        self._stopped.set()
        self._writing = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._end()
        self._raise_failure(error)

    def __reduce__(self) -> NoReturn:
        raise cannot_be_pickled(self, "send their path, which Recording(path) reads")

    def __repr__(self) -> str:
        state = "running" if self.is_running else "stopped" if self.failure is None else f"ended: {self.failure}"
        return f"<Recorder {self.path} {state}, {self.events} events>"

    @property
    def path(self) -> Path:
        """The folder it writes."""
        return self._tape.folder.path

    @property
    def events(self) -> int:
        """How many events it has written."""
        return self._tape.folder.events

    @property
    def position(self) -> int | None:
        """Number of the last entry of the log it has looked at."""
        return self._tape.folder.position

    @property
    def uncovered(self) -> str | None:
        """What it warned of when it began: of which paths nothing comes, in words; ``None`` if all is covered."""
        return self._tape.uncovered

    @property
    def is_running(self) -> bool:
        """Whether it still records."""
        return self._thread.is_alive() and not self._stopped.is_set()

    @property
    def recording(self) -> Recording:
        """What is recorded, up to now."""
        return Recording(self.path)

    def audit(self) -> Audit:
        """Whether what is recorded is complete, from when to when, and what is missing."""
        return self.recording.audit()

    def stop(self) -> None:
        """End it. What the log holds at this moment is in the files when this returns.

        Where the service cannot be reached, the next recorder with the same folder reads the rest, and takes away the
        rules that this one added.

        Raises:
            Exception: The recording had ended by itself, for this reason, which is raised once.
            OSError: The rest could not be written.
        """
        self._end()
        self._raise_failure()

    def _end(self) -> None:
        self._stopped.set()
        with self._writing:
            try:
                if self.failure is None and self._tape.folder.is_open:
                    self._catch_up()
            except MirrorError:
                _log.warning("a recording ends before the end of the log; the next one goes on there", exc_info=True)
            finally:
                self._leave()

    def _run(self) -> None:
        try:
            while not self._stopped.is_set():
                self._step()
        except Exception as error:
            # A client that is closed under an open poll fails it: after a stop that is no news.
            if not self._stopped.is_set():
                _log.exception("a recording ended")
                self.failure = self._unraised = error
                # A disk that is full cannot be finalized to either; what was written is whole in the journal.
                with suppress(OSError):
                    self._end()

    def _raise_failure(self, error: BaseException | None = None) -> None:
        """Raise why the recording had ended by itself, once, and not in the place of another error."""
        failure, self._unraised = self._unraised, None
        if failure is not None and error is None:
            raise failure

    def _step(self) -> None:
        after = self._reader.position
        batch = self._reader.read(min(DEFAULT_HOLD_SECONDS, self._tape.folder.due_in_seconds))
        with self._writing:
            if self._stopped.is_set():
                return
            if self._reader.last_failure is not None:
                self._tape.folder.finalize_when_due()
                return
            self._tape.write(batch, after=after, seq=self._reader.position)
        if self._tape.needs_state:
            self._renew_state()

    def _catch_up(self) -> None:
        end = self._new_reader(None)
        end.go_to_end()
        self._tape.write_end(end)
        reader = self._new_reader(self.position)
        while is_before(reader.position, end.position):
            after = reader.position
            batch = reader.read(0)
            if reader.last_failure is not None:
                raise reader.last_failure
            self._tape.write(batch, after=after, seq=reader.position)
        if self._tape.needs_state:
            self._tape.write_state(self._take_state(None))

    def _renew_state(self) -> None:
        """Take the state of the devices anew, because entries of the log were lost."""
        try:
            state = self._take_state(None)
        except MirrorError:
            _log.warning("the state could not be read after a loss; it is tried again", exc_info=True)
            return
        with self._writing:
            if not self._stopped.is_set():
                self._tape.write_state(state)


def is_before(position: int | None, end: int | None) -> bool:
    """Whether something lies between a position and the end of the log."""
    return position is not None and end is not None and position < end


def begin_recording(
    make_tape: Callable[[], Tape],
    new_reader: Callable[[int | None], LogReader],
    take_state: Callable[[Deadline | None], pd.DataFrame],
    run: Callable[[Steps[Any], Deadline | None], Any],
    subscribing: Subscribing,
    deadline: Deadline | None,
) -> Recorder:
    """A recorder that goes on where the recording ends, or begins at the present end of the log.

    Raises:
        MirrorError: The end of the log or the state could not be read.
        OSError: The recording could not be written.
        InvalidValue: As :class:`Tape`.
    """
    tape = make_tape()
    leave = partial(_leave, tape.folder, run, subscribing)
    try:
        reader = new_reader(tape.folder.position)
        if not reader.is_placed:
            reader.go_to_end(math.inf if deadline is None else deadline)
        run(subscribing.begin(tape.folder), deadline)
        # The state is that of a later moment than the position, so that nothing lies between them.
        state = take_state(deadline)
        tape.begin(reader, state)
        tape.tell(run(subscribing.look(state), deadline))
    except BaseException:
        leave()
        raise
    return Recorder(tape, reader, new_reader, take_state, leave)


def _leave(
    folder: RecordingFolder, run: Callable[[Steps[Any], Deadline | None], Any], subscribing: Subscribing
) -> None:
    """Take away the rules that are not to stay, and leave the folder to others."""
    try:
        if folder.is_open:
            run(subscribing.end(folder), None)
    except MirrorError:
        _log.warning(RULES_LEFT, exc_info=True)
    finally:
        folder.close()
