"""Recordings: the notification log kept in a folder, which says whether it is complete, and can be asked afterwards.

``client.record("run.parquet")`` keeps it in a folder that pandas, Arrow, DuckDB, Polars and Dask read as one table at
every moment, up to five minutes (``rotate_seconds``) before the present. The newest events and the states stand beside
it, in ``_run.parquet.mirror``; copy and remove both together. :class:`Recording` reads all of it.

>>> from mirror_sdk.recording import Recording
>>> with client.record(folder / "run.parquet", paths=["/3303/*"], subscribe=True) as recorder:
...     simulator.set_value("station-01", "/3303/0/5700", 22.5)
>>> Recording(folder / "run.parquet").events()["value_num"].tolist()
[21.5, 22.5]

A killed recording goes on where it stopped, or is completed by ``Recording(folder).finalize()``. What is not
subscribed does not come, which it tells (``NotSubscribedWarning``): ``subscribe=True`` adds rules for as long as it
records.

``recorder.audit()`` says whether it is complete, from when to when by the service's clock, and how much of it other
programs see; ``recorder.recording.as_of(instant)`` gives the state at an instant, ``changes(begin, end)`` what changed
between two, ``.attrs["mirror"]["complete"]`` of either whether all of it is known.

>>> recorder.audit().complete
True

Needs pandas and pyarrow, the ``frames`` extra.
"""

import mirror_sdk.frames  # noqa: F401 - first, as it says what to install where pandas is missing
from mirror_sdk.history.changes import CHANGES_SCHEMA
from mirror_sdk.recording.async_recorder import AsyncRecorder
from mirror_sdk.recording.audit import Audit, RecordingGap
from mirror_sdk.recording.reading import Recording, read_recording
from mirror_sdk.recording.recorder import Recorder

__all__ = ["CHANGES_SCHEMA", "AsyncRecorder", "Audit", "Recorder", "Recording", "RecordingGap", "read_recording"]
