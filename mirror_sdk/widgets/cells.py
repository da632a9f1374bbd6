"""The running cell of a notebook."""

from __future__ import annotations

import sys
from typing import NamedTuple


class Cell(NamedTuple):
    """A cell of a notebook page, and one run of it."""

    cell_id: str
    run_id: str


def running_cell() -> Cell | None:
    """Return the running cell; ``None`` if no page names it, such as in a shell or an executed notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    kernel = getattr(shell, "kernel", None)
    parent = kernel.get_parent() if kernel else {}
    cell_id = parent.get("metadata", {}).get("cellId")
    return None if cell_id is None else Cell(cell_id, parent["header"]["msg_id"])
