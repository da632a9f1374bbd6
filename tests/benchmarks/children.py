"""Child processes: servers, and programs that read and write lines of JSON."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import SystemRandom
from typing import Any

import httpx
from machine import on_cores

HERE = Path(__file__).parent
# In a checkout, the helpers of the tests are in the folder above. An installed package contains both.
IS_INSTALLED = (HERE / "databases.py").is_file()
SHARED = HERE if IS_INSTALLED else HERE.parent
_CODE = (HERE,) if IS_INSTALLED else (HERE.parents[1], HERE, SHARED)
_START_SECONDS = 120
_STOP_SECONDS = 15
_RESPONSE_SECONDS = 600


class ChildFailed(Exception):
    """A child process ended or sent an unusable response; the message contains its last output."""


class Missing(Exception):
    """A program to measure is not available. The message says what it requires."""


@dataclass(frozen=True, slots=True)
class Server:
    """A running server."""

    name: str
    port: int
    pid: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


class Program:
    """A process that responds to each line of JSON with a line of JSON."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self._process = process
        self._log = log
        self.pid = process.pid

    def call(self, **command: Any) -> Any:
        self.send(**command)
        return self.receive()

    def send(self, **command: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()

    def receive(self) -> Any:
        assert self._process.stdout is not None
        too_late = threading.Timer(_RESPONSE_SECONDS, self._process.kill)
        too_late.start()
        try:
            line = self._process.stdout.readline()
        finally:
            too_late.cancel()
        if not line:
            raise ChildFailed(f"{' '.join(map(str, self._process.args))} ended: {_last_words(self._log)}")
        return json.loads(line)


def environment(**variables: str) -> dict[str, str]:
    """Return the environment of a child: no settings of the server, and the path of modules outside packages."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("MIRROR_")}
    path = os.pathsep.join(filter(None, [*map(str, _CODE), inherited.get("PYTHONPATH")]))
    return inherited | {"PYTHONPATH": path} | variables


def free_port() -> int:
    """Return a free port below the ephemeral ports of the system."""
    while True:
        port = SystemRandom().choice(range(20_000, 32_000))
        try:
            with socket.create_server(("127.0.0.1", port)):
                return port
        except OSError:
            continue


@contextmanager
def server(
    name: str,
    command: Sequence[str | Path],
    port: int,
    *,
    folder: Path,
    cores: frozenset[int],
    ready: str = "/",
    variables: Mapping[str, str] | None = None,
) -> Iterator[Server]:
    """Start a server, wait until ``ready`` responds, and stop it at the end."""
    log = folder / f"{name}-{port}.log"
    with log.open("wb") as output, on_cores(cores):
        process = subprocess.Popen(
            list(map(str, command)),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment(**(variables or {})),
            cwd=folder,
        )
    try:
        _wait_for(f"http://127.0.0.1:{port}{ready}", process, log)
        yield Server(name, port, process.pid)
    finally:
        _stop(process)


@contextmanager
def program(
    name: str,
    *arguments: str,
    folder: Path,
    cores: frozenset[int],
) -> Iterator[Program]:
    """Start a program of this folder, and end it by closing its input."""
    log = folder / f"{name}-{free_port()}.log"
    with log.open("wb") as errors, on_cores(cores):
        process = subprocess.Popen(
            [sys.executable, "-W", "ignore", str(HERE / name), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=environment(),
        )
    try:
        yield Program(process, log)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        _stop(process)
        assert process.stdout is not None
        process.stdout.close()


def _wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    end_at = time.monotonic() + _START_SECONDS
    while True:
        try:
            if httpx.get(url, timeout=5, trust_env=False).is_success:
                return
        except httpx.TransportError:
            pass
        if process.poll() is not None or time.monotonic() > end_at:
            raise ChildFailed(f"no response from {url}: {_last_words(log)}")
        time.sleep(0.05)


def _stop(process: subprocess.Popen[Any]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _last_words(log: Path) -> str:
    return log.read_text(errors="replace")[-2000:] or "it wrote nothing"
