"""Third-party programs for the public API run unmodified: every call, or a reason for each exception."""

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from process_server import ROOT, child_environment, run_python

import mirror_server.cli

pytestmark = pytest.mark.process

PROGRAMS = ROOT / "tests" / "programs"
STEPS = {"vendor's SDK, Python": 70, "connector library, Python": 35}
"""The minimum number of steps of a program."""
MANUAL = " ".join(mirror_server.cli.TOPICS["programs"].read_text().split())


STEP, END = {"call": "A.read", "passed": True, "outcome": "1", "expected": "2"}, {"finished": True}


@pytest.fixture(autouse=True)
def _programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PROGRAMS))


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return run_programs("python", tmp_path_factory.mktemp("programs"))


def run_programs(name: str, folder: Path) -> Any:
    """Run the programs with this word in their name; return the report of the command."""
    command = [sys.executable, str(PROGRAMS), name, "--cache", str(folder), "--json", str(folder / "result.json")]
    run = subprocess.run(
        command, env=child_environment(), capture_output=True, text=True, timeout=600, check=False, cwd=folder
    )
    result = folder / "result.json"
    assert result.exists(), run.stdout + run.stderr
    return json.loads(result.read_text())


@pytest.mark.parametrize("name", STEPS)
def test_a_program_of_others_runs_unmodified(report: Any, name: str) -> None:
    check_program(report[name], STEPS[name])


def check_program(result: Any, least_steps: int) -> None:
    assert result["complaints"] == []
    assert sum(steps for steps, _ in result["calls"].values()) >= least_steps


@pytest.mark.parametrize("name", STEPS)
def test_the_manual_names_each_program_that_runs(report: Any, name: str) -> None:
    check_manual(report[name]["package"])


def check_manual(package_line: str) -> None:
    index, package, version = package_line.split()
    assert f"`{package}` " in MANUAL
    assert f" {version} of {index}" in MANUAL


def test_manual_names_each_reason_why_calls_are_not_supported() -> None:
    section = " ".join(MANUAL.partition("Calls that are not supported")[2].split())
    reasons = set(importlib.import_module("outside").REASONS.values())
    assert [why for why in reasons if why.partition(":")[0] not in section] == []


@pytest.mark.parametrize(
    ("steps", "complaint"),
    [
        ([{"calls": ["A.read"]}, STEP | {"passed": False}, END], "A.read: returned 1, expected 2"),
        ([{"calls": ["A.read", "A.new"]}, STEP, END], "A.new: neither run nor out of scope"),
        ([{"calls": ["A.read"]}, STEP], "it ended early: it fell over"),
    ],
)
def test_a_call_that_fails_or_is_left_out_is_a_complaint(steps: list[dict[str, Any]], complaint: str) -> None:
    verdict = importlib.import_module("verdict").judge(map(json.dumps, steps), "it fell over")
    assert verdict.complaints == [complaint]


def _run_in(folder: Path, *names: str, hidden: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command without Node, npm and its modules."""
    hide = f"import sys, runpy; sys.modules[{hidden!r}] = None; sys.path.insert(0, {str(PROGRAMS)!r});"
    run = f"sys.argv[0] = {str(PROGRAMS)!r}; runpy.run_path(sys.argv[0], run_name='__main__')"
    return run_python(
        "-c", f"{hide} {run}", *names, seconds=600, env=child_environment() | {"PATH": str(folder)}, cwd=folder
    )


def test_missing_packages_are_reported_with_the_install_command(tmp_path: Path) -> None:
    missing = "trustme"
    finished = _run_in(tmp_path, hidden=missing)
    assert (finished.returncode, finished.stderr) == (
        1,
        f"{missing} is not installed; pip install '.[test]' does that\n",
    )


def test_programs_that_cannot_be_had_are_named_and_the_others_run(tmp_path: Path) -> None:
    finished = _run_in(tmp_path, "connector")
    assert finished.returncode == 3
    assert finished.stderr.startswith(
        "connector library, JavaScript: not run: the libraries for JavaScript need the command"
    )
    assert "connector library, Python" in finished.stdout
