"""Reads a value again and again with this project's SDK; speaks lines of JSON. Arguments: URL, key, device id, path."""

from __future__ import annotations

import json
import sys
import time

from mirror_sdk import MirrorClient


def main() -> None:
    url, key, device_id, path = sys.argv[1:]
    with MirrorClient(url, key) as client:
        for line in sys.stdin:
            taken = []
            for _ in range(json.loads(line)["calls"]):
                began = time.perf_counter()
                value = client.read_value(device_id, path)
                taken.append(time.perf_counter() - began)
            print(json.dumps({"seconds": sorted(taken)[len(taken) // 2], "value": str(value)}), flush=True)


if __name__ == "__main__":
    main()
