"""Runs notebooks one after the other, each as after a restart, and prints the outputs of each.

All common imports are made once, and a forked child runs each notebook. That takes a small part of the CPU time of
separate kernels. A line of JSON on standard input names a notebook and its environment variables. The following line of
JSON on standard output has its cells, each with its id, its output (``stdout``, ``stderr``), its results and displays
(``shown``, by media type), and its ``error``.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections import defaultdict
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd
from IPython.core.displayhook import CapturingDisplayHook
from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

STDERR = 2
IMPORTED_BY_MANY = ("dask.distributed", "flask", "matplotlib.pyplot", "mirror_sdk.dask", "mirror_sdk.widgets.watcher")


def run(notebook: Path) -> list[dict[str, Any]]:
    """Run all cells in this process, even after a failed one."""
    pd.set_option("display.width", 80, "display.max_columns", 20)
    shell = InteractiveShell.instance()
    shell.run_line_magic("colors", "nocolor")
    # Results and displays in the order and in all formats of a notebook.
    outputs: list[dict[str, Any]] = []
    shell.display_pub = CapturingDisplayPublisher()
    shell.display_pub.outputs = outputs
    shell.display_trap.hook = CapturingDisplayHook(shell=shell, outputs=outputs)
    cells = [cell for cell in json.loads(notebook.read_text())["cells"] if cell["cell_type"] == "code"]
    results = []
    for cell in cells:
        with tempfile.TemporaryFile() as stderr:
            # Threads and libraries write there too, bypassing sys.stderr.
            os.dup2(stderr.fileno(), STDERR)
            with capture_output(stderr=False, display=False) as captured:
                ended = shell.run_cell("".join(cell["source"]))
            sys.stderr.flush()
            stderr.seek(0)
            error = repr(ended.error_in_exec or ended.error_before_exec or "")
            written = {"stdout": captured.stdout, "stderr": stderr.read().decode()}
            results.append({"id": cell["id"], **written, "shown": displayed(outputs), "error": error})
            outputs.clear()
    return results


def displayed(outputs: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Return the texts of a cell's results and displays by media type. Widgets may update theirs at any time."""
    found = defaultdict(list)
    for output in outputs:
        if output.get("update"):
            continue
        for kind, text in output["data"].items():
            if kind.startswith("text/"):
                found[kind].append(text)
    return found


def run_in_child(notebook: Path, environment: dict[str, str]) -> None:
    """Run the notebook in a child of this process, without any definitions of another notebook."""
    child = os.fork()
    if child == 0:
        os.environ |= environment
        with open(STDERR, "wb", closefd=False):
            results = run(notebook)
        sys.__stdout__.write(json.dumps(results) + "\n")
        sys.__stdout__.flush()
        os._exit(0)
    os.waitpid(child, 0)


if __name__ == "__main__":
    # Before mirror_sdk, which checks for IPython in order to display tables.
    InteractiveShell.instance()
    for module in IMPORTED_BY_MANY:
        import_module(module)
    for line in sys.stdin:
        request = json.loads(line)
        run_in_child(Path(request["notebook"]), request["environment"])
