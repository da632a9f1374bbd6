"""The README says what is true: its session gives what it shows, its picture and its diagram are the real ones."""

import doctest
import re
import subprocess
import sys

import pytest
from process_server import ROOT, child_environment, run_command

from mirror_server.core.desired import diagram
from mirror_server.keys import Scope

README = (ROOT / "README.md").read_text()


@pytest.mark.process
def test_the_session_gives_what_it_shows(demo_environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in demo_environment.items():
        monkeypatch.setenv(name, value)
    session = "\n".join(block for block in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if ">>>" in block)
    test = doctest.DocTestParser().get_doctest(session, {}, "README", "README.md", 0)
    assert len(test.examples) >= 10
    failures: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    runner.run(test, out=failures.append, clear_globs=False)
    test.globs["client"].close()
    assert runner.failures == 0, "".join(failures)


SCRIPTS = [block for block in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if ">>>" not in block]


@pytest.mark.process
@pytest.mark.parametrize("script", SCRIPTS, ids=["blocking", "on a loop"])
def test_each_script_prints_what_it_shows(demo_environment: dict[str, str], script: str) -> None:
    (shown,) = re.findall(r"Either prints\n\n```text\n(.*?)```", README, re.DOTALL)
    environment = child_environment(**demo_environment)
    command = [sys.executable, "-W", "error", "-c", script]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (run.stdout, run.stderr) == (shown, "")


def test_the_diagram_is_the_table() -> None:
    assert diagram() in README


def test_every_file_it_leads_to_is_there() -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", README):
        assert (ROOT / target).exists(), target


@pytest.mark.process
def test_every_setting_of_the_server_is_named() -> None:
    shown = run_command("run", "--help").stdout + run_command("demo", "--help").stdout
    variables = set(re.findall(r"MIRROR_[A-Z_]+", shown))
    assert variables >= {"MIRROR_HOST", "MIRROR_PORT", "MIRROR_DATABASE"}
    missing = {variable for variable in variables if variable not in README}
    assert not missing


def test_every_scope_is_named() -> None:
    assert all(f"`{scope}`" in README for scope in Scope)


def test_its_test_command_is_the_one_the_checks_run() -> None:
    (command,) = re.findall(r"\.venv/bin/(python -m pytest.*)", README)
    assert command in (ROOT / ".ci" / "run").read_text()


def test_the_one_difference_to_the_public_api_is_named() -> None:
    assert "There is one exception: `PUT /v2/subscriptions` is answered by `202`" in README
