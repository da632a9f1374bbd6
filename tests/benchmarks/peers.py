"""The programs the mirror is compared with, each installed into an environment of its own in a cache folder."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

MOTO = ("moto[server,iotdata]>=5,<6",)
VENDOR_SDK = ("mbed-cloud-sdk==2.2.0", "setuptools<81")
_MOST_SECONDS = 600
"""How long a package index may let it wait."""
EXPRESS = {"express": "^5.1.0", "better-sqlite3": "^12.0.0"}


class PeerMissing(Exception):
    """A peer cannot be installed; the message says what it needs."""


class Peers:
    """Makes environments when they are first asked for.

    Args:
        cache: The folder they are kept in, for the next run.
    """

    def __init__(self, cache: Path) -> None:
        self._cache = cache
        self.versions: dict[str, list[str]] = {}

    def python(self, name: str, requirements: Sequence[str]) -> Path:
        """The interpreter of a virtual environment with these requirements."""
        folder = self._folder(name, "\n".join(requirements))
        python = folder / "bin" / "python"
        if not (folder / "complete").exists():
            _run([sys.executable, "-m", "venv", "--clear", folder])
            _run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements])
            (folder / "complete").touch()
        self.versions[name] = _run([python, "-m", "pip", "freeze", "--disable-pip-version-check"]).split()
        return python

    def node(self, name: str, dependencies: Mapping[str, str]) -> Path:
        """The folder of node modules with these dependencies."""
        for command in ("node", "npm"):
            if shutil.which(command) is None:
                raise PeerMissing(f"{name} needs the command {command}; install Node 20 or newer, or use --no-peers")
        manifest = json.dumps({"private": True, "dependencies": dependencies})
        folder = self._folder(name, manifest)
        if not (folder / "complete").exists():
            (folder / "package.json").write_text(manifest)
            _run(["npm", "install", "--no-audit", "--no-fund"], folder)
            _run(["node", "-e", "; ".join(f"require({each!r})" for each in dependencies)], folder)
            (folder / "complete").touch()
        installed = [folder / "node_modules" / each / "package.json" for each in dependencies]
        found = [json.loads(path.read_text()) for path in installed]
        self.versions[name] = [
            _run(["node", "--version"]).strip(),
            *(f"{one['name']}=={one['version']}" for one in found),
        ]
        return folder

    def _folder(self, name: str, content: str) -> Path:
        folder = self._cache / f"{name}-{hashlib.sha256(content.encode()).hexdigest()[:12]}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise PeerMissing(f"cannot install {name} in {folder}: {error.strerror}; choose another --cache") from error
        return folder


def _run(command: Sequence[str | Path], folder: Path | None = None) -> str:
    words = " ".join(map(str, command))
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(list(map(str, command)), cwd=folder, text=True, start_new_session=True, **pipes) as process:
        try:
            told, errors = process.communicate(timeout=_MOST_SECONDS)
        except BaseException as error:
            # With all it started, which else would go on.
            os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                raise PeerMissing(f"{words} did not end within {_MOST_SECONDS} s; --no-peers leaves it out") from None
            raise
    if process.returncode:
        raise PeerMissing(f"{words} failed; --no-peers leaves it out: {(told + errors)[-1500:]}")
    return told
