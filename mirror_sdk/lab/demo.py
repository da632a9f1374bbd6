"""A mirror with simulated devices in a process of its own, for trying things out."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from mirror_sdk._client import MirrorClient
from mirror_sdk.config import HOST_VARIABLE, KEY_VARIABLE
from mirror_sdk.simulator.simulator import Simulator

SERVER_COMMAND = (sys.executable, "-m", "mirror_server", "demo", "--clock=manual", "--pace=1")
"""A server whose time is simulated: it passes as usual, and can be advanced by hours in a moment."""

DEMO_KEY_VARIABLE = "MIRROR_DEMO_KEY"

_EXPORT = re.compile(rf"export ({HOST_VARIABLE}|{KEY_VARIABLE})=(\S+)")
_DEVICES = re.compile(r"# Real devices: (\S+)")
_LOOK_SECONDS = 0.1
_READY_SECONDS = 30.0
_STOP_SECONDS = 15.0


class DemoError(Exception):
    """Something that is needed is missing or did not start; the message says what to do."""

    def _render_traceback_(self) -> list[str]:
        """A notebook shows what to do, and nothing else."""
        return [str(self)]


class DemoServer:
    """A running server, ready to answer. It stops when it is closed, and also when this process ends in any way.

    Args:
        devices: How many simulated devices there are at least.
        seed: What they are made from.
        database: The file that keeps the state for the next time; ``None`` for none.
        coap: Whether real devices can come too, by CoAP from this machine.
        pace: How many seconds of its time pass by themselves in a second.
        quiet: Whether its log is dropped, which is else in that of this program.

    Attributes:
        coap_url: Where they come, ``coap://HOST:PORT``; empty where they cannot.

    Raises:
        DemoError: The server is not installed, or does not start.
    """

    def __init__(
        self,
        *,
        devices: int = 12,
        seed: int = 0,
        database: Path | None = None,
        coap: bool = False,
        pace: float = 1,
        quiet: bool = False,
    ) -> None:
        check_installed("mirror_server.cli", "uvicorn", extra="server")
        options = ["--port=0", f"--devices={devices}", f"--seed={seed}", f"--pace={pace}", "--stop-with-stdin"]
        if coap:
            check_installed("aiocoap", extra="lwm2m")
            options.append("--coap=127.0.0.1:0")
        if database is not None:
            options.append(f"--database=sqlite:///{database.resolve()}")
        self._process = subprocess.Popen(  # noqa: S603 - our own program, by this very interpreter
            [*SERVER_COMMAND, *options],
            env={name: value for name, value in os.environ.items() if name != DEMO_KEY_VARIABLE},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if quiet else None,
            text=True,
            # A Ctrl-C in the terminal, or one that interrupts a notebook, is not for it.
            start_new_session=True,
        )
        self.coap_url: str = ""
        try:
            self.environment: dict[str, str] = self._read_environment()
            self._wait_until_ready()
        except BaseException:
            self.close()
            raise

    @property
    def base_url(self) -> str:
        """Its address."""
        return self.environment[HOST_VARIABLE]

    def client(self) -> MirrorClient:
        """A client of it, whose key has all scopes."""
        return MirrorClient(self.base_url, self.environment[KEY_VARIABLE])

    def count_devices(self) -> int:
        """How many simulated devices it has."""
        with self.client() as client:
            return len(Simulator(client).list_devices())

    def close(self) -> None:
        """Stop it."""
        self._process.terminate()
        try:
            self._process.communicate(timeout=_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()

    def _read_environment(self) -> dict[str, str]:
        # What never prints its address is ended, and with it its output.
        guard = threading.Timer(_READY_SECONDS, self._process.kill)
        guard.start()
        try:
            exports = (_EXPORT.match(line) for line in self._lines())
            found = {match[1]: match[2] for match in islice(filter(None, exports), 2)}
        finally:
            guard.cancel()
        if found.keys() != {HOST_VARIABLE, KEY_VARIABLE}:
            raise DemoError("the server did not start; 'mirror-server demo' shows why")
        return found

    def _lines(self) -> Iterator[str]:
        for line in self._process.stdout or ():
            if told := _DEVICES.match(line):
                self.coap_url = told[1]
            yield line

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + _READY_SECONDS
        with self.client() as client:
            while not client.service.is_healthy():
                if time.monotonic() > deadline:
                    raise DemoError(f"the server on {self.base_url} is not ready after {_READY_SECONDS:.0f} s")
                time.sleep(_LOOK_SECONDS)


def check_installed(*modules: str, extra: str) -> None:
    """Make sure that there are these modules.

    Raises:
        DemoError: One is missing; the message says how to install it.
    """
    for module in modules:
        if not is_installed(module):
            raise DemoError(f'{module} is missing: pip install "device-state-mirror[{extra}]"')


def is_installed(module: str) -> bool:
    """Whether there is a module of this name."""
    try:
        return importlib.util.find_spec(module) is not None
    except (ModuleNotFoundError, ValueError):
        return False
