"""Recordings, which store the notification log in a folder of Parquet files and check that it is complete."""

import mirror_sdk.frames  # noqa: F401 - first, as it says what to install where pandas is missing
from mirror_sdk.history.changes import CHANGES_SCHEMA
from mirror_sdk.recording.async_recorder import AsyncRecorder
from mirror_sdk.recording.audit import Audit, RecordingGap
from mirror_sdk.recording.recorder import Recorder
from mirror_sdk.recording.recording import Recording

__all__ = ["CHANGES_SCHEMA", "AsyncRecorder", "Audit", "Recorder", "Recording", "RecordingGap"]
