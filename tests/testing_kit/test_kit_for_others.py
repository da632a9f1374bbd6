"""The example of the kit's documentation runs in another project, and every fault is documented."""

import inspect
import textwrap

import pytest

import mirror_sdk.testing
from mirror_sdk.testing.faults import Faults


def test_another_project_runs_the_example_of_the_docstring(pytester: pytest.Pytester, run_project) -> None:
    (_, example) = inspect.getdoc(mirror_sdk.testing).split("::\n", 1)
    pytester.makepyfile(test_docstring=textwrap.dedent(example.split("\nFixtures\n")[0]))
    pytester.makeini("[pytest]\nfilterwarnings = error\naddopts = --strict-markers --strict-config")
    run_project("-q").assert_outcomes(passed=1)


def test_the_documentation_knows_every_fault() -> None:
    for fault in ("drop", "delay", "duplicate", "reorder", "reject", "silence", "restart_server"):
        assert f"``{fault}``" in inspect.getdoc(mirror_sdk.testing)
        assert inspect.getdoc(getattr(Faults, fault))
