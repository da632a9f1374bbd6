"""A mirror with simulated devices and JupyterLab on the notebooks, started and stopped together."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from mirror_sdk._client import MirrorClient
from mirror_sdk.bench import Bench
from mirror_sdk.errors import MirrorError

_SETTINGS = ("API_HOST", "API_KEY")
_EXPORT = re.compile(rf"export ({'|'.join(_SETTINGS)})=(\S+)")
_LOOK_SECONDS = 0.1
_READY_SECONDS = 30.0
_STOP_SECONDS = 15.0
_TICK_SECONDS = 1.0


class LabError(Exception):
    """Something that is needed is missing or did not start; the message says what to do."""


def run_lab(
    notebooks: Sequence[Path], *, devices: int, seed: int, options: Sequence[str], say: Callable[[str], None]
) -> int:
    """Run until JupyterLab is closed.

    Args:
        notebooks: Notebooks in one folder, which JupyterLab is opened on; the first one is shown.
        devices: How many simulated devices there are.
        seed: What they are made from.
        options: Further options of ``jupyter lab``.
        say: Told, line by line, what runs.

    Returns:
        JupyterLab's exit status.

    Raises:
        LabError: JupyterLab or the server is not installed, or does not start.
    """
    _check_installed()
    with _server(devices, seed) as settings, MirrorClient(settings["API_HOST"], settings["API_KEY"]) as client:
        _wait_until_ready(client)
        say(f"Mirror with {devices} simulated devices: {client.base_url}")
        say(f"Notebooks: {notebooks[0].parent.resolve()}")
        say("Stop with Ctrl-C.")
        with _passing_time(client), _child(_lab_command(notebooks[0], options), env=os.environ | settings) as lab:
            return lab.wait()


def _check_installed() -> None:
    for module, extra in [("jupyterlab", "notebook"), ("mirror_server.cli", "server"), ("uvicorn", "server")]:
        if not _is_installed(module):
            raise LabError(f'{module} is missing: pip install "device-state-mirror[{extra}]"')


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _lab_command(first: Path, options: Sequence[str]) -> list[str]:
    command = [
        sys.executable,
        "-m",
        "jupyterlab",
        f"--ServerApp.root_dir={first.parent.resolve()}",
        f"--LabApp.default_url=/lab/tree/{first.name}",
        # Nothing goes to the network on its own.
        "--LabApp.news_url=None",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        *options,
    ]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")
    return command


@contextmanager
def _server(devices: int, seed: int) -> Iterator[dict[str, str]]:
    """A demo server; gives the environment variables that lead to it."""
    command = [sys.executable, "-m", "mirror_server", "demo", "--port=0", f"--devices={devices}", f"--seed={seed}"]
    # Simulated time, so that a notebook can let hours pass in a moment.
    with _child([*command, "--clock=manual"], stdout=subprocess.PIPE) as process:
        yield _read_settings(process)


def _read_settings(process: subprocess.Popen[str]) -> dict[str, str]:
    settings: dict[str, str] = {}
    while len(settings) < len(_SETTINGS):
        line = process.stdout.readline() if process.stdout else ""
        if not line:
            raise LabError("the server did not start; 'mirror-server demo' shows why")
        match = _EXPORT.match(line)
        if match:
            settings[match[1]] = match[2]
    return settings


def _wait_until_ready(client: MirrorClient) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while not client.is_healthy():
        if time.monotonic() > deadline:
            raise LabError(f"the server on {client.base_url} is not ready after {_READY_SECONDS:.0f} s")
        time.sleep(_LOOK_SECONDS)


@contextmanager
def _passing_time(client: MirrorClient) -> Iterator[None]:
    """Let the simulated time pass as real time does, besides what a notebook makes it skip."""
    stopped = threading.Event()

    def run() -> None:
        bench = Bench(client)
        last = time.monotonic()
        while not stopped.wait(_TICK_SECONDS):
            now = time.monotonic()
            try:
                bench.advance(now - last)
            except MirrorError:
                return
            last = now

    thread = threading.Thread(target=run, name="mirror-lab-time", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join(_STOP_SECONDS)


@contextmanager
def _child(
    command: Sequence[str], *, env: Mapping[str, str] | None = None, stdout: int | None = None
) -> Iterator[subprocess.Popen[str]]:
    """A process that is asked to stop at the end, and made to if it does not.

    It is in a session of its own: a Ctrl-C in the terminal is for us alone, and we stop it in our order.
    """
    with subprocess.Popen(  # noqa: S603 - our own programs, by this very interpreter
        command, env=env, stdout=stdout, text=True, start_new_session=True
    ) as process:
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
