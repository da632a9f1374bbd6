"""Beginning and ending a recording, and how it stands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mirror_sdk._client import MirrorClient
from mirror_sdk.widgets.models.calls import Run
from mirror_sdk.widgets.models.notices import Notices
from mirror_sdk.widgets.models.wording import count_text

if TYPE_CHECKING:
    from mirror_sdk.recording.recorder import Recorder

_SUBJECT = "recording"


class RecordingModel:
    """Holds at most one recording of a client at a time; see :meth:`MirrorClient.record`.

    Args:
        client: The mirror.
        run: Makes the client calls.
        notices: Where it is told what went wrong.
        changed: Told when something changed.
    """

    def __init__(self, client: MirrorClient, run: Run, notices: Notices, changed: Callable[[], object]) -> None:
        self._client = client
        self._run = run
        self._notices = notices
        self._changed = changed
        self._recorder: Recorder | None = None
        self._activity = ""
        self._is_closed = False

    @property
    def is_recording(self) -> bool:
        """Whether a recording runs."""
        return self._recorder is not None

    @property
    def text(self) -> str:
        """How the recording stands; empty where there is none."""
        if self._activity or self._recorder is None:
            return self._activity
        return f"recording, {count_text(self._recorder.events, 'event')} in {self._recorder.path.resolve()}"

    def toggle(self, folder: str, devices: Sequence[str] | None, paths: Sequence[str] | None) -> None:
        """Begin to record these devices and paths into the folder, or end that.

        Raises:
            ValueError: The folder has no name.
        """
        if self._activity:
            return
        if self._recorder is not None:
            self._begin("ending the recording …", self._recorder.stop, lambda _: self._forget())
        elif folder:
            record = self._client.record
            self._begin("beginning to record …", lambda: record(folder, devices=devices, paths=paths), self._began)
        else:
            raise ValueError("the folder has no name; give one such as recording.parquet")

    def tick(self) -> None:
        """Notice a recording that ended by itself."""
        if self._recorder is not None and self._recorder.failure is not None:
            self._failed(self._recorder.failure)
            self._forget()

    def close(self) -> None:
        """End the recording; what the log holds is in its files when this returns."""
        self._is_closed = True
        if self._recorder is not None:
            self._recorder.stop()
            self._forget()

    def _begin(self, activity: str, call: Callable[[], object], then: Callable[..., object]) -> None:
        self._activity = activity
        self._changed()

        def ended(outcome: object) -> None:
            self._activity = ""
            self._notices.clear(_SUBJECT)
            then(outcome)
            self._changed()

        self._run(call, ended, self._failed)

    def _began(self, recorder: Recorder) -> None:
        self._recorder = recorder
        if recorder.uncovered is not None:
            self._notices.tell(_SUBJECT, recorder.uncovered)
        if self._is_closed:
            self.close()

    def _forget(self) -> None:
        self._recorder = None

    def _failed(self, error: Exception) -> None:
        self._activity = ""
        self._notices.put(_SUBJECT, "Recording", error)
        self._changed()
