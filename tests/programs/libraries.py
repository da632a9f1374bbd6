"""Third-party libraries, where they are installed, and the command that runs the calls of each."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

HERE = Path(__file__).parent
_MANIFESTS = ("package.json", "package-lock.json")
_INSTALL_SECONDS = 300


class LibraryMissing(Exception):
    """A library is not available; the message says what it requires."""


@dataclass(frozen=True)
class Library:
    """A library, and the script that runs its calls.

    Attributes:
        package: Its name in the package index.
    """

    name: str
    package: str
    script: Path

    @property
    def of_node(self) -> bool:
        return self.script.suffix == ".js"


LIBRARIES = (
    Library("vendor's SDK, Python", "mbed-cloud-sdk", HERE / "python_sdk.py"),
    Library("vendor's SDK, JavaScript", "mbed-cloud-sdk", HERE / "node" / "sdk.js"),
    Library("connector library, Python", "mbed-connector-api", HERE / "python_connector.py"),
    Library("connector library, JavaScript", "mbed-connector-api", HERE / "node" / "connector.js"),
)


@dataclass(frozen=True)
class Installed:
    """A library that can be run.

    Attributes:
        package: Its source, name and version.
        environment: The environment with which its driver finds it.
        by_tls: Whether its driver uses https.
    """

    package: str
    command: list[str]
    environment: dict[str, str]
    by_tls: bool = False


def install(library: Library, cache: Path) -> Installed:
    """Install a library. Those of Python are in this environment, by the extra ``test``; npm installs the others.

    Args:
        cache: The folder that stores node modules for the next run.

    Raises:
        LibraryMissing: It is not available.
    """
    if library.of_node:
        modules = _node_modules(cache) / "node_modules"
        found = json.loads((modules / library.package / "package.json").read_text())["version"]
        command = ["node", "--no-deprecation", str(library.script)]
        return Installed(f"npm {library.package} {found}", command, {"NODE_PATH": str(modules)}, by_tls=True)
    try:
        found = version(library.package)
    except PackageNotFoundError as error:
        raise LibraryMissing(f"{library.package} is not installed; pip install '.[test]' does that") from error
    return Installed(f"PyPI {library.package} {found}", [sys.executable, "-W", "ignore", str(library.script)], {})


def _node_modules(cache: Path) -> Path:
    """Return the folder of the node modules that the lock file lists."""
    for command in ("node", "npm"):
        if shutil.which(command) is None:
            raise LibraryMissing(f"the libraries for JavaScript need the command {command}; install Node 20 or newer")
    sources = HERE / "node"
    content = b"".join((sources / name).read_bytes() for name in _MANIFESTS)
    folder = cache / f"node-{hashlib.sha256(content).hexdigest()[:12]}"
    complete = folder / "complete"
    if not complete.exists():
        folder.mkdir(parents=True, exist_ok=True)
        for name in _MANIFESTS:
            shutil.copy(sources / name, folder)
        command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        try:
            subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, timeout=_INSTALL_SECONDS)
        except subprocess.SubprocessError as error:
            words = f"{error}: {error.stderr[-1500:]}" if isinstance(error, subprocess.CalledProcessError) else error
            raise LibraryMissing(f"npm cannot install it; is the package index reached? {words}") from error
        complete.touch()
    return folder


def default_cache() -> Path:
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "device-state-mirror" / "programs"
