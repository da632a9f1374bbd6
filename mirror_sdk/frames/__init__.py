"""Tables for pandas. A pyarrow schema defines each table: its columns, types and order.

``client.state_frame()`` and ``client.fleet.snapshot()`` give the state of devices,
``client.notifications.events_frame()`` what happened, ``client.requests.frame(handles)`` a ledger of requests as the
notification log has them now, ``client.devices.list()`` with ``to_frame()`` the directory,
``client.devices.events_frame()`` when its devices came and went. With this module imported every frame has the accessor
``mirror``, for what is asked of a table (:class:`~mirror_sdk.frames.accessor.MirrorAccessor`): ``drift`` tells where
desired and reported differ and why, ``stale`` what is old and which devices are, ``plot_timeline`` draws events,
``wide`` has a column for each resource. Questions about time are for a history, a recording or events: ``resample``,
``durations``, ``availability``, ``rates``, ``align``, ``compare``, ``gaps``, ``late_arrivals``, ``unchanged``. Type
checkers take ``frame.mirror`` for a column; ``mirror(frame)`` is the same to pandas, and known to them.

>>> client.write_value("light-01", "/3311/0/5851", 40)
>>> state = client.state_frame()
>>> state.mirror.drift()[["path", "desired_num", "kind"]].to_dict("records")
[{'path': '/3311/0/5851', 'desired_num': 40.0, 'kind': 'never_reported'}]

A write that failed stays in the drift table until the next write. ``client.requests.acknowledge_failed_write(device,
path)`` acknowledges it: then drift, FleetTable and the server's page leave it out, and ``drift(acknowledged=True)``
shows it. Given a drift or state table, it acknowledges the failures that the table shows; one of a later write is
refused.

Tables are built by column (lists to pyarrow arrays to pandas). Missing is ``NA``; times are UTC in milliseconds unless
a ``tz`` is given. All instants are told by the service, by its clock, so that they may be compared with each other;
``received_at`` alone is of the clock here. Spans of the client, such as ``latency``, are measured. The metadata
of a table is ``attrs["mirror"]``, which pandas writes into Parquet files, and drops when it merges, joins or
pivots: ``frame.mirror.join(other)`` keeps it, ``frame.mirror.with_metadata_from(original)`` brings it back.

To put values next to those of another source by time, give both times one unit, as ``pandas.merge_asof`` takes no two:

>>> import pandas as pd
>>> weather = pd.DataFrame({"at": pd.to_datetime(["2026-01-01T00:00Z"]), "outside": [3.5]})
>>> weather["at"] = weather["at"].dt.as_unit("ms")
>>> client.subscriptions.rules.replace([{"resource_path": ["/3303/*"]}])
>>> simulator.register("station-01")
>>> values = client.notifications.events_frame(after=0, timeout=0).dropna(subset="value_num").sort_values("changed_at")
>>> both = pd.merge_asof(values, weather, left_on="changed_at", right_on="at")
>>> both[["value_num", "outside"]].values.tolist()
[[21.5, 3.5]]

``as_="arrow"`` gives a table as a ``pyarrow.Table`` and ``as_="polars"`` as a ``polars.DataFrame``, both of the same
Arrow columns, made without pandas: the extras ``arrow`` and ``polars`` do not install it. pyarrow loads pandas by
itself where it is installed; nothing here does. What the table is based on stands in the metadata of its schema, as
JSON under ``mirror``, and goes into the Parquet files of Arrow and back; ``from_arrow`` makes the frame of it. Polars
has no place for it. There a category is ``Categorical``, one whose categories are fixed ``Enum``, ordered as they are.
All three give their columns by ``__arrow_c_stream__``, so that Polars, DuckDB and others take any of them as it is. Of
a frame of pandas DuckDB before 1.2 takes a missing number for 0; 1.4.4 and later are tested.

>>> from mirror_sdk.frames import from_arrow
>>> table = client.fleet.snapshot(paths=["/3311/*"], as_="arrow")
>>> table.num_rows, from_arrow(table).attrs["mirror"]["devices"]
(2, 2)
>>> client.fleet.snapshot(paths=["/3303/*"], as_="polars")["path"].to_list()
['/3303/0/5700']

In a notebook a table of this package has its ids and times in one line, ``—`` where a value is missing, and units and
zones in its header (``frame.mirror.to_html()``); it is a plain ``DataFrame`` all the same, and its text is that of
pandas. The options of pandas hold, and who told IPython before how to show a ``DataFrame`` keeps that.

A table holds texts of devices as they came. What pandas prints of it (``print(frame)``, ``to_string``) writes them so,
with escape sequences that act on a terminal; ``print(frame.mirror.visible())`` shows them as escapes.

To hand a table on, ``to_parquet`` keeps all of it; a span such as ``latency`` is a number of milliseconds to readers
that do not know Arrow's types. ``to_csv`` and ``to_json(orient="records", date_format="iso")`` keep values as texts,
``to_sql`` makes a span a number of nanoseconds, and ``frame.mirror.for_excel()`` is what ``to_excel`` takes (with
openpyxl installed).
"""

# Before all else that needs them: they are an extra, and who lacks them is told how to get it.
try:
    import pandas  # noqa: F401, ICN001
    import pyarrow  # noqa: F401, ICN001
except ModuleNotFoundError as _error:
    if _error.name not in {"pandas", "pyarrow"}:
        raise
    raise ImportError(f'tables need {_error.name}: pip install "device-state-mirror[frames]"') from _error

from mirror_sdk.frames.accessor import MirrorAccessor, mirror
from mirror_sdk.frames.columns import in_zone
from mirror_sdk.frames.device_events import device_events_frame
from mirror_sdk.frames.drift import DRIFT_SCHEMA, DriftKind, drift_frame
from mirror_sdk.frames.events import events_frame
from mirror_sdk.frames.files import from_arrow, read_parquet, to_arrow
from mirror_sdk.frames.history import history_frame
from mirror_sdk.frames.requests import REQUESTS_SCHEMA, RequestStatus, request_status, requests_frame
from mirror_sdk.frames.shown import show_in_notebooks
from mirror_sdk.frames.stale import STALE_SCHEMA, stale_devices
from mirror_sdk.frames.state import directory_frame, state_frame, value_column, wide
from mirror_sdk.tables.arrow_types import ArrowStream, ArrowTable
from mirror_sdk.tables.device_events import DEVICE_EVENTS_SCHEMA
from mirror_sdk.tables.events import EVENTS_RAW_SCHEMA, EVENTS_SCHEMA
from mirror_sdk.tables.history import HISTORY_RAW_SCHEMA, HISTORY_SCHEMA
from mirror_sdk.tables.state import DIRECTORY_SCHEMA, STATE_RAW_SCHEMA, STATE_SCHEMA

__all__ = [
    "DEVICE_EVENTS_SCHEMA",
    "DIRECTORY_SCHEMA",
    "DRIFT_SCHEMA",
    "EVENTS_RAW_SCHEMA",
    "EVENTS_SCHEMA",
    "HISTORY_RAW_SCHEMA",
    "HISTORY_SCHEMA",
    "REQUESTS_SCHEMA",
    "STALE_SCHEMA",
    "STATE_RAW_SCHEMA",
    "STATE_SCHEMA",
    "ArrowStream",
    "ArrowTable",
    "DriftKind",
    "MirrorAccessor",
    "RequestStatus",
    "device_events_frame",
    "directory_frame",
    "drift_frame",
    "events_frame",
    "from_arrow",
    "history_frame",
    "in_zone",
    "mirror",
    "read_parquet",
    "request_status",
    "requests_frame",
    "stale_devices",
    "state_frame",
    "to_arrow",
    "value_column",
    "wide",
]

show_in_notebooks()
