"""Calls of the SDK and the same requests by bare httpx, one after the other in one process; speaks lines of JSON.

Arguments: URL, key, device id. Each pair is told apart by name; the answer has the median seconds of both sides.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import httpx

from mirror_sdk import MirrorClient


def compare(sides: dict[str, Callable[[], Any]], calls: int) -> dict[str, float]:
    """The median seconds of each side, called in turn."""
    taken: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(calls):
        for name, call in sides.items():
            began = time.perf_counter()
            call()
            taken[name].append(time.perf_counter() - began)
    return {name: statistics.median(seconds) for name, seconds in taken.items()}


def main() -> None:
    url, key, device_id = sys.argv[1:]
    bare = httpx.Client(base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=30)

    def get(path: str) -> Any:
        return bare.get(path).raise_for_status().json()

    with bare, MirrorClient(url, key) as client:
        pairs: dict[str, dict[str, Callable[[], Any]]] = {
            "directory device": {
                "MirrorClient": lambda: client.get_directory_device(device_id),
                "httpx": lambda: get(f"/v3/devices/{device_id}"),
            },
            "device object": {
                "MirrorClient": lambda: client.get_device(device_id),
                "httpx": lambda: get(f"/v3/devices/{device_id}/echo"),
            },
            "device object and its values": {
                "MirrorClient": lambda: client.get_device(device_id).resources,
                "httpx": lambda: get(f"/v3/devices/{device_id}/echo"),
            },
        }
        for line in sys.stdin:
            command = json.loads(line)
            print(json.dumps(compare(pairs[command["pair"]], command["calls"])), flush=True)


if __name__ == "__main__":
    main()
