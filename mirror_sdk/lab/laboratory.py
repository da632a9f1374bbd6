"""A mirror with simulated devices and JupyterLab on the notebooks, started and stopped together."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from mirror_sdk.lab.demo import DemoServer, check_installed
from mirror_sdk.lab.real_devices import LabDevices

BESIDE = {"watcher": "EventWatcher", "fleet": "FleetTable"}
"""The widgets that can stand beside the notebook, by what an option calls them."""

BESIDE_VARIABLE = "MIRROR_LAB_BESIDE"
"""Tells Jupyter which of them does."""

WORKSPACE = "mirror-beside"
"""The workspace of JupyterLab that has both."""

_EXTENSION = "mirror_sdk.lab.in_jupyter"
_STOP_SECONDS = 15.0


def run_lab(
    notebooks: Sequence[Path],
    *,
    devices: int,
    seed: int,
    database: Path | None,
    beside: str | None,
    coap: bool,
    options: Sequence[str],
    say: Callable[[str], None],
) -> int:
    """Run until JupyterLab is closed.

    Args:
        notebooks: Notebooks in one folder, which JupyterLab is opened on; the first one is shown.
        devices: How many simulated devices there are.
        seed: What they are made from.
        database: The file that keeps the state for the next time; ``None`` for none.
        beside: What stands beside the notebook, see :data:`BESIDE`; ``None`` for nothing.
        coap: Whether there are a few real devices too, which come by CoAP from this machine.
        options: Further options of ``jupyter lab``.
        say: Told, line by line, what runs.

    Returns:
        JupyterLab's exit status.

    Raises:
        DemoError: JupyterLab or the server is not installed, or does not start.
    """
    check_installed("jupyterlab", "jupyter_server_proxy", extra="notebook")
    with ExitStack() as running:
        server = running.enter_context(closing(DemoServer(devices=devices, seed=seed, database=database, coap=coap)))
        say(f"Mirror with {server.count_devices()} simulated devices: {server.base_url}")
        if coap:
            client = running.enter_context(server.client())
            real = running.enter_context(closing(LabDevices(server.coap_url, client)))
            say(f"Real devices, by {server.coap_url}: {', '.join(real.names)}")
        say(f"Database: {'temporary' if database is None else database.resolve()}")
        say(f"Notebooks: {notebooks[0].parent.resolve()}")
        environment = os.environ | server.environment | ({BESIDE_VARIABLE: beside} if beside else {})
        lab = running.enter_context(_child(_lab_command(notebooks[0], beside, options), env=environment))
        return lab.wait()


def _lab_command(first: Path, beside: str | None, options: Sequence[str]) -> list[str]:
    place = f"/lab/workspaces/{WORKSPACE}" if beside else "/lab"
    command = [
        sys.executable,
        "-m",
        "jupyterlab",
        f"--ServerApp.root_dir={first.parent.resolve()}",
        f"--LabApp.default_url={place}/tree/{first.name}",
        f"--ServerApp.jpserver_extensions={_EXTENSION}=True",
        *options,
    ]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")
    return command


@contextmanager
def _child(command: Sequence[str], *, env: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is asked to stop at the end, and made to if it does not.

    It is in a session of its own: a Ctrl-C in the terminal is for us alone, and we stop it in our order.
    """
    with subprocess.Popen(command, env=env, start_new_session=True) as process:  # noqa: S603 - made here
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
