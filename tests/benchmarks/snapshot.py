"""The fleet as a table: one snapshot against a GET a device, and against reading the same bytes from a file.

Run it as ``python tests/benchmarks/snapshot.py --devices 10000 --resources 20``. Every measurement is a process of its
own; all of one run stand beside each other, so that their ratios say something on any machine.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import click
import httpx
import pandas as pd

from mirror_sdk import MirrorClient
from mirror_sdk.device import DeviceObject
from mirror_sdk.snapshot.reading import read_snapshot
from mirror_sdk.snapshot.request import SnapshotRequest
from mirror_sdk.wire import device_object
from mirror_server import keys
from mirror_server.keys import Scope
from mirror_server.store.database import Database
from mirror_server.store.devices import AnnouncedResource, DeviceRow, announce, put, report

ROOT = Path(__file__).parents[2]
NOW = int(time.time() * 1000)
ARROW = {"Accept": "application/vnd.apache.arrow.stream"}
REPEATS = 5


def fill(database: Database, devices: int, resources: int) -> None:
    """A fleet whose devices report numbers, texts and booleans."""
    rng = random.Random(0)
    paths = [f"/3303/{number}/5700" for number in range(resources - 4)]
    paths += ["/3303/0/5701", "/3/0/0", "/3/0/13", "/3311/0/5850"][: min(4, resources)]
    values = {"/3303/0/5701": b"Cel", "/3/0/0": b"Example Devices", "/3/0/13": b"1767600000", "/3311/0/5850": b"1"}
    announced = [AnnouncedResource(path, "", "text/plain", observable=True) for path in paths]
    for begin in range(0, devices, 500):
        names = [f"{number:032x}" for number in range(begin, min(begin + 500, devices))]
        rows = [
            {
                "device_id": name,
                "path": path,
                "value": values.get(path) or f"{rng.uniform(-20, 40):.2f}".encode(),
                "content_type": "text/plain",
                "origin": "read",
                "at": NOW,
                "expires_at": NOW + 60_000,
            }
            for name in names
            for path in paths
        ]

        def work(session: Any, names: list[str] = names, rows: list[dict[str, Any]] = rows) -> None:
            for name in names:
                put(session, DeviceRow(name, f"device-{name[-6:]}", "Sensor", 1, 0, 86400, NOW, NOW, NOW, NOW))
                announce(session, name, announced)
            report(session, rows)

        database.write(work)


@contextmanager
def serving(database_url: str) -> Iterator[tuple[str, int]]:
    command = [sys.executable, "-m", "mirror_server", "run", "--port", "0", "--database", database_url]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    ) as server:
        assert server.stdout is not None
        url = server.stdout.readline().rpartition(" on ")[2].strip()
        try:
            yield url, server.pid
        finally:
            server.terminate()


def naive(url: str, key: str) -> Any:
    """What one writes without this: a GET a device, models in a list, row dicts."""
    with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=60) as http:
        ids, after = [], {}
        while True:
            page = http.get("/v3/devices", params={"limit": 1000, **after}).json()
            ids += [device["id"] for device in page["data"]]
            if not page["has_more"]:
                break
            after = {"after": ids[-1]}
        answers = (http.get(f"/v3/devices/{device_id}/echo") for device_id in ids)
        models = [device_object.DeviceObject.model_validate_json(answer.content) for answer in answers]
    objects = [DeviceObject.from_wire(model) for model in models]
    return pd.DataFrame(
        [
            {
                "device_id": one.device_id,
                "path": resource.path,
                "label": resource.label,
                "unit": resource.unit,
                "reported": resource.reported and resource.reported.value.python,
                "reported_at": resource.reported and resource.reported.reported_at,
                "desired": resource.desired and resource.desired.value.python,
                "desired_at": resource.desired and resource.desired.desired_at,
                "subscribed": resource.subscribed,
            }
            for one in objects
            for resource in one.resources.values()
        ]
    )


def by_snapshot(url: str, key: str) -> Any:
    with MirrorClient(url, key, timeout=300) as client:
        return client.snapshot()


def from_file(_: str, key: str) -> Any:
    """The same bytes, from a file whose name stands in the place of the key."""
    request = SnapshotRequest.of({}, None, None, server="http://localhost")
    with Path(key).open("rb") as file:
        return request.frame(read_snapshot(request, {"Content-Type": ARROW["Accept"]}, file))


WAYS: dict[str, Callable[[str, str], Any]] = {
    "naive": naive,
    "snapshot": by_snapshot,
    "warm": by_snapshot,
    "file": from_file,
}


def measure(way: str, url: str, key: str, times: int) -> None:
    """Do it, and print the seconds of each time, the memory the first took at most, and that of the frame."""
    if way == "warm":
        # What is loaded at the first snapshot, however small, is no part of it.
        with MirrorClient(url, key) as client:
            client.snapshot(devices=client.list_devices(limit=2))
    Path("/proc/self/clear_refs").write_text("5")
    before = bytes_of("self", "VmRSS")
    seconds = []
    for number in range(times):
        began = time.perf_counter()
        frame = WAYS[way](url, key)
        seconds.append(time.perf_counter() - began)
        if number == 0:
            most = bytes_of("self", "VmHWM") - before
    size = int(frame.memory_usage(deep=True).sum())
    print(json.dumps({"seconds": seconds, "most": most, "frame": size, "rows": len(frame)}))


def run(way: str, url: str, key: str, times: int = 1) -> dict[str, Any]:
    command = [sys.executable, __file__, "--as-client", way, url, key, str(times)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@click.command()
@click.option("--devices", default=10_000, show_default=True)
@click.option("--resources", default=20, show_default=True)
@click.option("--as-client", nargs=4, type=(str, str, str, int), hidden=True)
def main(devices: int, resources: int, as_client: tuple[str, str, str, int] | None) -> None:
    """Measure, and print a table."""
    warnings.simplefilter("ignore")
    if as_client is not None:
        measure(*as_client)
        return
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/mirror.db"
        with closing(Database(url)) as database:
            key = keys.create(database, "benchmark", tuple(Scope), 0)
            fill(database, devices, resources)
        compare(url, key, Path(folder))


def compare(database_url: str, key: str, folder: Path) -> None:
    with serving(database_url) as (url, pid):
        loop = run("naive", url, key)["seconds"][0]
        before = bytes_of(pid, "VmHWM")
        cold = run("snapshot", url, key)
        grown = bytes_of(pid, "VmHWM") - before
        held = run("snapshot", url, key, REPEATS)
        warm = run("warm", url, key)
        file = folder / "snapshot.arrow"
        headers = {"Authorization": f"Bearer {key}", **ARROW}
        file.write_bytes(httpx.get(f"{url}/v3/device-echo", headers=headers, timeout=300).content)
        read = run("file", url, str(file), REPEATS)
    first, later = cold["seconds"][0], statistics.median(held["seconds"][1:])
    from_disk = statistics.median(read["seconds"][1:])
    print(f"rows                           {cold['rows']}, {file.stat().st_size / 1e6:.1f} MB on the way")
    print(f"a GET a device                 {loop:.2f} s")
    print(f"snapshot, the first            {first:.3f} s, {loop / first:.0f} x")
    print(f"snapshot, held by the server   {later:.3f} s, {loop / later:.0f} x")
    print(f"the same bytes from a file     {from_disk:.3f} s; the snapshot takes {later / from_disk:.2f} x that")
    print(f"memory of the client           {warm['most'] / 1e6:.0f} MB, {warm['most'] / warm['frame']:.2f} x the frame")
    print(f"memory of the server           {grown / 1e6:.0f} MB more, what it holds included")


def bytes_of(pid: int | str, name: str) -> int:
    """What the kernel tells of the memory of a process: ``VmRSS`` now, ``VmHWM`` at most."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith(name)).split()[1]) * 1024


if __name__ == "__main__":
    main()
