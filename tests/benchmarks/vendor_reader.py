"""Reads a value again and again with the vendor's SDK; speaks lines of JSON. Arguments: URL, key, device id, path.

Runs in an environment of its own, which has nothing of this project.
"""

import json
import os
import sys
import time

from mbed_cloud import ConnectAPI


def main():
    url, key, device_id, path = sys.argv[1:]
    connect = ConnectAPI({"api_key": key, "host": url})
    connect.start_notifications()
    for line in sys.stdin:
        taken = []
        for _ in range(json.loads(line)["calls"]):
            began = time.perf_counter()
            value = connect.get_resource_value(device_id, path)
            taken.append(time.perf_counter() - began)
        print(json.dumps({"seconds": sorted(taken)[len(taken) // 2], "value": str(value)}), flush=True)
    # Its threads would go on polling.
    os._exit(0)


main()
