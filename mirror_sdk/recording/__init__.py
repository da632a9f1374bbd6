"""Recordings: the notification log kept in a folder, which says whether it is complete, and can be asked afterwards.

``client.record("run.parquet")`` makes one, :class:`Recording` reads it. Needs pandas and pyarrow, the ``frames`` extra.
"""

import mirror_sdk._pandas  # noqa: F401
from mirror_sdk.recording.async_recorder import AsyncRecorder
from mirror_sdk.recording.audit import Audit, Hole
from mirror_sdk.recording.reading import Recording, read_recording
from mirror_sdk.recording.recorder import Recorder
from mirror_sdk.recording.replay import CHANGES_SCHEMA

__all__ = ["CHANGES_SCHEMA", "AsyncRecorder", "Audit", "Hole", "Recorder", "Recording", "read_recording"]
