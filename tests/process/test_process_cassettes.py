"""Cassettes over processes: a notebook that is shipped with its own, and a recording that is killed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from process_server import PATIENCE_SECONDS, ROOT, ServerProcess, child_environment

from mirror_sdk import Bench, MirrorClient

pytestmark = pytest.mark.process

LEVEL = "/3311/0/5851"
RESOURCES = [
    {"path": "/3303/0/5700", "value": "21.5", "observable": True},
    {"path": LEVEL, "value": "10", "observable": True, "writable": True},
]
CELLS = [
    "from mirror_sdk import MirrorClient\nclient = MirrorClient.from_cassette('house.zip')",
    "print(client.read_value('room-1', '/3303/0/5700'))",
    "client.subscribe('room-2', '/3303/0/5700')\nprint(client.events_frame(after=0, timeout=0.5).to_csv())",
    "state = client.snapshot()\nprint(state.to_csv())\nprint(state.attrs)",
    "found = state.query(\"path == '/3311/0/5851'\")\nplan = client.plan(found, value=40, if_match=True)\n"
    "print(plan.apply().to_csv())",
    "print(client.history(found, paths=['/3311/*']).to_csv())",
    "client.close()",
]


@pytest.fixture
def server(start_server: Callable[..., ServerProcess]) -> ServerProcess:
    running = start_server("--simulate", "0", "--keep-history", "1d")
    with MirrorClient(running.url, running.key()) as operator:
        for number in (1, 2):
            Bench(operator).add_device(f"room-{number}", RESOURCES)
    return running


def outputs(notebook: Path, environment: dict[str, str]) -> list[Any]:
    """What the cells of a notebook put out, run beside its files."""
    program = str(ROOT / "tests" / "process" / "notebook_runs.py")
    ended = subprocess.run(
        [sys.executable, program],
        input=json.dumps({"notebook": notebook.name, "environment": environment, "width": 80}) + "\n",
        env=environment,
        cwd=notebook.parent,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    told: list[Any] = json.loads(ended.stdout)
    return told


def without_a_service() -> dict[str, str]:
    """An environment in which nothing leads to a mirror."""
    return {name: value for name, value in child_environment().items() if name not in {"API_HOST", "API_KEY"}}


def test_a_notebook_runs_anywhere_with_its_cassette(server: ServerProcess, tmp_path: Path) -> None:
    notebook = tmp_path / "author" / "house.ipynb"
    notebook.parent.mkdir()
    cells = [{"cell_type": "code", "id": f"cell-{number}", "source": cell} for number, cell in enumerate(CELLS)]
    notebook.write_text(json.dumps({"cells": cells, "nbformat": 4, "nbformat_minor": 5, "metadata": {}}))
    recorded = outputs(notebook, without_a_service() | {"API_HOST": server.url, "API_KEY": server.key()})
    assert [cell["error"] for cell in recorded] == [repr("")] * len(CELLS), recorded
    server.stop()
    elsewhere = tmp_path / "reader"
    notebook.parent.rename(elsewhere)
    assert {file.name for file in elsewhere.iterdir()} == {"house.ipynb", "house.zip"}
    for _ in range(2):
        assert outputs(elsewhere / "house.ipynb", without_a_service()) == recorded
    assert "21.5" in recorded[1]["stdout"]
    assert recorded[5]["stdout"].count(",40") >= 2


RECORDING = """
import sys
from mirror_sdk import MirrorClient

client = MirrorClient.from_env()
with client.cassette("run.zip", mode="record"):
    client.snapshot()
    print("recorded", flush=True)
    sys.stdin.read()
"""


def test_a_recording_that_is_killed_leaves_the_file_as_it_was(server: ServerProcess, tmp_path: Path) -> None:
    file = tmp_path / "run.zip"
    key = server.key()
    with MirrorClient(server.url, key) as client, client.cassette(file):
        client.list_devices()
    before = file.read_bytes()
    with subprocess.Popen(
        [sys.executable, "-c", RECORDING],
        env=without_a_service() | {"API_HOST": server.url, "API_KEY": key, "TMPDIR": str(tmp_path)},
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"recorded\n"
        child.kill()
        child.wait(PATIENCE_SECONDS)
    assert file.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["run.zip"]
