"""JupyterLab as a process: started by ``mirror lab``, and alone."""

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
from process_server import child_environment, wait_until

ADDRESS = re.compile(r"(http://127\.0\.0\.1:\d+)/lab(?:/workspaces/[\w-]+)?/tree/(\S+)\?token=(\w+)")
MIRROR = re.compile(r"Mirror with 3 simulated devices: (\S+)")
CONFIG = {
    # Otherwise the type checker, which other tests need, would read all packages for each opened notebook.
    "LanguageServerManager": {"autodetect": False},
    # The name ``jupyterapp`` lets a page open one notebook after the other.
    "LabApp": {"expose_app_in_browser": True},
}
START_SECONDS = 120
"""Time for JupyterLab, its extensions and a kernel to start on a slow machine."""


class JupyterProcess:
    """A program that runs JupyterLab, with all of Jupyter's files in its own folder."""

    def __init__(self, folder: Path, command: Sequence[str], environment: dict[str, str]) -> None:
        self.folder = folder
        self.output_path = folder / "output.txt"
        jupyter = {f"JUPYTER_{name}_DIR": str(folder / name.lower()) for name in ("RUNTIME", "CONFIG", "DATA")}
        (folder / "config").mkdir(exist_ok=True)
        (folder / "config" / "jupyter_server_config.json").write_text(json.dumps(CONFIG))
        with self.output_path.open("wb") as output:
            self.process = subprocess.Popen(
                command, cwd=folder, env=environment | jupyter, stdout=output, stderr=subprocess.STDOUT
            )

    @property
    def output(self) -> str:
        return self.output_path.read_text()

    def find(self, pattern: re.Pattern[str]) -> re.Match[str]:
        found: re.Match[str] = wait_until(
            lambda: pattern.search(self.output), f"{pattern.pattern} in the output", START_SECONDS
        )
        return found

    def close(self) -> None:
        """Stop the program, including its server and kernels."""
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait(START_SECONDS)


class Lab(JupyterProcess):
    """A running ``mirror lab``."""

    def __init__(self, folder: Path, *options: str, **variables: str) -> None:
        program = "from mirror_sdk.cli import main; main()"
        command = [sys.executable, "-c", program, "lab", "--no-browser", "--devices=3", *options]
        super().__init__(folder, command, child_environment(**variables))

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Send a request to JupyterLab, once it responds."""
        address, _, token = self.find(ADDRESS).groups()
        headers = {"Authorization": f"token {token}"}
        with httpx.Client(base_url=address, headers=headers, trust_env=False, timeout=START_SECONDS) as http:
            wait_until(lambda: _is_up(http), "JupyterLab to respond", START_SECONDS)
            return http.request(method, path, **options)


def _is_up(http: httpx.Client) -> bool:
    try:
        return http.get("/api/status").status_code == 200
    except httpx.TransportError:
        return False
