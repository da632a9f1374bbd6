"""Runs notebooks of this repository and stores their output. Each runs on a new mirror with a manual clock.

    python .ci/store_notebooks.py 00 02      # without a number: all notebooks

For a widget, the static copy of its final state is stored.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

from mirror_sdk import MirrorClient

FOLDER = Path(__file__).parents[1] / "notebooks"
WIDGET = "application/vnd.jupyter.widget-view+json"
CELL_SECONDS = 180
COPIES = """
from mirror_sdk.widgets.widget import _displayed
for widget in list(_displayed):
    widget.refresh()
    widget.update_copy()
    widget._live.wait_until_idle(30)
    widget.refresh()
"""
"""Code that updates all widgets, so that their final state is stored and not only their first one."""


@contextmanager
def fresh_mirror() -> Iterator[None]:
    """Start a demo server, and set ``API_HOST`` and ``API_KEY`` to it."""
    command = [sys.executable, "-m", "mirror_server", "demo", "--port=0", "--clock=manual"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            while {"API_HOST", "API_KEY"} - os.environ.keys():
                name, _, value = server.stdout.readline().strip().removeprefix("export ").partition("=")
                os.environ[name] = value
            with MirrorClient.from_env() as client:
                while not client.service.is_healthy():
                    time.sleep(0.1)
            yield
        finally:
            server.send_signal(signal.SIGTERM)
            del os.environ["API_HOST"], os.environ["API_KEY"]


def run(path: Path) -> NotebookNode:
    """Return the notebook with new outputs. The first cell that fails ends the run with an error."""
    notebook = nbformat.read(path, as_version=4)
    metadata = dict(notebook.metadata)
    notebook.cells.append(nbformat.v4.new_code_cell(COPIES if "mirror_sdk.widgets" in path.read_text() else ""))
    with fresh_mirror():
        NotebookClient(notebook, timeout=CELL_SECONDS, record_timing=False).execute()
    del notebook.cells[-1]
    notebook.metadata = metadata
    for cell in notebook.cells:
        if "outputs" in cell:
            cell.outputs = [output for output in cell.outputs if WIDGET not in output.get("data", {})]
    return notebook


if __name__ == "__main__":
    for name in sys.argv[1:] or ["*"]:
        for path in sorted(FOLDER.glob(f"{name}_*.ipynb")):
            nbformat.write(run(path), path)
            print(path.name)
