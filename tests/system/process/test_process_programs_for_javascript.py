"""Third-party Node programs for the public API run unmodified: all of their calls, or a reason for each exception."""

from typing import Any

import pytest
from test_process_programs import check_manual, check_program, run_programs

pytestmark = pytest.mark.process

STEPS = {"vendor's SDK, JavaScript": 50, "connector library, JavaScript": 30}
"""The minimum number of steps of a program."""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return run_programs("javascript", tmp_path_factory.mktemp("programs"))


@pytest.mark.parametrize("name", STEPS)
def test_third_party_program_runs_unmodified(report: Any, name: str) -> None:
    check_program(report[name], STEPS[name])


@pytest.mark.parametrize("name", STEPS)
def test_manual_names_each_third_party_program(report: Any, name: str) -> None:
    check_manual(report[name]["package"])
