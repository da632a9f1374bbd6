"""Tables for pandas, Arrow and Polars, and the accessor ``frame.mirror``."""

# Imported first, because both packages belong to an optional extra: the error says how to install it.
try:
    import pandas  # noqa: F401, ICN001
    import pyarrow  # noqa: F401, ICN001
except ModuleNotFoundError as _error:
    if _error.name not in {"pandas", "pyarrow"}:
        raise
    raise ImportError(f'tables need {_error.name}: pip install "device-state-mirror[frames]"') from _error

from mirror_sdk.arrow_tables.arrow_types import ArrowStream, ArrowTable
from mirror_sdk.arrow_tables.device_events import DEVICE_EVENTS_SCHEMA
from mirror_sdk.arrow_tables.events import EVENTS_RAW_SCHEMA, EVENTS_SCHEMA
from mirror_sdk.arrow_tables.history import HISTORY_RAW_SCHEMA, HISTORY_SCHEMA
from mirror_sdk.arrow_tables.state import DIRECTORY_SCHEMA, STATE_RAW_SCHEMA, STATE_SCHEMA
from mirror_sdk.frames.accessor import MirrorAccessor, mirror
from mirror_sdk.frames.columns import in_zone
from mirror_sdk.frames.device_events import device_events_frame
from mirror_sdk.frames.drift import DRIFT_SCHEMA, DriftKind, drift_frame
from mirror_sdk.frames.events import events_frame
from mirror_sdk.frames.files import from_arrow, read_parquet, to_arrow
from mirror_sdk.frames.history import history_frame
from mirror_sdk.frames.html import show_in_notebooks
from mirror_sdk.frames.requests import REQUESTS_SCHEMA, RequestStatus, request_status, requests_frame
from mirror_sdk.frames.staleness import STALE_SCHEMA, stale_devices
from mirror_sdk.frames.state import directory_frame, state_frame, value_column, wide

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
