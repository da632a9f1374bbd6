"""Tables for pandas, Arrow and Polars, and the accessor ``frame.mirror``.

>>> client.write_value("light-01", "/3311/0/5851", 40)
>>> state = client.state_frame()
>>> state.mirror.drift()[["path", "desired_num", "kind"]].to_dict("records")
[{'path': '/3311/0/5851', 'desired_num': 40.0, 'kind': 'never_reported'}]

- ``client.state_frame()`` and ``client.fleet.snapshot()``: the state of devices.
- ``client.notifications.events_frame()``: events of the notification log.
- ``client.requests.frame(handles)``: requests and their results, as in the notification log now.
- ``client.devices.list()`` with ``to_frame()``: the directory.
- ``client.devices.events_frame()``: registrations and deregistrations of devices.

A pyarrow schema defines the columns, types and order of each table.

Analysis
--------

Importing ``mirror_sdk.frames`` gives every pandas frame the accessor ``mirror``
(:class:`~mirror_sdk.frames.accessor.MirrorAccessor`). Type checkers treat ``frame.mirror`` as a column, so for them use
``mirror_sdk.frames.mirror(frame)``, which is the same accessor.

- ``drift``: where desired and reported values differ, and why.
- ``stale``: outdated values, and silent devices.
- ``wide``: one column per resource. ``plot_timeline``: a plot of events.
- For the history, recordings and events: ``resample``, ``durations``, ``availability``, ``rates``, ``align``,
  ``compare``, ``gaps``, ``late_arrivals`` and ``unchanged``.

A failed write stays in the drift table until the next write. ``client.requests.acknowledge_failed_write(device, path)``
acknowledges it: drift, FleetTable and the web page then omit it. ``drift(acknowledged=True)`` shows it. Pass a drift or
state table to acknowledge all failures that the table shows. If a later write has failed since the table was
read, acknowledging it is rejected.

Times, missing values and metadata
----------------------------------

Missing values are ``NA``. Times are UTC in milliseconds unless you set ``tz``. All times come from the clock of the
service, so you can compare them with each other. The exceptions are ``received_at``, which is the client's clock, and
durations such as ``latency``, which the client measures.

The metadata of a table is ``attrs["mirror"]``. pandas writes it into Parquet files, and drops it in merges, joins and
pivots. ``frame.mirror.join(other)`` keeps it; ``frame.mirror.with_metadata_from(original)`` restores it.

To join values with another source by time, convert both times to one unit, which ``pandas.merge_asof``
requires:

>>> import pandas as pd
>>> weather = pd.DataFrame({"at": pd.to_datetime(["2026-01-01T00:00Z"]), "outside": [3.5]})
>>> weather["at"] = weather["at"].dt.as_unit("ms")
>>> client.subscriptions.rules.replace([{"resource_path": ["/3303/*"]}])
>>> simulator.register("station-01")
>>> values = client.notifications.events_frame(after=0, timeout=0).dropna(subset="value_num").sort_values("changed_at")
>>> both = pd.merge_asof(values, weather, left_on="changed_at", right_on="at")
>>> both[["value_num", "outside"]].values.tolist()
[[21.5, 3.5]]

Arrow and Polars
----------------

``as_="arrow"`` returns a ``pyarrow.Table``, ``as_="polars"`` a ``polars.DataFrame``. Both have the same Arrow columns
and are made without pandas, which the extras ``arrow`` and ``polars`` do not install. pyarrow itself loads pandas if it
is installed.

>>> from mirror_sdk.frames import from_arrow
>>> table = client.fleet.snapshot(paths=["/3311/*"], as_="arrow")
>>> table.num_rows, from_arrow(table).attrs["mirror"]["devices"]
(2, 2)
>>> client.fleet.snapshot(paths=["/3303/*"], as_="polars")["path"].to_list()
['/3303/0/5700']

The metadata is JSON under ``mirror`` in the Arrow schema. Arrow keeps it in Parquet files, and ``from_arrow`` converts
such a table to a frame. Polars cannot store metadata. Categories become Polars ``Categorical``; fixed categories
become ``Enum`` and keep their order.

All three kinds support ``__arrow_c_stream__``, so Polars, DuckDB and others read any of them directly. DuckDB before
1.2 reads a missing number of a pandas frame as 0; 1.4.4 and later are tested.

Display and export
------------------

In a notebook, a table of this package shows ids and times in one line, ``—`` for missing values, and units and zones in
the header (``frame.mirror.to_html()``). It remains a plain ``DataFrame``, and pandas formats its text. The options
of pandas apply. If you registered an IPython formatter for ``DataFrame`` before, yours is used.

A table contains texts as the devices sent them. ``print(frame)`` and ``to_string`` print them unchanged, including
escape sequences that act on a terminal. ``print(frame.mirror.visible())`` shows these as escapes.

- ``to_parquet`` keeps everything. Readers without Arrow types see a duration such as ``latency`` as milliseconds.
- ``to_csv`` and ``to_json(orient="records", date_format="iso")`` store values as text.
- ``to_sql`` stores a duration as a number of nanoseconds.
- ``frame.mirror.for_excel()`` returns a frame for ``to_excel``, which needs openpyxl.
"""

# Imported first: they are an extra, and the error says how to install it.
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
from mirror_sdk.frames.html import show_in_notebooks
from mirror_sdk.frames.requests import REQUESTS_SCHEMA, RequestStatus, request_status, requests_frame
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
