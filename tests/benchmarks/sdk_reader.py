"""Reads a value repeatedly with this project's SDK, or gets its device by httpx alone; lines of JSON.

Arguments: URL, key, device id, path. A line names the side and the number of reads; the response has the median
seconds.
"""

from __future__ import annotations

import base64
import json
import sys
import time
from collections.abc import Callable

import httpx

from mirror_sdk import MirrorClient


def main() -> None:
    url, key, device_id, path = sys.argv[1:]
    bare = httpx.Client(base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=30)

    def get() -> str:
        (only,) = bare.get(f"/v3/devices/{device_id}/echo").raise_for_status().json()["resources"]
        return base64.b64decode(only["reported"]["value"]).decode()

    with bare, MirrorClient(url, key) as client:
        sides: dict[str, Callable[[], str]] = {
            "read_value": lambda: str(client.read_value(device_id, path)),
            "GET": get,
        }
        for line in sys.stdin:
            command = json.loads(line)
            call, durations = sides[command["side"]], []
            for _ in range(command["calls"]):
                began = time.perf_counter()
                value = call()
                durations.append(time.perf_counter() - began)
            print(json.dumps({"seconds": sorted(durations)[len(durations) // 2], "value": value}), flush=True)


if __name__ == "__main__":
    main()
