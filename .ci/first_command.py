"""Runs the first command of the README in a folder, executes the tour on the mirror that it starts, and stops it.

``python3 .ci/first_command.py COMMAND FOLDER`` prints the duration and the installed packages. It needs only Python.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

START_SECONDS = 600
TOUR = "mirror-notebooks/00_tour.ipynb"
READY = re.compile(
    r"Mirror with 12 simulated devices: (?P<mirror>\S+).*"
    r"Notebooks, in JupyterLab: (?P<lab>\S+)\nPage of the mirror: (?P<page>\S+)\nStop with Ctrl-C\.",
    re.DOTALL,
)


class _Redirect(HTTPRedirectHandler):
    """A handler that returns redirections as responses."""

    def redirect_request(self, *_: object) -> Request | None:
        return None


def main(command: str, folder: Path) -> None:
    """Run it.

    Raises:
        SystemExit: JupyterLab does not start or respond, or the tour shows no plot.
    """
    began_at = time.monotonic()
    output = folder / "output.txt"
    # JupyterLab keeps its settings in this folder, not in the home of the user.
    for name in ("CONFIG", "DATA", "RUNTIME"):
        os.environ[f"JUPYTER_{name}_DIR"] = str(folder / name.lower())
    with output.open("wb") as written:
        process = subprocess.Popen(
            ["bash", "-c", command], cwd=folder, stdout=written, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        found = _wait(process, output)
        started = time.monotonic() - began_at
        status = _get(found["lab"])[0]
        if status not in {200, 302}:
            sys.exit(f"JupyterLab responds with {status} to {found['lab']}")
        key = _get(found["page"])[1].partition("#key=")[2]
        outputs = _execute(folder, {"API_HOST": found["mirror"], "API_KEY": key})
        plotted = time.monotonic() - began_at
        if not {"application/vnd.jupyter.widget-view+json", "image/png"} <= outputs:
            sys.exit(f"the tour shows no live widget and plot, only {outputs}")
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
    process.wait(60)
    sizes = [file.stat().st_size for file in (folder / ".venv").rglob("*") if file.is_file()]
    packages = len(list((folder / ".venv").glob("lib/*/site-packages/*.dist-info")))
    print(f"JupyterLab after {started:.0f} s, all of the tour after {plotted:.0f} s")
    print(f"{packages} packages, {sum(sizes) / 1e6:.0f} MB")


def _wait(process: subprocess.Popen[bytes], output: Path) -> re.Match[str]:
    deadline = time.monotonic() + START_SECONDS
    while not (found := READY.search(output.read_text())):
        if process.poll() is not None or time.monotonic() > deadline:
            sys.exit(f"it does not start:\n{output.read_text()}")
        time.sleep(0.2)
    return found


def _get(url: str) -> tuple[int, str]:
    """Return the status and the Location header of the response."""
    try:
        with build_opener(_Redirect).open(url, timeout=60) as response:
            return response.status, ""
    except HTTPError as error:
        return error.code, error.headers.get("Location", "")


def _execute(folder: Path, leading: dict[str, str]) -> set[str]:
    """Execute the tour, and return the media types of its outputs."""
    command = [str(folder / ".venv" / "bin" / "jupyter"), "execute", "--inplace", TOUR]
    subprocess.run(command, cwd=folder, env=os.environ | leading, check=True, timeout=START_SECONDS)
    cells = json.loads((folder / TOUR).read_text())["cells"]
    return {kind for cell in cells for output in cell.get("outputs", []) for kind in output.get("data", {})}


if __name__ == "__main__":
    # SystemExit ends the processes that it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped by SIGTERM"))
    main(sys.argv[1], Path(sys.argv[2]))
