"""The snapshot and the history as clients read them, in both formats, strictly validated."""

import base64
import json
from datetime import UTC, datetime
from importlib import import_module
from typing import Any

import pyarrow as pa

from mirror_sdk.wire.device_object import DeviceObjectBody
from mirror_sdk.wire.history import HistoryCursor, HistoryEnd, HistoryRow
from mirror_sdk.wire.snapshot import ARROW, END_KEY, NDJSON, SnapshotEnd, UnchangedDevice

SNAPSHOT = "/v3/device-echo"
HISTORY = f"{SNAPSHOT}/history"
LINES: dict[str, Any] = {
    "device-echo": DeviceObjectBody,
    "device-echo-unchanged": UnchangedDevice,
    "history-row": HistoryRow,
    "history-cursor": HistoryCursor,
}

Read = tuple[list[dict[str, Any]], Any]


def instant(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def get(server: Any, key: str, url: str, accept: str | None = NDJSON, *, buffered: bool = True) -> Any:
    return server.call(key, "GET", url, {} if accept is None else {"Accept": accept}, buffered=buffered)


def lines_of(server: Any, key: str, query: str = "", path: str = SNAPSHOT) -> Read:
    """Return the lines without cursors, and the end."""
    response = get(server, key, f"{path}?{query}")
    assert (response.status_code, response.mimetype) == (200, NDJSON), response.get_data()
    *lines, end = [json.loads(line) for line in response.get_data().splitlines()]
    for line in lines:
        assert LINES[line["object"]].model_validate(line, extra="forbid").to_wire() == line
    rows = [line for line in lines if line["object"] != "history-cursor"]
    return rows, end_of(response, query, path, rows, end)


def arrow_of(server: Any, key: str, query: str = "", path: str = SNAPSHOT) -> Read:
    """Return the rows of all batches as JSON, and the end."""
    response = get(server, key, f"{path}?{query}", ARROW)
    assert (response.status_code, response.mimetype) == (200, ARROW), response.get_data()
    *batches, (last, metadata) = batches_of(response.get_data())
    kind = import_module(f"mirror_server.extensions.{'history' if path == HISTORY else 'snapshots'}.arrow")
    assert (last.num_rows, last.schema) == (0, kind.SCHEMA)
    rows = json.loads(json.dumps([row for batch, _ in batches for row in batch.to_pylist()], default=plain))
    if path == HISTORY:
        rows = [
            {"object": "history-row"} | {name: each for name, each in row.items() if each is not None} for row in rows
        ]
    return rows, end_of(response, query, path, rows, json.loads(metadata[END_KEY]))


def end_of(response: Any, query: str, path: str, rows: list[Any], end: Any) -> Any:
    is_snapshot = path == SNAPSHOT
    found = (SnapshotEnd if is_snapshot else HistoryEnd).model_validate(end, extra="forbid")
    assert getattr(found, "device_count" if is_snapshot else "row_count") == len(rows)
    assert response.headers.get("Mirror-Total") == (str(len(rows)) if is_snapshot and "as_of" not in query else None)
    return found


def batches_of(content: bytes) -> list[Any]:
    """Return the batches of an Arrow stream, each with its metadata."""
    with pa.ipc.open_stream(content) as batches:
        return list(iter(batches.read_next_batch_with_custom_metadata, None))


def plain(value: Any) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return str(value.isoformat(timespec="milliseconds")).replace("+00:00", "Z")


REPORTED = [f"reported_{name}" for name in ("value", "content_type", "at", "expires_at", "revision", "origin")]
DESIRED = [f"desired_{name}" for name in ("value", "content_type", "status", "at", "revision")]
DESIRED += ["requested_at", "acknowledged_at", "acknowledged_by"]


def in_columns(device: dict[str, Any]) -> dict[str, Any]:
    """Return the columns of a device object in the Arrow format."""
    resources, desired = [], []
    for index, each in enumerate(device["resources"]):
        name = {"path": each["resource_path"], "subscribed": each.get("subscribed")}
        resources.append(name | columns(each["reported"], REPORTED))
        if each["desired"]:
            desired.append({"resource": index} | columns(each["desired"], DESIRED))
    return {name: device[name] for name in ("device_id", "endpoint_name")} | {
        "resources": resources,
        "desired": desired,
    }


def columns(half: dict[str, Any], names: list[str]) -> dict[str, Any]:
    return {name: half.get(name, half.get(name.partition("_")[2])) for name in names}
