# Made from async_recorder.py by .ci/make_sync_twins.py: a change belongs there, not here.
"""A recorder that records the notification log in a separate thread."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self

import pandas as pd

from mirror_sdk._fork import cannot_be_pickled
from mirror_sdk._protocol.deadline import Deadline
from mirror_sdk._protocol.flow import Flow
from mirror_sdk._protocol.log_reader import LogReader
from mirror_sdk._workers import Worker
from mirror_sdk.errors import MirrorError
from mirror_sdk.recording.audit import Audit
from mirror_sdk.recording.folder import RecordingFolder
from mirror_sdk.recording.recording import Recording
from mirror_sdk.recording.recording_rules import RecordingRules
from mirror_sdk.recording.writer import RecordingWriter
from mirror_sdk.wire.routes import DEFAULT_HOLD_SECONDS

_log = logging.getLogger(__name__)

_RULES_LEFT = "rules that were added for a recording still exist; the next recorder with the same folder removes them"


class Recorder:
    """A recording in progress, in which a thread writes the notification log into a folder until you stop it.

    ``client.record`` starts the recording. Use it in a ``with`` statement, which stops it at the end, or call
    :meth:`stop`. When the recording ends, the recorder removes the subscription rules that it added.

    The recorder reconnects if the connection fails. Any other failure is logged and ends the recording. ``failure``
    contains the error, and :meth:`stop` or the end of the ``with`` statement raises it. The events that were written
    before the failure remain.

    After a fork, the copy in the child process is stopped, and only the parent process continues to write.
    """

    def __init__(
        self,
        writer: RecordingWriter,
        reader: LogReader,
        new_reader: Callable[[int | None], LogReader],
        read_state: Callable[[Deadline | None], pd.DataFrame],
        release: Callable[[], None],
    ) -> None:
        self._writer = writer
        self._reader = reader
        self._new_reader = new_reader
        self._read_state = read_state
        self._release = release
        self.failure: Exception | None = None
        self._unraised: Exception | None = None
        self._worker = Worker("mirror-recorder")
        self._worker.start(self._run)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._end()
        self._raise_failure(error)

    def __reduce__(self) -> NoReturn:
        """Raise an error, because this object cannot be pickled."""
        raise cannot_be_pickled(self, "send the path, which Recording(path) reads")

    def __repr__(self) -> str:
        state = "running" if self.is_running else "stopped" if self.failure is None else f"ended: {self.failure}"
        return f"<Recorder {self.path} {state}, {self.events} events>"

    @property
    def path(self) -> Path:
        """The folder of the recording."""
        return self._writer.folder.path

    @property
    def events(self) -> int:
        """The number of events written so far."""
        return self._writer.folder.events

    @property
    def position(self) -> int | None:
        """The number of the last log entry that was read."""
        return self._writer.folder.position

    @property
    def uncovered(self) -> str | None:
        """The warning about paths without a subscription at the start, or ``None`` if all paths were subscribed."""
        return self._writer.uncovered

    @property
    def is_running(self) -> bool:
        """Whether the recorder is recording."""
        return self.failure is None and self._worker.is_running

    @property
    def recording(self) -> Recording:
        """The recording with the events written so far."""
        return Recording(self.path)

    def audit(self) -> Audit:
        """Check whether the recording is complete.

        This reads all files.

        >>> with client.record(folder / "run.parquet") as recorder:
        ...     pass
        >>> recorder.audit().events
        0
        """
        return self.recording.audit()

    def stop(self) -> None:
        """Stop recording after everything that the log contains at the time of the call was written.

        If the service is unreachable, the next recorder with the same folder reads the rest of the log. It also removes
        the rules that this recorder added.

        Raises:
            Exception: The failure that ended the recording earlier. It is raised only once.
            OSError: The remaining events could not be written.

        >>> recorder = client.record(folder / "run.parquet")
        >>> recorder.stop()
        >>> recorder.is_running
        False
        """
        self._end()
        self._raise_failure()

    def _end(self) -> None:
        self._worker.request_stop()
        with self._worker.end:
            try:
                if self.failure is None and self._writer.folder.is_open:
                    self._catch_up()
            except MirrorError:
                _log.warning(
                    "the recorder stopped before it had read the whole log; the next recorder with the same folder"
                    " reads the rest",
                    exc_info=True,
                )
            finally:
                self._release()

    def _run(self) -> None:
        try:
            while not self._worker.is_stopped:
                self._record_batch()
        except Exception as error:
            if self._worker.is_stopped and isinstance(error, MirrorError):
                # Closing a client makes its open poll fail. After a stop, this is expected.
                return
            _log.exception("a recording ended")
            self.failure = self._unraised = error
            # If the disk is full, finalizing fails too. In this case, the events are still in the journal.
            with suppress(OSError), self._worker.step:
                self._release()

    def _raise_failure(self, error: BaseException | None = None) -> None:
        """Raise the failure that ended the recording, unless it was raised earlier or another error is being raised."""
        failure, self._unraised = self._unraised, None
        if failure is not None and error is None:
            raise failure

    def _record_batch(self) -> None:
        after = self._reader.position
        # The poll ends in time to finalize the journal when that is due.
        batch = self._reader.read(min(DEFAULT_HOLD_SECONDS, self._writer.folder.due_in_seconds))
        with self._worker.step:
            # stop() itself reads the rest of the log, from the position in the folder.
            if self._worker.is_stopped:
                return
            # Even while the service is unreachable, the events in the journal must become visible to other programs.
            if self._reader.last_failure is not None:
                self._writer.folder.finalize_when_due()
                return
            self._writer.write(batch, after=after, seq=self._reader.position)
        if self._writer.needs_state:
            self._renew_state()

    def _catch_up(self) -> None:
        end, reader = self._new_reader(None), self._new_reader(self.position)
        # Read only up to the current end, because new entries may arrive as fast as they are read.
        end.go_to_end()
        self._writer.write_end(end.position, end.served_at)
        while reader.position is not None and end.position is not None and reader.position < end.position:
            after = reader.position
            batch = reader.read(0)
            if reader.last_failure is not None:
                raise reader.last_failure
            self._writer.write(batch, after=after, seq=reader.position)
        if self._writer.needs_state:
            self._writer.write_state(self._read_state(None))

    def _renew_state(self) -> None:
        """Fetch the state of the devices again after a loss of log entries."""
        try:
            state = self._read_state(None)
        except MirrorError:
            _log.warning(
                "log entries were lost, and the current state of the devices could not be read; the recorder retries"
                " after the next batch",
                exc_info=True,
            )
            return
        with self._worker.step:
            if not self._worker.is_stopped:
                self._writer.write_state(state)


def start_recording(
    make_writer: Callable[[], RecordingWriter],
    new_reader: Callable[[int | None], LogReader],
    read_state: Callable[[Deadline | None], pd.DataFrame],
    run: Callable[[Flow[Any], Deadline | None], Any],
    rules: RecordingRules,
    deadline: Deadline | None,
) -> Recorder:
    """Start a recorder that continues at the end of the recording.

    In a new folder, it starts at the current end of the log.

    Raises:
        MirrorError: The end of the log or the state could not be read.
        OSError: The recording could not be written.
        InvalidValue: The arguments or the folder are not valid; see :class:`RecordingWriter`.
    """
    made: list[RecordingWriter] = []
    try:
        made.append(make_writer())
        (writer,) = made
        reader = new_reader(writer.folder.position)
        if not reader.has_position:
            reader.go_to_end(math.inf if deadline is None else deadline)
        run(rules.start(writer.folder), deadline)
        # The state is read after the position, so that no change between the two reads is missed.
        state = read_state(deadline)
        writer.start(reader.position, reader.served_at, state)
        writer.warn_of_uncovered(run(rules.uncovered(state), deadline))
    except BaseException:
        # This also runs after a cancellation, because the folder would otherwise stay locked.
        for writer in made:
            _release(writer.folder, run, rules)
        raise
    return Recorder(writer, reader, new_reader, read_state, partial(_release, writer.folder, run, rules))


def _release(folder: RecordingFolder, run: Callable[[Flow[Any], Deadline | None], Any], rules: RecordingRules) -> None:
    """Remove the rules that the recorder added, and release the folder."""
    try:
        if folder.is_open:
            run(rules.end(folder), None)
    except MirrorError:
        _log.warning(_RULES_LEFT, exc_info=True)
    finally:
        folder.close()
