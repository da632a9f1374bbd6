"""How long ``from mirror_sdk import MirrorClient`` takes in a fresh process, and that it does not load pandas.

Python loads bytecode, as after an installation; without any, everything is compiled and takes 1.8 times as long. What
is put off until the first client is made is measured too: httpx, and pydantic's validators with the first answer.

Where the time goes (``-X importtime``): pydantic and what it loads 70 %, the SDK's own modules 30 %, of which a third
are its 40 models. What had a gain: no ``RootModel`` and no default that is a model, for each builds a validator, which
looks for pydantic's plugins among all that is installed; and parts that few programs use are loaded when they are used.
Tried without gain: types of our own in the place of those of ``pydantic.types``, which ``pydantic.Field`` loads anyway.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

from children import ChildFailed, environment
from machine import on_cores
from measuring import Figure, at_most, median
from run_settings import Run

NAME = "import_time"
_PROGRAM = """
import json, sys, time
began = time.perf_counter()
from mirror_sdk import MirrorClient
imported = time.perf_counter()
loaded = sorted({"pandas", "pyarrow"} & sys.modules.keys())
MirrorClient("http://localhost", "a-key").close()
print(json.dumps([imported - began, time.perf_counter() - began, loaded]))
"""


def measure(run: Run) -> Iterator[Figure]:
    with on_cores(run.cores.client):
        # The first one writes the bytecode.
        _, *taken = [import_seconds() for _ in range(1 + max(5, run.scale.rounds))]
    imported, made = zip(*taken, strict=True)
    yield median(NAME, "from mirror_sdk import MirrorClient", list(imported), "s", at_most(0.3))
    yield median(NAME, "the same, and the first client", list(made), "s")


def import_seconds() -> tuple[float, float]:
    """Until the client is imported, and until one is made."""
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], env=environment(), capture_output=True, text=True, check=True
    )
    imported, made, loaded = json.loads(done.stdout)
    if loaded:
        raise ChildFailed(f"the SDK loads {loaded}")
    return imported, made
