"""A fleet made into a table, in one of several ways; speaks lines of JSON. Arguments: way, URL, key.

``naive`` is what one writes without a snapshot, ``snapshot`` is one, ``arrow`` and ``polars`` are the same in another
form, ``file`` reads the same bytes from a file, whose name stands in the place of the URL. ``dataset`` writes one and
gives a table without columns.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet

import mirror_sdk.frames  # noqa: F401 - what it loads is none of what a table takes
from mirror_sdk import MirrorClient
from mirror_sdk.device import DeviceObject
from mirror_sdk.forms import given
from mirror_sdk.snapshot.reading import read_snapshot
from mirror_sdk.snapshot.request import SnapshotRequest
from mirror_sdk.snapshot.selection import Selection
from mirror_sdk.snapshot.table import snapshot_parts
from mirror_sdk.wire import device_object

_TIMEOUT_SECONDS = 600
_ARROW = "application/vnd.apache.arrow.stream"


def naive(url: str, key: str) -> pd.DataFrame:
    """A GET a device, models in a list, row dicts."""
    headers = {"Authorization": f"Bearer {key}"}
    with httpx.Client(base_url=url, headers=headers, timeout=_TIMEOUT_SECONDS) as http:
        answers = (http.get(f"/v3/devices/{device_id}/echo") for device_id in device_ids(http))
        models = [device_object.DeviceObject.model_validate_json(answer.content) for answer in answers]
    return pd.DataFrame([row for model in models for row in rows(DeviceObject.from_wire(model))])


def device_ids(http: httpx.Client) -> list[str]:
    """The ids of all devices, page by page."""
    ids: list[str] = []
    has_more = True
    while has_more:
        after = {"after": ids[-1]} if ids else {}
        page = http.get("/v3/devices", params={"limit": 1000, **after}).json()
        ids += [device["id"] for device in page["data"]]
        has_more = page["has_more"]
    return ids


def rows(device: DeviceObject) -> list[dict[str, Any]]:
    """A device as rows."""
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


def snapshot(url: str, key: str) -> pd.DataFrame:
    with MirrorClient(url, key, timeout=_TIMEOUT_SECONDS) as client:
        return client.snapshot()


def arrow(url: str, key: str) -> pa.Table:
    with MirrorClient(url, key, timeout=_TIMEOUT_SECONDS) as client:
        return client.snapshot(as_="arrow")


def polars(url: str, key: str) -> pl.DataFrame:
    with MirrorClient(url, key, timeout=_TIMEOUT_SECONDS) as client:
        return client.snapshot(as_="polars")


def from_file(path: str, _key: str) -> pd.DataFrame:
    request = SnapshotRequest(selection=Selection(), server="http://localhost")
    tables: list[pa.Table] = []
    with Path(path).open("rb") as file:
        taken = read_snapshot(request, tables.append, sys.maxsize, {"Content-Type": _ARROW}, file)
    return given(*snapshot_parts(request, taken, tables), as_="pandas", tz=None)


def dataset(url: str, key: str) -> pd.DataFrame:
    with MirrorClient(url, key, timeout=_TIMEOUT_SECONDS) as client, TemporaryDirectory(dir=Path.cwd()) as folder:
        written = client.snapshot_dataset(Path(folder) / "fleet")
        return pd.DataFrame(index=range(written.rows))


WAYS: dict[str, Callable[[str, str], pd.DataFrame | pa.Table | pl.DataFrame]] = {
    "naive": naive,
    "snapshot": snapshot,
    "arrow": arrow,
    "polars": polars,
    "file": from_file,
    "dataset": dataset,
}


def bytes_of(frame: pd.DataFrame | pa.Table | pl.DataFrame) -> int:
    if isinstance(frame, pd.DataFrame):
        return int(frame.memory_usage(deep=True).sum())
    return int(frame.estimated_size()) if isinstance(frame, pl.DataFrame) else int(frame.nbytes)


def peak_bytes() -> int:
    """The most memory this process has had; what ``getrusage`` tells of a child begins with what its parent had."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def main() -> None:
    warnings.simplefilter("ignore")
    way, url, key = sys.argv[1:]
    for _ in sys.stdin:
        before, began = peak_bytes(), time.perf_counter()
        frame = WAYS[way](url, key)
        seconds = time.perf_counter() - began
        size = bytes_of(frame)
        peak = peak_bytes() - before
        answer = {"seconds": seconds, "megabytes": peak / 1e6, "frames": peak / size, "rows": len(frame)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
