"""A widget next to the notebook.

The widget is in a separate notebook with one cell, which has already run when JupyterLab opens both notebooks.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nbformat
from jupyterlab.commands import get_workspaces_dir
from jupyterlab_server.workspaces_handler import WorkspacesManager

from mirror_sdk.lab.jupyterlab import WIDGETS, WORKSPACE

if TYPE_CHECKING:
    from jupyter_server.serverapp import ServerApp

_KERNEL = "python3"
_START_SECONDS = 60.0


async def open_widget(app: ServerApp, name: str, notebook: str) -> None:
    """Run a widget of :data:`WIDGETS`, and write its notebook and the layout of the workspace.

    Raises:
        Exception: The kernel does not start, or does not respond.
    """
    file, widget = f"widget_{name}.ipynb", WIDGETS[name]
    imports = f"from mirror_sdk import examples\nfrom mirror_sdk.widgets import {widget}\n\n"
    cell = nbformat.v4.new_code_cell(f"# Made by mirror lab --widget {name}.\n{imports}{widget}(examples.connect())")
    cell.metadata["jupyter"] = {"source_hidden": True}
    cell.update(outputs=await _run(app, file, cell.source), execution_count=1)
    kernel = {"name": _KERNEL, "display_name": "Python 3 (ipykernel)", "language": "python"}
    content = nbformat.v4.new_notebook(cells=[cell], metadata={"kernelspec": kernel})
    nbformat.write(content, Path(app.root_dir) / file)
    app.contents_manager.notary.sign(content)
    WorkspacesManager(get_workspaces_dir()).save(WORKSPACE, json.dumps(_layout([notebook, file])))


async def _run(app: ServerApp, name: str, code: str) -> list[Any]:
    """Run code in the kernel of the notebook with this name and return the outputs.

    The kernel continues to run, so its widgets stay alive.
    """
    session = await app.session_manager.create_session(path=name, name=name, type="notebook", kernel_name=_KERNEL)
    client: Any = app.kernel_manager.get_kernel(session["kernel"]["id"]).client()
    outputs: list[Any] = []

    def add_output(message: dict[str, Any]) -> None:
        if message["msg_type"] in {"display_data", "execute_result", "error", "stream"}:
            outputs.append(nbformat.v4.output_from_msg(message))

    client.start_channels()
    try:
        await client.wait_for_ready(timeout=_START_SECONDS)
        await client.execute_interactive(code, output_hook=add_output, allow_stdin=False, timeout=_START_SECONDS)
    finally:
        client.stop_channels()
    return outputs


def _layout(notebooks: list[str]) -> dict[str, Any]:
    """Return a workspace that shows these notebooks next to each other."""
    tabs = [{"type": "tab-area", "currentIndex": 0, "widgets": [f"notebook:{name}"]} for name in notebooks]
    split = {"type": "split-area", "orientation": "horizontal", "sizes": [0.5, 0.5], "children": tabs}
    collapsed = {"collapsed": True, "visible": True, "widgets": []}
    areas = {
        "main": {"dock": split, "current": f"notebook:{notebooks[0]}"},
        "left": collapsed,
        "right": collapsed,
    }
    opened = {f"notebook:{name}": {"data": {"path": name, "factory": "Notebook"}} for name in notebooks}
    return {"data": {"layout-restorer:data": areas, **opened}, "metadata": {"id": WORKSPACE}}
