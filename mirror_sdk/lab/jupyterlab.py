"""JupyterLab in a separate process, with the extension of ``mirror lab``."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from mirror_sdk.lab.demo import stop_process

WIDGETS = {"watcher": "EventWatcher", "fleet": "FleetTable"}
"""The widgets that can be opened next to the notebook, by the value of ``--widget``."""

WIDGET_VARIABLE = "MIRROR_LAB_WIDGET"
"""The environment variable that passes the name of the widget to the extension."""

WORKSPACE = "mirror-widget"
"""The JupyterLab workspace with the notebook and the widget."""

_EXTENSION = "mirror_sdk.lab.jupyter_extension"


@contextmanager
def jupyterlab(
    notebook: Path, widget: str | None, options: Sequence[str], variables: Mapping[str, str]
) -> Iterator[subprocess.Popen[str]]:
    """Run JupyterLab in the folder of a notebook, and open the notebook. JupyterLab is stopped when the block ends.

    Args:
        notebook: The notebook to open.
        widget: The widget to open next to the notebook, see :data:`WIDGETS`; ``None`` for no widget.
        options: Additional options of ``jupyter lab``.
        variables: Environment variables in addition to the variables of this process.
    """
    page = f"/lab/workspaces/{WORKSPACE}" if widget else "/lab"
    command = [
        *(sys.executable, "-m", "jupyterlab"),
        f"--ServerApp.root_dir={notebook.parent.resolve()}",
        f"--LabApp.default_url={page}/tree/{notebook.name}",
        f"--ServerApp.jpserver_extensions={_EXTENSION}=True",
        *options,
    ]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        # This is usual in a container. JupyterLab does not start as root without this option.
        command.append("--allow-root")
    environment = os.environ | dict(variables) | ({WIDGET_VARIABLE: widget} if widget else {})
    # JupyterLab runs in a separate session. So Ctrl-C in the terminal reaches only this process, which stops the others
    # in order.
    process = subprocess.Popen(command, env=environment, start_new_session=True, text=True)  # noqa: S603 - ours
    try:
        yield process
    finally:
        stop_process(process)
