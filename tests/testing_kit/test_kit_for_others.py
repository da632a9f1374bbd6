"""The example of the kit's documentation runs in another project, and every fault is documented."""

import inspect
import re
from importlib.resources import files

import pytest

from mirror_sdk.testing.faults import Faults

TOPIC = (files("mirror_sdk") / "manual" / "testing.md").read_text(encoding="utf-8")


def test_another_project_runs_the_example_of_the_topic(pytester: pytest.Pytester, run_project) -> None:
    example = re.search(r"^```python\n(.*?)^```$", TOPIC, re.DOTALL | re.MULTILINE)
    pytester.makepyfile(test_topic=example.group(1))
    pytester.makeini("[pytest]\nfilterwarnings = error\naddopts = --strict-markers --strict-config")
    run_project("-q").assert_outcomes(passed=1)


def test_the_documentation_knows_every_fault() -> None:
    for fault in ("drop", "delay", "duplicate", "reorder", "reject", "silence", "restart_server"):
        assert f"`{fault}`" in TOPIC
        assert inspect.getdoc(getattr(Faults, fault))
