"""Intact and damaged streams of snapshots."""

import json
from datetime import UTC, datetime
from itertools import chain

import pyarrow as pa

from mirror_sdk.wire.snapshot import END_KEY
from mirror_server.extensions.snapshots.arrow import SCHEMA

_BATCHES, _DEVICES = 3, 4
_AT = datetime(2026, 1, 31, tzinfo=UTC)
_EXTREMES = (b"\xff" * 4, b"\x00" * 4, b"\xff\xff\xff\x7f", b"\x00\x00\x00\x80", b"\xff" * 8, b"\xff" * 7 + b"\x7f")


def device(number):
    """Return a row of the stream: values of all kinds, some desired."""
    paths = ["/3/0/0", "/3303/0/5700", "/3303/0/5701", "/3311/0/5850", "/9999/0/1"][: number % 6]
    return {
        "device_id": f"{number:032x}",
        "endpoint_name": f"device-{number}",
        "resources": [
            {
                "path": path,
                "subscribed": index % 2 == 0,
                "reported_value": [b"Example", b"21.5", b"K", b"1", b"\xff\x00"][index],
                "reported_content_type": ["text/plain", None][index == 4],
                "reported_at": _AT,
                "reported_expires_at": None,
                "reported_revision": [None, 7, 2**63 - 1, 0, 8][index],
                "reported_origin": [None, "read", "subscription", "auto_observation", "read"][index],
            }
            for index, path in enumerate(paths)
        ],
        "desired": [
            {
                "resource": 3,
                "desired_value": b"0",
                "desired_content_type": "text/plain",
                "desired_status": 1,
                "desired_at": _AT,
                "requested_at": _AT,
                "desired_revision": 9,
                "acknowledged_at": _AT,
                "acknowledged_by": "night shift",
            }
        ][: len(paths) > 3],
    }


def end(device_count):
    fields = {
        "object": "snapshot-end",
        "taken_at": _AT.isoformat(),
        "device_count": device_count,
        "revision": 9,
        "seq": 7,
    }
    return json.dumps(fields).encode()


def arrow_stream(rows, compression=None, schema=SCHEMA, device_count=None, ends_after=None):
    """Return a stream of batches of rows. Its end is in an empty batch or in the last one."""
    sink = pa.BufferOutputStream()
    count = sum(map(len, rows)) if device_count is None else device_count
    with pa.ipc.new_stream(sink, schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        for number, some in enumerate(rows):
            metadata = {END_KEY: end(count)} if number == ends_after else None
            writer.write_batch(pa.RecordBatch.from_pylist(some, schema=schema), custom_metadata=metadata)
        if ends_after is None:
            writer.write_batch(pa.RecordBatch.from_pylist([], schema=schema), custom_metadata={END_KEY: end(count)})
    return sink.getvalue().to_pybytes()


def batches():
    return [[device(batch * _DEVICES + number) for number in range(_DEVICES)] for batch in range(_BATCHES)]


def ndjson_stream():
    lines = []
    for row in chain.from_iterable(batches()):
        resources = [
            {"resource_path": one["path"], "subscribed": True, "reported": {"value": "MjEuNQ=="}, "desired": {}}
            for one in row["resources"]
        ]
        fields = {"object": "device-echo", "device_id": row["device_id"], "created_at": _AT.isoformat()}
        lines.append(json.dumps(fields | {"resources": resources}).encode())
    return b"\n".join([*lines, end(len(lines)), b""])


def mutated(content, rng):
    """Generate damaged streams."""
    data = bytearray(content)
    at = rng.randrange(len(data))
    match rng.randrange(6):
        case 0:
            for _ in range(rng.choice([1, 1, 2, 8])):
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        case 1 | 2:
            extreme = rng.choice(_EXTREMES)
            data[at - at % 4 : at - at % 4 + len(extreme)] = extreme
        case 3:
            del data[at : at + rng.choice([1, 4, 8, 64, 500])]
        case 4:
            data[at:at] = data[at - min(at, 200) : at]
        case 5:
            for index in range(at, min(at + 16, len(data))):
                data[index] = rng.randrange(256)
    return bytes(data)
