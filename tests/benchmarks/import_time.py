"""How long ``import mirror_sdk`` takes in a fresh process, and that it does not load pandas."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

from children import ChildFailed, environment
from machine import on_cores
from measuring import Figure, alternate, at_most, median
from run_settings import Run

NAME = "import_time"
_PROGRAM = """
import json, sys, time
began = time.perf_counter()
from mirror_sdk import MirrorClient
print(json.dumps([time.perf_counter() - began, sorted({"pandas", "pyarrow"} & sys.modules.keys())]))
"""


def measure(run: Run) -> Iterator[Figure]:
    with on_cores(run.cores.client):
        samples = alternate({"import": import_seconds}, max(5, run.scale.rounds))
    yield median(NAME, "from mirror_sdk import MirrorClient", samples["import"], "s", at_most(0.3))


def import_seconds() -> float:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], env=environment(), capture_output=True, text=True, check=True
    )
    seconds, loaded = json.loads(done.stdout)
    if loaded:
        raise ChildFailed(f"the SDK loads {loaded}")
    return float(seconds)
