"""A mirror with simulated devices in a separate process, for experiments."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import httpx

from mirror_sdk._client import MirrorClient
from mirror_sdk.config import HOST_VARIABLE, KEY_VARIABLE
from mirror_sdk.simulator.simulator import Simulator
from mirror_sdk.wire.routes import HEALTH

SERVER_COMMAND = (sys.executable, "-m", "mirror_server", "demo", "--clock=manual", "--pace=1")
"""The command of a server with simulated time.

The time passes at normal speed, and can be advanced by hours at once.
"""

DEMO_KEY_VARIABLE = "MIRROR_DEMO_KEY"

_EXPORT = re.compile(rf"export ({HOST_VARIABLE}|{KEY_VARIABLE})=(\S+)")
_DEVICES = re.compile(r"# Real devices: (\S+)")
_POLL_SECONDS = 0.1
_READY_SECONDS = 30.0
_STOP_SECONDS = 15.0


class DemoError(Exception):
    """The error for a missing package or a program that did not start. The message says what to do."""

    def _render_traceback_(self) -> list[str]:
        """Show only the error message in a notebook."""
        return [str(self)]


class ChildProcess:
    """A program that ends when this object is closed.

    It also ends when this process ends for any reason, because that closes its standard input.

    Args:
        command: The program and its options. The program must support the option ``--stop-with-stdin``.
        popen_options: The options of :class:`subprocess.Popen`.
    """

    def __init__(self, command: Sequence[str], **popen_options: Any) -> None:
        self._process: subprocess.Popen[str] = subprocess.Popen(  # noqa: S603 - our own program, by this interpreter
            [*command, "--stop-with-stdin"],
            stdin=subprocess.PIPE,
            text=True,
            # Neither Ctrl-C in the terminal nor an interruption in a notebook stops the program.
            start_new_session=True,
            **popen_options,
        )

    def wait(self) -> int:
        """Wait until the program has ended, and return its exit status."""
        return self._process.wait()

    def close(self) -> None:
        """Stop the program."""
        stop_process(self._process)


class DemoServer(ChildProcess):
    """A running demo server that is ready for requests.

    It stops when it is closed, and when this process ends for any reason.

    Args:
        devices: The minimum number of simulated devices.
        seed: The seed of the values of the devices.
        database: The file that stores the state for the next start; ``None`` if the state is not stored.
        coap: Whether real devices can register too, over CoAP from this machine.
        pace: The number of seconds of simulated time per second.
        quiet: Whether the log of the server is discarded. Otherwise, it is written to standard error of this program.
        port: The port of the server; 0 for any free port.
        key: The access key of the server; ``None`` if the server makes or stores one.

    Attributes:
        coap_url: The address for real devices, ``coap://HOST:PORT``. It is empty without ``coap``.

    Raises:
        DemoError: The server is not installed or does not start.
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
        port: int = 0,
        key: str | None = None,
    ) -> None:
        check_installed("mirror_server.cli", "uvicorn", extra="server")
        options = [f"--port={port}", f"--devices={devices}", f"--seed={seed}", f"--pace={pace}"]
        if coap:
            check_installed("aiocoap", extra="lwm2m")
            options.append("--coap=127.0.0.1:0")
        if database is not None:
            options.append(f"--database=sqlite:///{database.resolve()}")
        environment = {name: value for name, value in os.environ.items() if name != DEMO_KEY_VARIABLE}
        if key is not None:
            environment[DEMO_KEY_VARIABLE] = key
        super().__init__(
            [*SERVER_COMMAND, *options],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if quiet else None,
        )
        self.coap_url: str = ""
        try:
            self.environment: dict[str, str] = self._read_environment(key)
            self._wait_until_ready()
        except BaseException:
            self.close()
            raise

    @property
    def base_url(self) -> str:
        """The address of the server."""
        return self.environment[HOST_VARIABLE]

    def client(self) -> MirrorClient:
        """Return a client whose access key has all scopes."""
        return MirrorClient(self.base_url, self.environment[KEY_VARIABLE])

    def count_devices(self) -> int:
        """Return the number of simulated devices."""
        with self.client() as client:
            return len(Simulator(client).list_devices())

    def _read_environment(self, key: str | None) -> dict[str, str]:
        # The server does not print a key that was passed to it.
        environment = {} if key is None else {KEY_VARIABLE: key}
        printed = {HOST_VARIABLE, KEY_VARIABLE} - environment.keys()
        # A server that never prints its address is killed, which ends its output.
        guard = threading.Timer(_READY_SECONDS, self._process.kill)
        guard.start()
        try:
            exports = (_EXPORT.match(line) for line in self._lines())
            # Reading stops after these lines. The server keeps its output open, so further reading would block.
            found = {match[1]: match[2] for match in islice(filter(None, exports), len(printed))}
        finally:
            guard.cancel()
        if found.keys() != printed:
            raise DemoError("the server did not start; 'mirror-server demo' shows why")
        return found | environment

    def _lines(self) -> Iterator[str]:
        for line in self._process.stdout or ():
            if found := _DEVICES.match(line):
                self.coap_url = found[1]
            yield line

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + _READY_SECONDS
        # A proxy of the environment variables does not reach this machine.
        with httpx.Client(base_url=self.base_url, trust_env=False) as http:
            while not _is_healthy(http):
                if time.monotonic() > deadline:
                    raise DemoError(f"the server on {self.base_url} is not ready after {_READY_SECONDS:.0f} s")
                time.sleep(_POLL_SECONDS)


def _is_healthy(http: httpx.Client) -> bool:
    try:
        return http.get(HEALTH).is_success
    except httpx.TransportError:
        return False


def stop_process(process: subprocess.Popen[str]) -> None:
    """Terminate a process, and kill it if it does not end in time."""
    process.terminate()
    try:
        # `wait` is not used, because a process blocks when its output pipe is full and no one reads it.
        process.communicate(timeout=_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()


def check_installed(*modules: str, extra: str) -> None:
    """Check that modules are installed.

    Raises:
        DemoError: A module is missing. The message says how to install it.
    """
    for module in modules:
        if not is_installed(module):
            raise DemoError(f'{module} is missing: pip install "device-state-mirror[{extra}]"')


def is_installed(module: str) -> bool:
    """Return whether a module with this name is installed."""
    try:
        return importlib.util.find_spec(module) is not None
    except (ModuleNotFoundError, ValueError):
        return False
