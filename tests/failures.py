"""A pytest plugin: a failed test shows the command that repeats it, and the output of its processes."""

from __future__ import annotations

import shlex
import time
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

import databases
import pytest

STARTED_AT = pytest.StashKey[float]()
LAST_CHARACTERS = 4000
"""Number of characters of each file to show."""


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    item.stash[STARTED_AT] = time.time()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        database = "MIRROR_TEST_DATABASE=postgresql " if databases.ON_POSTGRESQL else ""
        report.sections.append(("Run it alone", f"{database}python -m pytest {shlex.quote(item.nodeid)}"))
        folder: Path = item.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        for file in sorted(folder.rglob("*.txt")):
            # A file may be removed in the meantime, and reading a pipe would block.
            with suppress(OSError):
                if file.is_file() and file.stat().st_mtime >= item.stash[STARTED_AT]:
                    text = file.read_text(errors="replace")[-LAST_CHARACTERS:]
                    report.sections.append((f"The end of {file.relative_to(folder)}", text))
    return report
