"""The notebooks that come with this package."""

from __future__ import annotations

import shutil
from pathlib import Path

_INSTALLED = Path(__file__).parent / "_notebooks"
_CHECKOUT = Path(__file__).parent.parent / "notebooks"


def list_notebooks() -> list[Path]:
    """The notebooks in the order in which they are meant to be read."""
    folder = _INSTALLED if _INSTALLED.is_dir() else _CHECKOUT
    return sorted(folder.glob("[0-9][0-9]_*.ipynb"))


def copy(folder: Path | str = "mirror-notebooks") -> list[Path]:
    """Copy the notebooks into a folder of the user's, which is made where there is none.

    A notebook that is there already stays as it is: it may hold the user's work.

    Returns:
        The notebooks in the folder, in their order.
    """
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    copies = []
    for notebook in list_notebooks():
        copies.append(target / notebook.name)
        if not copies[-1].exists():
            shutil.copyfile(notebook, copies[-1])
    return copies
