"""Checks that each extension can be deleted: without its folders the other tests pass, and the server starts and stops.

``python .ci/without_extensions.py [NAME ...] [--jobs N]`` deletes each one in turn, in a copy of the tree, and then all
at once, which is named ``all``; or only these, N at a time.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.request import urlopen

ROOT = Path(__file__).parent.parent
FOLDERS = (Path("mirror_server/extensions"), Path("tests/extensions"))
START_SECONDS, STOP_SECONDS = 120, 60
SHOWN_LINES = 40
ALL = "all"


def extensions(tree: Path) -> list[str]:
    """The names of the extensions of a tree."""
    return sorted(file.parent.name for file in (tree / FOLDERS[0]).glob("*/__init__.py"))


def copy(tree: Path) -> None:
    """Copy what is, or would be, in the repository."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    for name in filter(None, listed.split("\0")):
        # One that was deleted is listed until that is committed.
        if (ROOT / name).exists():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tree / name, follow_symlinks=False)


@contextmanager
def running(tree: Path, environment: dict[str, str], output: Path) -> Iterator[str]:
    """A server of the tree, by its URL; it is to stop in peace."""
    command = [sys.executable, "-m", "mirror_server", "run", "--port", "0", "--database", f"sqlite:///{output}.db"]
    with (
        output.open("w") as written,
        subprocess.Popen(command, cwd=tree, env=environment, stdout=written, stderr=subprocess.STDOUT) as server,
    ):
        try:
            deadline = time.monotonic() + START_SECONDS
            while not (url := re.search(r"^Serving .* on (http://\S+)$", output.read_text(), re.MULTILINE)):
                if server.poll() is not None or time.monotonic() > deadline:
                    raise AssertionError("the server does not start")
                time.sleep(0.1)
            yield url[1]
            server.terminate()
            if status := server.wait(STOP_SECONDS):
                raise AssertionError(f"the server stops with status {status}")
        finally:
            server.kill()


def problem_of(tree: Path, output: Path) -> str:
    """What is wrong with a tree, whose last program wrote to this file; empty where nothing is."""
    # First in the path of each process, whatever its folder is and whatever is installed.
    environment = os.environ | {"PYTHONPATH": str(tree)}
    try:
        with running(tree, environment, output) as url, urlopen(f"{url}/healthz") as answer:  # noqa: S310
            found = json.load(answer)["extensions"]
    except (AssertionError, OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if found != extensions(tree):
        return f"the server has the extensions {found}"
    tests = [each for each in ("tests/server", "tests/extensions") if (tree / each).exists()]
    command = [sys.executable, "-m", "pytest", "-q", "-n", "auto", "--dist", "loadfile", *tests]
    with output.open("w") as written:
        status = subprocess.call(command, cwd=tree, env=environment, stdout=written, stderr=subprocess.STDOUT)
    return f"the tests end with status {status}" if status else ""


def check(name: str) -> bool:
    """Check a tree without an extension, or without all of them, and print the result."""
    began_at = time.monotonic()
    with TemporaryDirectory(prefix="mirror-without-") as folder:
        tree, output = Path(folder, "tree"), Path(folder, "output")
        copy(tree)
        for each in FOLDERS:
            shutil.rmtree(tree / each if name == ALL else tree / each / name, ignore_errors=True)
        problem = problem_of(tree, output)
        result = f"{'FAILED' if problem else 'ok':<6} {time.monotonic() - began_at:4.0f} s  without {name}"
        if problem:
            last = output.read_text(errors="replace").splitlines()[-SHOWN_LINES:]
            result = "\n".join([f"{result}: {problem}", *last])
        print(result, flush=True)
        return not problem


if __name__ == "__main__":
    names = [*extensions(ROOT), ALL]
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(names)}")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="how many copies are tested at a time")
    chosen = parser.parse_args()
    if unknown := set(chosen.names) - set(names):
        parser.error(f"there is no extension {', '.join(sorted(unknown))}")
    with ThreadPoolExecutor(chosen.jobs) as pool:
        sys.exit(not all(list(pool.map(check, chosen.names or names))))
