"""Without what is an extra, whoever asks for a table is told how to install it, whichever way they asked."""

import os
import subprocess
import sys

import pytest

import mirror_sdk
from mirror_sdk import plan

WAYS = [
    "import mirror_sdk.frames",
    "from mirror_sdk.frames import drift_frame",
    "from mirror_sdk.frames.state import STATE_SCHEMA",
    "import mirror_sdk.plan",
    "from mirror_sdk import Plan",
    "mirror_sdk.AsyncPlan",
    "from mirror_sdk.plan.checks import check_all",
    "import mirror_sdk.recording",
    "from mirror_sdk.snapshot.dataset import SnapshotDataset",
    "device.to_frame()",
    "DeviceList([]).to_frame()",
    "client.state_frame(devices=[])",
    "client.requests_frame([])",
    "client.device_events_frame()",
    "client.snapshot()",
    "client.snapshot_dataset('fleet')",
    "client.refresh(None)",
    "client.plan([('d1', '/3311/0/5851', 40)])",
    "client.load_plan('plan.json')",
    "client.record('run.parquet')",
    "asyncio.run(other.state_frame(devices=[]))",
    "asyncio.run(other.requests_frame([]))",
    "asyncio.run(other.device_events_frame())",
    "asyncio.run(other.snapshot())",
    "asyncio.run(other.snapshot_dataset('fleet'))",
    "asyncio.run(other.refresh(None))",
    "asyncio.run(other.plan([('d1', '/3311/0/5851', 40)]))",
    "asyncio.run(other.load_plan('plan.json'))",
    "asyncio.run(other.record('run.parquet'))",
]

PROGRAM = """
import asyncio, sys, mirror_sdk
from datetime import UTC, datetime
sys.modules[{missing!r}] = None
from mirror_sdk import AsyncMirrorClient, DeviceList, DeviceObject, MirrorClient
from mirror_sdk.wire.device_object import DeviceObject as Wire
client, other = MirrorClient("http://127.0.0.1:9", "key"), AsyncMirrorClient("http://127.0.0.1:9", "key")
device = DeviceObject("d1", "light-01", datetime.now(UTC), None, None, None, {{}})
for way in {ways!r}:
    try:
        exec(way)
    except ImportError as error:
        print(error)
    else:
        print(way, "needs nothing")
"""


@pytest.mark.parametrize("missing", ["pandas", "pyarrow"])
def test_a_table_says_what_it_needs(missing, tmp_path):
    command = [sys.executable, "-c", PROGRAM.format(missing=missing, ways=WAYS)]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    wanted = f'tables need {missing}: pip install "device-state-mirror[frames]"'
    told = run.stdout.splitlines()
    assert len(told) == len(WAYS), run.stdout + run.stderr
    assert {line.partition(";")[0] for line in told} == {wanted}
    assert list(tmp_path.iterdir()) == []


def test_so_does_one_for_arrow(tmp_path):
    forms = ["arrow", "polars"]
    ways = [f"client.{name}(as_={form!r})" for name in ("snapshot", "state_frame") for form in forms]
    command = [sys.executable, "-c", PROGRAM.format(missing="pyarrow", ways=ways)]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    wanted = (
        'tables need pyarrow: pip install "device-state-mirror[frames]"; [arrow] or [polars] for those without pandas'
    )
    assert run.stdout.splitlines() == [wanted] * len(ways), run.stderr


def test_so_does_a_command_that_shows_one():
    program = "import sys; sys.modules['pandas'] = None; from mirror_sdk.cli import main; main()"
    for words in (["history", "light-01"], ["drift"]):
        command = [sys.executable, "-c", program, *words]
        env = {**os.environ, "API_HOST": "http://127.0.0.1:9", "API_KEY": "ak_0"}
        run = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
        assert run.stderr == 'Error: tables need pandas: pip install "device-state-mirror[frames]"\n'


def test_so_does_the_module_for_dask():
    program = "import sys; sys.modules['dask'] = None; import mirror_sdk.dask"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert run.stderr.splitlines()[-1] == ('ImportError: partitions need dask: pip install "device-state-mirror[dask]"')


def test_all_names_of_a_plain_install_can_be_taken_at_once():
    program = "import sys; sys.modules.update(pandas=None, pyarrow=None); from mirror_sdk import *; print(MirrorClient)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert run.stdout == "<class 'mirror_sdk._client.MirrorClient'>\n", run.stderr


def test_plans_have_a_name_for_annotations():
    assert (mirror_sdk.Plan, mirror_sdk.AsyncPlan) == (plan.Plan, plan.AsyncPlan)
    assert {"Plan", "AsyncPlan"} <= set(dir(mirror_sdk))
