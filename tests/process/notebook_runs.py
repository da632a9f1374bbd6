"""Runs notebooks one after the other, each as after a restart, and tells what each of them put out.

What all of them import is imported once, and a child made by a fork runs a notebook: that takes a third of the
processor's time that kernels of their own would. A line of JSON for each: the cells by their ids, with what they wrote
and gave (``out``), what went to ``stderr``, and the ``error`` that ended them.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

STDERR = 2
IMPORTED_BY_MANY = ("dask.distributed", "flask", "matplotlib.pyplot", "mirror_sdk.dask", "mirror_sdk.widgets.watcher")


def run(notebook: Path) -> list[dict[str, Any]]:
    """Run all cells in this process, also those behind one that failed."""
    # Tables as wide as they are in a notebook.
    pd.set_option("display.width", 1000, "display.max_columns", 30)
    shell = InteractiveShell.instance()
    shell.run_line_magic("colors", "nocolor")
    cells = [cell for cell in json.loads(notebook.read_text())["cells"] if cell["cell_type"] == "code"]
    told = []
    for cell in cells:
        with tempfile.TemporaryFile() as stderr:
            # Threads and libraries write there too, past what Python calls sys.stderr.
            os.dup2(stderr.fileno(), STDERR)
            with capture_output(stderr=False) as captured:
                ended = shell.run_cell("".join(cell["source"]))
            sys.stderr.flush()
            stderr.seek(0)
            error = repr(ended.error_in_exec or ended.error_before_exec or "")
            told.append({"id": cell["id"], "out": captured.stdout, "stderr": stderr.read().decode(), "error": error})
    return told


def run_in_child(notebook: Path) -> None:
    """Run it in a child of this process, which has nothing of what another notebook defined."""
    child = os.fork()
    if child == 0:
        with open(STDERR, "wb", closefd=False):
            told = run(notebook)
        sys.__stdout__.write(json.dumps({"notebook": notebook.name, "cells": told}) + "\n")
        sys.__stdout__.flush()
        os._exit(0)
    os.waitpid(child, 0)


if __name__ == "__main__":
    for module in IMPORTED_BY_MANY:
        import_module(module)
    for name in sys.argv[1:]:
        run_in_child(Path(name))
