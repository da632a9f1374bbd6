"""The running cell of a notebook, and the outputs that its kernel stores."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple


class Cell(NamedTuple):
    """A cell of an open notebook, and a single run of that cell."""

    cell_id: str
    run_id: str


def running_cell() -> Cell | None:
    """Return the running cell.

    The result is ``None`` if no page identifies the cell, for example in a shell or an executed notebook.
    """
    kernel = getattr(_shell(), "kernel", None)
    parent = kernel.get_parent() if kernel else {}
    cell_id = parent.get("metadata", {}).get("cellId")
    return None if cell_id is None else Cell(cell_id, parent["header"]["msg_id"])


def forget_output(value: object) -> None:
    """Delete a value from ``Out``.

    IPython stores the last 1,000 outputs there, and each output keeps all objects alive that it refers to.
    """
    shell = _shell()
    outputs = getattr(shell, "user_ns", {}).get("_oh")
    if not isinstance(outputs, dict):  # a user may have assigned something else
        return
    for number in [number for number, output in outputs.items() if output is value]:
        del outputs[number]
        shell.drop_by_id({f"_{number}": value})


def _shell() -> Any:
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython else None
