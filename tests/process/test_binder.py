"""The files for Binder, tested by the rules with which repo2docker builds and starts an image.

repo2docker processes a folder ``binder`` as follows: it uses the Python of ``runtime.txt``, installs
``requirements.txt`` from the root of the repository, runs ``postBuild`` there once, and lets ``start`` run the command
of each session.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from process_server import ROOT, child_environment, responds, wait_until

pytestmark = pytest.mark.process

BINDER = ROOT / "binder"
START = str(BINDER / "start")
KEY = re.compile(r"ak_[0-9a-f]{16}_[\w-]{43}")
ANOTHER_RECIPE = ["Dockerfile", "environment.yml", "Pipfile", "install.R", "DESCRIPTION", "Project.toml", "default.nix"]
SHOW = "import os; print(os.environ.get('API_HOST'), os.environ.get('API_KEY'), flush=True); input()"


def test_files_match_the_format_of_repo2docker() -> None:
    assert (BINDER / "runtime.txt").read_text().strip() == "python-3.12"
    assert not [name for name in ANOTHER_RECIPE if (BINDER / name).exists()]
    for name in ("postBuild", "start"):
        assert os.access(BINDER / name, os.X_OK)
        assert (BINDER / name).read_text().startswith("#!/bin/bash\n")
    assert (BINDER / "start").read_text().splitlines()[-1] == 'exec "$@"'


def test_the_link_of_the_readme_opens_a_notebook_that_is_there() -> None:
    link = re.search(
        r"https://mybinder\.org/v2/gh/[\w-]+/[\w-]+/HEAD\?urlpath=lab/tree/([\w/.]+)", (ROOT / "README.md").read_text()
    )
    assert link is not None
    assert (ROOT / link[1]).is_file()


class Session:
    """Run ``start`` with a program that prints its environment, until it is stopped."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.error_path = folder / "stderr.txt"
        with self.error_path.open("wb") as stderr:
            self.process = subprocess.Popen(
                [START, sys.executable, "-c", SHOW],
                env=environment | {"TMPDIR": str(folder)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )
        assert self.process.stdout is not None
        self.host, self.key = self.process.stdout.readline().split()

    def end(self) -> int:
        self.process.communicate("\n", timeout=60)
        return self.process.returncode


def own_environment(**variables: str) -> dict[str, str]:
    """Return an environment in which the commands of this project are those of this Python."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    inherited = {name: value for name, value in child_environment().items() if name not in {"API_HOST", "API_KEY"}}
    return inherited | {"PATH": path} | variables


def test_start_sets_the_way_to_a_mirror_that_ends_with_the_command(tmp_path: Path) -> None:
    session = Session(tmp_path, own_environment())
    try:
        wait_until(lambda: responds(session.host), "a response of the mirror")
        headers = {"Authorization": f"Bearer {session.key}"}
        listed = httpx.get(f"{session.host}/v3/devices", headers=headers, timeout=60, trust_env=False).json()["data"]
        assert len(listed) == 12
        assert [path.name for path in tmp_path.iterdir() if KEY.search(_text(path))] == []
    finally:
        assert session.end() == 0
    wait_until(lambda: not responds(session.host), "the mirror to stop")


def test_start_continues_without_a_mirror(tmp_path: Path) -> None:
    session = Session(tmp_path, own_environment(PATH="/usr/bin:/bin"))
    assert (session.host, session.key) == ("None", "None")
    assert session.end() == 0


def _text(path: Path) -> str:
    return path.read_text() if path.is_file() else ""
