"""``examples.connect()``: the mirror that is there, or one that is started for the notebook."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from process_server import ROOT, answers, child_environment

pytestmark = pytest.mark.process

STARTED = "No mirror is running{}: started one with 12 simulated devices for this program."
PROGRAM = """
from mirror_sdk import examples
for _ in range(2):
    with examples.connect() as client:
        print(client.base_url, client.is_healthy() and len(client.list_devices()))
"""


def run_connecting(**variables: str) -> list[str]:
    """The lines a program that connects twice prints."""
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment_without_mirror() | variables,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


def environment_without_mirror() -> dict[str, str]:
    return {name: value for name, value in child_environment().items() if name not in {"API_HOST", "API_KEY"}}


def test_the_mirror_that_is_there_is_used_without_a_word(demo_environment: dict[str, str]) -> None:
    assert run_connecting(**demo_environment) == [f"{demo_environment['API_HOST']} 12"] * 2


@pytest.mark.parametrize("host", [None, "localhost:9"])
def test_where_none_is_one_is_started_that_ends_with_the_program(host: str | None) -> None:
    variables = {} if host is None else {"API_HOST": host, "API_KEY": "ak_old"}
    started, *connected = run_connecting(**variables)
    assert started == STARTED.format(f" at {host}, where API_HOST leads" if host else "")
    assert connected[0] == connected[1]
    url, devices = connected[0].split()
    assert devices == "12"
    assert not answers(url)


def test_other_clients_of_the_program_find_the_mirror_that_was_started() -> None:
    program = """
from mirror_sdk import AsyncMirrorClient, examples
print(examples.connect().base_url == AsyncMirrorClient.from_env().base_url)
"""
    run = subprocess.run(
        [sys.executable, "-c", program],
        env=environment_without_mirror() | {"API_HOST": "", "API_KEY": "ak_old"},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert run.stdout.splitlines() == [STARTED.format(""), "True"]


def test_a_mirror_elsewhere_is_never_replaced() -> None:
    program = PROGRAM.replace("client.is_healthy()", "True").replace("len(client.list_devices())", "'not asked'")
    run = subprocess.run(
        [sys.executable, "-c", program],
        env=environment_without_mirror() | {"API_HOST": "https://mirror.invalid", "API_KEY": "ak_real"},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert run.stdout.splitlines() == ["https://mirror.invalid not asked"] * 2


@pytest.mark.notebook
def test_the_first_notebook_runs_to_its_end_where_no_mirror_is(tmp_path: Path) -> None:
    notebook = tmp_path / "first.ipynb"
    shutil.copyfile(ROOT / "notebooks" / "01_first_steps.ipynb", notebook)
    run = subprocess.run(
        [sys.executable, "-m", "jupyter", "execute", "--inplace", str(notebook)],
        env=environment_without_mirror() | {"JUPYTER_RUNTIME_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-4000:]
    executed = notebook.read_text()
    assert STARTED.format("") in executed
    assert "METHOD_NOT_ALLOWED (400)" in executed
    assert not re.search(r"ak_[0-9a-f]{16}_", executed)
