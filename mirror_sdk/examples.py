"""The notebooks that come with this package, and the mirror they work with."""

from __future__ import annotations

import atexit
import os
import shutil
from functools import cache
from pathlib import Path

import click

from mirror_sdk._client import MirrorClient
from mirror_sdk.config import HOST_VARIABLE, is_loopback
from mirror_sdk.demo import DemoServer

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


def connect() -> MirrorClient:
    """A client of the mirror that ``API_HOST`` and ``API_KEY`` lead to; without one, of a mirror that is started here.

    One is started when ``API_HOST`` is not set, and when it leads to this machine and nothing answers there. It has
    twelve simulated devices, is told of in a line, and ends with this program; until then ``API_HOST`` and ``API_KEY``
    of this program lead to it, for other clients. A mirror elsewhere that does not answer is an error of the first
    call: what was meant for real devices never goes to simulated ones.

    Raises:
        ConfigError: ``API_HOST`` or ``API_KEY`` cannot be used.
        DemoError: The mirror that is needed is not installed, or does not start.
    """
    if os.environ.get(HOST_VARIABLE):
        client = MirrorClient.from_env()
        if not is_loopback(client.base_url) or client.is_healthy():
            return client
        client.close()
    return _own_server().client()


@cache
def _own_server() -> DemoServer:
    server = DemoServer()
    os.environ.update(server.environment)
    atexit.register(server.close)
    click.echo(f"No mirror is running: started one with {server.count_devices()} simulated devices for this program.")
    return server
