"""Programs that others wrote for the public API run unmodified: every call of theirs, or a reason why not."""

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from process_server import ROOT, child_environment

import mirror_server.views

pytestmark = pytest.mark.process

PROGRAMS = ROOT / "tests" / "programs"
STEPS = {"vendor's SDK, Python": 70, "connector library, Python": 35}
"""How many steps a program has at least."""
MANUAL = " ".join((mirror_server.views.__doc__ or "").split())


@pytest.fixture(autouse=True)
def _programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PROGRAMS))


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return run_programs("python", tmp_path_factory.mktemp("programs"))


def run_programs(name: str, folder: Path) -> Any:
    """Run those whose name has this word; returns the report that the command writes."""
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


def check_program(told: Any, least_steps: int) -> None:
    assert told["complaints"] == []
    assert sum(steps for steps, _ in told["calls"].values()) >= least_steps


@pytest.mark.parametrize("name", STEPS)
def test_the_manual_names_each_program_that_runs(report: Any, name: str) -> None:
    check_manual(report[name]["package"])


def check_manual(told: str) -> None:
    index, package, version = told.split()
    assert f"``{package}`` " in MANUAL
    assert f" {version} of {index}" in MANUAL


def test_the_manual_tells_each_reason_why_calls_are_out() -> None:
    told = MANUAL.partition("Calls that are out")[2]
    reasons = set(importlib.import_module("outside").REASONS.values())
    assert [why for why in reasons if why.partition(":")[0] not in told] == []


def _judge(*told: dict[str, Any], last_words: str = "") -> Any:
    return importlib.import_module("verdict").judge([json.dumps(line) for line in told], last_words)


def _step(call: str, passed: bool = True) -> dict[str, Any]:
    return {"call": call, "passed": passed, "outcome": "1", "wanted": "2"}


def test_each_call_is_counted_by_its_steps() -> None:
    verdict = _judge({"calls": ["A.read"]}, _step("A.read"), _step("A.read", passed=False), {"finished": True})
    assert (verdict.steps, verdict.passed) == (2, 1)
    assert verdict.complaints == ["A.read: gave 1, where 2 was wanted"]


def test_a_call_that_nobody_ran_is_a_fault_unless_it_is_named_as_out() -> None:
    verdict = _judge(
        {"calls": ["A.read", "BillingAPI.get_quota_remaining", "A.new"]}, _step("A.read"), {"finished": True}
    )
    assert verdict.complaints == ["A.new: neither run nor named as one that is out"]
    assert list(verdict.out) == ["BillingAPI.get_quota_remaining"]


def test_a_call_that_runs_is_not_named_as_out() -> None:
    verdict = _judge({"calls": ["ConnectAPI.list_metrics"]}, _step("ConnectAPI.list_metrics"), {"finished": True})
    assert verdict.complaints == ["ConnectAPI.list_metrics: named as one that is out, but it runs"]


def test_a_driver_that_ends_early_has_failed_and_its_last_words_are_told() -> None:
    verdict = _judge({"calls": ["A.read"]}, _step("A.read"), last_words="it fell over")
    assert verdict.complaints == ["it ended early: it fell over"]


def test_a_driver_that_names_no_calls_has_failed() -> None:
    assert _judge(_step("A.read"), {"finished": True}).complaints == ["it told no calls of its library"]


def test_a_library_that_cannot_be_installed_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    libraries = importlib.import_module("libraries")
    monkeypatch.setenv("PATH", str(tmp_path))
    of_node = next(library for library in libraries.LIBRARIES if library.of_node)
    with pytest.raises(libraries.LibraryMissing, match="install Node"):
        libraries.install(of_node, tmp_path)


def _run_in(folder: Path, *names: str, hidden: str = "") -> subprocess.CompletedProcess[str]:
    """The command where neither Node nor npm is found, nor a module."""
    hide = f"import sys, runpy; sys.modules[{hidden!r}] = None; sys.path.insert(0, {str(PROGRAMS)!r});"
    run = f"sys.argv[0] = {str(PROGRAMS)!r}; runpy.run_path(sys.argv[0], run_name='__main__')"
    return subprocess.run(
        [sys.executable, "-c", f"{hide} {run}", *names],
        env=child_environment() | {"PATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        cwd=folder,
    )


@pytest.mark.parametrize("missing", ["click", "trustme"])
def test_without_what_the_tests_need_it_says_what_to_install(tmp_path: Path, missing: str) -> None:
    told = _run_in(tmp_path, hidden=missing)
    assert (told.returncode, told.stderr) == (1, f"{missing} is not installed; pip install '.[test]' does that\n")


def test_programs_that_cannot_be_had_are_named_and_the_others_run(tmp_path: Path) -> None:
    told = _run_in(tmp_path, "connector")
    assert told.returncode == 3
    assert told.stderr.startswith(
        "connector library, JavaScript: not run: the libraries for JavaScript need the command"
    )
    assert "connector library, Python" in told.stdout


def test_a_program_that_is_not_there_is_told_with_those_that_are() -> None:
    told = subprocess.run(
        [sys.executable, str(PROGRAMS), "nonsense"],
        env=child_environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert told.returncode == 2
    assert all(name in told.stderr for name in STEPS)
