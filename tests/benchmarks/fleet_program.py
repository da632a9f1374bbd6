"""Loads a fleet as a table, in one of several ways, and writes lines of JSON. Arguments: way, URL, key.

``naive`` is the loop that one writes without a snapshot, and ``snapshot`` uses one. ``arrow`` and ``polars`` are the
same in another form. ``file`` reads the same bytes from a file, whose name replaces the URL. ``dataset`` writes a
dataset and returns a table without columns.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
from machine import most_resident_bytes

import mirror_sdk.frames  # noqa: F401 - its imports do not count for a table
from mirror_sdk import MirrorClient
from mirror_sdk.device import DeviceObject
from mirror_sdk.snapshot.device_selection import Selection
from mirror_sdk.snapshot.snapshot_reader import read_snapshot
from mirror_sdk.snapshot.snapshot_request import SnapshotRequest
from mirror_sdk.snapshot.table import snapshot_tables
from mirror_sdk.table_formats import to_pandas

FORMS = {"snapshot": "pandas", "arrow": "arrow", "polars": "polars"}
_TIMEOUT_SECONDS = 600
_ARROW = "application/vnd.apache.arrow.stream"


def naive(url: str, key: str) -> pd.DataFrame:
    """Send a GET for each device, collect the objects in a list, and build the rows as dicts."""
    with MirrorClient(url, key, timeout=_TIMEOUT_SECONDS) as client:
        objects = [client.get_device(device_id) for device_id in client.devices.list().ids]
    return pd.DataFrame([row for each in objects for row in rows(each)])


def rows(device: DeviceObject) -> list[dict[str, Any]]:
    """Return the rows of a device."""
    return [
        {
            "device_id": device.device_id,
            "path": resource_.path,
            "label": resource_.label,
            "unit": resource_.unit,
            "reported": resource_.reported and resource_.reported.value.python,
            "reported_at": resource_.reported and resource_.reported.reported_at,
            "desired": resource_.desired and resource_.desired.value.python,
            "desired_at": resource_.desired and resource_.desired.desired_at,
            "subscribed": resource_.subscribed,
        }
        for resource_ in device.resources.values()
    ]


def snapshot(form: Any, url: str, key: str) -> Any:
    with MirrorClient(url, key, timeout=_TIMEOUT_SECONDS) as client:
        return client.fleet.snapshot(as_=form)


def from_file(path: str, _key: str) -> pd.DataFrame:
    request = SnapshotRequest(selection=Selection(), server="http://localhost")
    tables: list[pa.Table] = []
    with Path(path).open("rb") as file:
        result = read_snapshot(request, tables.append, sys.maxsize, {"Content-Type": _ARROW}, file)
    return to_pandas(*snapshot_tables(request, result, tables))


def dataset(url: str, key: str) -> pd.DataFrame:
    with MirrorClient(url, key, timeout=_TIMEOUT_SECONDS) as client, TemporaryDirectory(dir=Path.cwd()) as folder:
        written = client.fleet.dataset(Path(folder) / "fleet")
        return pd.DataFrame(index=range(written.rows))


WAYS: dict[str, Callable[[str, str], Any]] = {
    "naive": naive,
    **{way: partial(snapshot, form) for way, form in FORMS.items()},
    "file": from_file,
    "dataset": dataset,
}


def bytes_of(frame: pd.DataFrame | pa.Table | pl.DataFrame) -> int:
    if isinstance(frame, pd.DataFrame):
        return int(frame.memory_usage(deep=True).sum())
    return int(frame.estimated_size()) if isinstance(frame, pl.DataFrame) else int(frame.nbytes)


def main() -> None:
    warnings.simplefilter("ignore")
    way, url, key = sys.argv[1:]
    for _ in sys.stdin:
        before, began = most_resident_bytes("self"), time.perf_counter()
        frame = WAYS[way](url, key)
        seconds = time.perf_counter() - began
        size = bytes_of(frame)
        peak = most_resident_bytes("self") - before
        response = {"seconds": seconds, "megabytes": peak / 1e6, "frames": peak / size, "rows": len(frame)}
        print(json.dumps(response), flush=True)


if __name__ == "__main__":
    main()
