"""A value read from a simulated device, synchronously: this SDK against the vendor's old one, on the same server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import httpx
from children import Program, program
from filling import fill
from measuring import Figure, alternate, at_least, median, ratio
from peers import VENDOR_SDK
from run_settings import Run
from serving import mirror

NAME = "read_value"
_PATH = "/3303/0/5700"


def measure(run: Run) -> Iterator[Figure]:
    filled = fill(run.folder / "read-value.db", device_count=1, resource_count=1)
    with ExitStack() as stack:
        server = stack.enter_context(mirror(run, filled, run.cores.one, "--simulate", "0"))
        device_id = add_device(server.url, filled.key)
        arguments = (server.url, filled.key, device_id, _PATH)
        where = {"folder": run.folder, "cores": run.cores.client}
        sdk = stack.enter_context(program("sdk_reader.py", *arguments, **where))
        sides = {"SDK": reading(sdk, run.scale.calls)}
        if run.peers is not None:
            python = run.peers.python("vendor-sdk", VENDOR_SDK)
            vendor = stack.enter_context(program("vendor_reader.py", *arguments, python=python, **where))
            # A call of it takes a hundred times as long.
            sides["vendor"] = reading(vendor, max(5, run.scale.calls // 20))
        samples = alternate(sides, run.scale.rounds)
    yield median(NAME, "read_value", samples["SDK"], "ms")
    if run.peers is not None:
        yield ratio(NAME, "vendor's SDK / read_value", samples, "vendor", "SDK", "ms", at_least(40))


def reading(reader: Program, calls: int) -> Callable[[], float]:
    """The milliseconds of a call."""

    def read() -> float:
        answer = reader.ask(calls=calls)
        assert answer["value"] == "21.5", answer
        milliseconds: float = 1000 * answer["seconds"]
        return milliseconds

    return read


def add_device(url: str, key: str) -> str:
    """A simulated device with one value to read."""
    body = {"endpoint_name": "read", "resources": [{"path": _PATH, "value": "21.5", "observable": True}]}
    answer = httpx.post(f"{url}/sim/v1/devices", json=body, headers={"Authorization": f"Bearer {key}"})
    device_id: str = answer.raise_for_status().json()["id"]
    return device_id
