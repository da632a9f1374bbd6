"""Programs for Node that others wrote for the public API run unmodified: every call of theirs, or a reason why not."""

from typing import Any

import pytest
from test_process_programs import check_manual, check_program, run_programs

pytestmark = pytest.mark.process

STEPS = {"vendor's SDK, JavaScript": 50, "connector library, JavaScript": 30}
"""How many steps a program has at least."""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return run_programs("javascript", tmp_path_factory.mktemp("programs"))


@pytest.mark.parametrize("name", STEPS)
def test_a_program_of_others_runs_unmodified(report: Any, name: str) -> None:
    check_program(report[name], STEPS[name])


@pytest.mark.parametrize("name", STEPS)
def test_the_manual_names_each_program_that_runs(report: Any, name: str) -> None:
    check_manual(report[name]["package"])
