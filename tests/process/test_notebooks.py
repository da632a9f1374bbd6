"""Every notebook produces exactly its stored outputs on a new mirror.

``tests/system/process/test_notebooks_by_nbval.py`` runs them in real kernels, and on a mirror that others used.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from process_server import ROOT, child_environment

from mirror_sdk import examples

pytestmark = [pytest.mark.process, pytest.mark.notebook]

Run: TypeAlias = Callable[[Path, Mapping[str, str]], list[dict[str, Any]]]

WITH_COAP = find_spec("aiocoap") is not None
NOTEBOOKS = [path for path in sorted((ROOT / "notebooks").glob("*.ipynb")) if WITH_COAP or path.stem[:2] != "08"]
"""The notebook on real devices. Without aiocoap it only says what to install."""
BACKEND = "module://matplotlib_inline.backend_inline"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Run a notebook in an environment, by the program notebook_runs, and return its cells."""
    folder = tmp_path_factory.mktemp("notebooks")
    command = [sys.executable, str(Path(__file__).with_name("notebook_runs.py"))]
    environment = child_environment(IPYTHONDIR=str(folder), MPLBACKEND=BACKEND)
    with subprocess.Popen(
        command, env=environment, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:

        def run(notebook: Path, environment: Mapping[str, str]) -> list[dict[str, Any]]:
            assert program.stdin is not None
            assert program.stdout is not None
            request = {"notebook": str(notebook), "environment": dict(environment)}
            program.stdin.write(json.dumps(request) + "\n")
            program.stdin.flush()
            cells: list[dict[str, Any]] = json.loads(program.stdout.readline())
            return cells

        yield run


def stored(cell: Mapping[str, Any]) -> dict[str, Any]:
    """Return the stored outputs of a cell as text, without images."""
    display_texts: dict[str, list[str]] = {}
    for output in cell["outputs"]:
        for kind, lines in output.get("data", {}).items():
            if kind.startswith("text/"):
                display_texts.setdefault(kind, []).append("".join(lines))
    written = ["".join(output["text"]) for output in cell["outputs"] if output["output_type"] == "stream"]
    return {"id": cell["id"], "stdout": "".join(written), "stderr": "", "shown": display_texts, "error": "''"}


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_gives_its_stored_outputs(run, notebook, demo_environment):
    code = [cell for cell in json.loads(notebook.read_text())["cells"] if cell["cell_type"] == "code"]
    for cell, ran in zip(code, run(notebook, demo_environment), strict=True):
        if "nbval-ignore-output" in cell["metadata"].get("tags", []):
            assert (ran["stderr"], ran["error"]) == ("", "''")
        else:
            assert ran == stored(cell)


def test_notebook_without_a_history_names_the_operator_option(run, start_server, tmp_path):
    notebook = json.loads((ROOT / "notebooks" / "09_what_happened.ipynb").read_text())
    short = tmp_path / "short.ipynb"
    short.write_text(json.dumps({**notebook, "cells": notebook["cells"][:5]}))
    plain = start_server("--simulate", "1", "--clock", "manual")
    first, query_result = run(short, {"API_HOST": plain.url, "API_KEY": plain.key()})
    assert first["error"] == "''"
    assert "NoHistory" in query_result["error"]
    assert "its operator can enable it with --keep-history" in query_result["error"]
    assert "`NoHistory`" in "".join(notebook["cells"][4]["source"])


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_all_outputs_except_widgets_are_compared_and_none_depends_on_the_machine(notebook):
    cells = json.loads(notebook.read_text())["cells"]
    stored = json.dumps([cell.get("outputs", []) for cell in cells])
    assert re.findall(r"/(?:tmp|home|root|opt|work|Users)/|127\.0\.0\.1|ak_[0-9a-f]{16}", stored) == []
    marked = [cell for cell in cells if cell["metadata"].get("tags")]
    assert {tag for cell in marked for tag in cell["metadata"]["tags"]} <= {"nbval-ignore-output"}
    for cell in marked:
        assert "from mirror_sdk.widgets import" in "".join(cell["source"])
        (copy,) = cell["outputs"]
        assert '<div class="mirror-copy">' in "".join(copy["data"]["text/html"])


def test_the_notebooks_of_the_package_are_copied_once_and_never_over_the_users_own(tmp_path):
    first = examples.copy(tmp_path / "notebooks")
    assert [path.name for path in first] == [path.name for path in examples.list_notebooks()]
    assert [path.name.partition("_")[0] for path in first] == [f"{number:02}" for number in range(10)]
    first[0].write_text("mine")
    assert examples.copy(tmp_path / "notebooks")[0].read_text() == "mine"
