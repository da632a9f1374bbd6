"""The start, the progress and the end of a recording."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from mirror_sdk.widgets.models.formatting import format_count
from mirror_sdk.widgets.models.model import Model
from mirror_sdk.widgets.models.periodic_read import PeriodicRead

if TYPE_CHECKING:
    from mirror_sdk.recording.recorder import Recorder

T = TypeVar("T")

_SUBJECT = "recording"


class RecordingModel:
    """A recording that the user can start and end; see :meth:`mirror_sdk.MirrorClient.record`.

    There is at most one recording at a time.

    Args:
        model: The model to which the recording belongs.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._recorder: Recorder | None = None
        self._call = PeriodicRead(model, _SUBJECT, math.inf)
        self._activity = ""
        self._is_closed = False
        # The lock protects the recorder and the flag. A thread starts the recording while another thread may close the
        # widget.
        self._lock = threading.Lock()

    @property
    def is_recording(self) -> bool:
        """Whether a recording is in progress."""
        return self._recorder is not None

    @property
    def text(self) -> str:
        """A sentence about the progress of the recording. It is empty if there is no recording."""
        if self._activity or self._recorder is None:
            return self._activity
        return f"recording, {format_count(self._recorder.events, 'event')} in {self._recorder.path.resolve()}"

    def toggle(self, folder: str, devices: Sequence[str] | None, paths: Sequence[str] | None) -> None:
        """Start a recording of these devices and paths in the folder, or end the recording that is in progress.

        Raises:
            ValueError: The name of the folder is empty.
        """
        if self._activity:
            return
        if self._recorder is not None:
            self._run("ending the recording …", self._recorder.stop, lambda _: self._forget())
        elif folder:
            self._run("starting to record …", lambda: self._start(folder, devices, paths), self._started)
        else:
            raise ValueError("the folder has no name; enter one such as recording.parquet")

    def tick(self) -> None:
        """Display the failure of a recording that has ended on its own."""
        if self._recorder is not None and self._recorder.failure is not None:
            self._model.report(_SUBJECT, "Recording", self._recorder.failure)
            self._forget()
            self._model.changed()

    def close(self) -> None:
        """End the recording. When this method returns, the files contain all entries of the log."""
        with self._lock:
            self._is_closed = True
        if self._recorder is not None:
            self._recorder.stop()
            self._forget()

    def _run(self, activity: str, call: Callable[[], T], then: Callable[[T], object]) -> None:
        self._activity = activity
        self._model.changed()

        def accept(outcome: T) -> None:
            self._activity = ""
            then(outcome)

        self._call.start("Recording", call, accept, self._failed)

    def _start(self, folder: str, devices: Sequence[str] | None, paths: Sequence[str] | None) -> Recorder:
        recorder = self._model.client.record(folder, devices=devices, paths=paths)
        with self._lock:
            is_closed = self._is_closed
            if not is_closed:
                self._recorder = recorder
        # A closed widget receives no outcomes, so nothing else would stop this recording.
        if is_closed:
            recorder.stop()
        return recorder

    def _started(self, recorder: Recorder) -> None:
        if recorder.uncovered is not None:
            self._model.notices.add(_SUBJECT, recorder.uncovered)

    def _forget(self) -> None:
        self._recorder = None

    def _failed(self, _: Exception) -> None:
        self._activity = ""
