"""Recordings: the notification log in a folder of Parquet files, with an audit of its completeness.

>>> from mirror_sdk.recording import Recording
>>> with client.record(folder / "run.parquet", paths=["/3303/*"], subscribe=True) as recorder:
...     simulator.set_value("station-01", "/3303/0/5700", 22.5)
>>> Recording(folder / "run.parquet").events()["value_num"].tolist()
[21.5, 22.5]

pandas, Arrow, DuckDB, Polars and Dask read the folder as one table at any time, also while it is being recorded. The
newest events (up to five minutes, ``rotate_seconds``) are in a second folder next to it, ``_run.parquet.mirror``, with
the tables of the state at the start and after each loss. Copy and remove both folders together. :class:`Recording`
reads both.

A recording that was killed resumes where it stopped. ``Recording(folder).finalize()`` completes it instead.

Only subscribed resources are recorded; ``NotSubscribedWarning`` lists paths without a subscription. ``subscribe=True``
adds rules for the duration of the recording.

Audit
-----

``recorder.audit()`` reports whether the recording is complete, its interval by the clock of the service, and how much
of it other programs can read. ``recorder.recording.as_of(instant)`` returns the state at an instant, ``changes(begin,
end)`` the changes between two. ``.attrs["mirror"]["complete"]`` of both tables shows whether they are
complete.

>>> recorder.audit().complete
True

Needs pandas and pyarrow, the ``frames`` extra.
"""

import mirror_sdk.frames  # noqa: F401 - first, as it says what to install where pandas is missing
from mirror_sdk.history.changes import CHANGES_SCHEMA
from mirror_sdk.recording.async_recorder import AsyncRecorder
from mirror_sdk.recording.audit import Audit, RecordingGap
from mirror_sdk.recording.reading import Recording
from mirror_sdk.recording.recorder import Recorder

__all__ = ["CHANGES_SCHEMA", "AsyncRecorder", "Audit", "Recorder", "Recording", "RecordingGap"]
