"""Without an extra, each way to request a table raises an error with the command that installs it."""

import os
import subprocess
import sys

import pytest

import mirror_sdk
from mirror_sdk import plan, widgets

WAYS = [
    "import mirror_sdk.frames",
    "import mirror_sdk.plan",
    "from mirror_sdk import Plan",
    "mirror_sdk.AsyncPlan",
    "import mirror_sdk.recording",
    "from mirror_sdk.snapshot.dataset import SnapshotDataset",
    "device.to_frame()",
    "client.state_frame(devices=[])",
    "client.requests.frame([])",
    "client.fleet.snapshot()",
    "client.fleet.dataset('fleet')",
    "client.fleet.refresh(None)",
    "client.plan([('d1', '/3311/0/5851', 40)])",
    "client.plans.load('plan.json')",
    "client.record('run.parquet')",
    "client.sql('select 1')",
    "asyncio.run(other.fleet.snapshot())",
    "asyncio.run(other.plan([('d1', '/3311/0/5851', 40)]))",
]

PROGRAM = """
import asyncio, sys, mirror_sdk
from datetime import UTC, datetime
sys.modules.update(dict.fromkeys({missing!r}))
from mirror_sdk import AsyncMirrorClient, DeviceList, DeviceObject, MirrorClient
from mirror_sdk.wire.device_object import DeviceObjectBody as Wire
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


def run(*arguments, **options):
    command = [sys.executable, "-c", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **options)


@pytest.mark.parametrize("missing", ["pandas", "pyarrow"])
def test_table_without_its_extra_raises_and_sends_no_request(missing, tmp_path):
    own = {
        "pandas": {
            "import mirror_sdk.dask": 'partitions need dask: pip install "device-state-mirror[dask]"',
            "client.fleet.snapshot(as_='polars')": (
                'tables for Polars need polars: pip install "device-state-mirror[polars]"'
            ),
            "from mirror_sdk import *": "from mirror_sdk import * needs nothing",
        },
        "pyarrow": {
            f"client.{name}(as_={form!r})": 'tables need pyarrow: pip install "device-state-mirror[frames]";'
            " to do without pandas, use [arrow] or [polars]"
            for name in ("fleet.snapshot", "state_frame")
            for form in ("arrow", "polars")
        },
    }[missing]
    without = [missing, "dask", *(["polars"] if missing == "pandas" else [])]
    ended = run(PROGRAM.format(missing=without, ways=[*WAYS, *own]), cwd=tmp_path)
    expected = f'tables need {missing}: pip install "device-state-mirror[frames]"'
    lines = ended.stdout.splitlines()
    assert len(lines) == len(WAYS) + len(own), ended.stdout + ended.stderr
    assert {line.partition(";")[0] for line in lines[: len(WAYS)]} == {expected}
    assert lines[len(WAYS) :] == [*own.values()]
    assert list(tmp_path.iterdir()) == []


def test_state_file_without_its_extra_raises_and_sends_no_request(tmp_path):
    ways = ["client.watch_conditions([mirror_sdk.Condition.parse('/1 changed')], state_file='state.json')"]
    ended = run(PROGRAM.format(missing=["filelock"], ways=ways), cwd=tmp_path)
    assert ended.stdout == 'state_file needs filelock: pip install "device-state-mirror[frames]"\n'
    assert list(tmp_path.iterdir()) == []


def test_so_does_a_command_that_shows_one():
    program = "import sys; sys.modules['pandas'] = None; from mirror_sdk.cli import main; main()"
    ended = run(program, "drift", env={**os.environ, "API_HOST": "http://127.0.0.1:9", "API_KEY": "ak_0"})
    assert ended.stderr == 'Error: tables need pandas: pip install "device-state-mirror[frames]"\n'


@pytest.mark.parametrize(
    "way", ["client.sql('select 1')", "asyncio.run(other.sql('select 1'))", "import mirror_sdk.sql.query"]
)
def test_query_without_duckdb_raises_and_sends_no_request(way):
    ended = run(PROGRAM.format(missing=["duckdb"], ways=[way]))
    assert ended.stdout == 'SQL queries need duckdb: pip install "device-state-mirror[sql]"\n', ended.stderr


def test_prompt_without_its_package_raises():
    program = "import sys; sys.modules['prompt_toolkit'] = None; import mirror_sdk.cli.sql_prompt"
    assert 'the prompt needs prompt_toolkit: pip install "device-state-mirror[sql]"' in run(program).stderr


def test_plans_have_a_name_for_annotations():
    assert (mirror_sdk.Plan, mirror_sdk.AsyncPlan) == (plan.Plan, plan.AsyncPlan)


def test_completion_lists_only_public_names():
    assert dir(mirror_sdk) == sorted({*mirror_sdk.__all__, "AsyncPlan", "Plan", "__version__"})
    assert dir(widgets) == ["EventWatcher", "Explorer", "FleetTable", "WritePanel", "report"]
    assert all(getattr(mirror_sdk, name) for name in dir(mirror_sdk))
