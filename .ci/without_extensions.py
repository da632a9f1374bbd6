"""Checks that extensions can be deleted: without their folders the other tests pass, and the server starts and stops.

``python .ci/without_extensions.py`` checks all extensions, in copies of the tree, with few test runs:

- without any extension, the tests of the core pass;
- with one extension alone, its tests pass;
- without one extension, the server has the others.

Running all remaining tests without each extension would take ten times as long. They have passed with more deleted and
with nothing deleted. ``python .ci/without_extensions.py NAME ...`` runs them without these extensions.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple
from urllib.request import urlopen

ROOT = Path(__file__).parent.parent
COPIED = ("mirror_sdk", "mirror_server", "tests", "pyproject.toml")
EXTENSIONS, TESTS = Path("mirror_server/extensions"), Path("tests/extensions")
TESTS_OF_CORE = "tests/server"
START_SECONDS, STOP_SECONDS = 120, 60
LINES_OF_OUTPUT = 40


class Deletion(NamedTuple):
    """Extensions to delete, and the test folders that must pass without them."""

    title: str
    deleted: Sequence[str]
    tests: Sequence[str] = ()


def extensions(tree: Path) -> list[str]:
    """Return the names of the extensions of a tree."""
    return sorted(file.parent.name for file in (tree / EXTENSIONS).glob("*/__init__.py"))


def few_runs(names: Sequence[str]) -> list[Deletion]:
    """Return the deletions that prove that each extension can be deleted."""
    alone = [Deletion(f"{name} alone", [each for each in names if each != name], [f"{TESTS}/{name}"]) for name in names]
    return [
        # The folder also has tests of a sample extension of another package.
        Deletion("without extensions", names, [TESTS_OF_CORE, str(TESTS)]),
        # The longest runs start first.
        *sorted(alone, key=lambda each: -sum(file.stat().st_size for file in (ROOT / each.tests[0]).rglob("*.py"))),
        *(Deletion(f"without {name}", [name]) for name in names),
    ]


@contextmanager
def running(tree: Path, environment: dict[str, str], output: Path) -> Iterator[str]:
    """Run a server of the tree and yield its URL. It must stop with status 0."""
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


def problem_of(tree: Path, tests: Sequence[str], output: Path) -> str:
    """Return the problem of a tree, or an empty text. ``output`` receives the output of the last program."""
    temporary = output.parent / "tmp"
    temporary.mkdir()
    # PYTHONPATH precedes the working directory and installed packages in every process.
    environment = os.environ | {"PYTHONPATH": str(tree), "TMPDIR": str(temporary)}
    try:
        with running(tree, environment, output) as url, urlopen(f"{url}/healthz") as response:  # noqa: S310
            found = json.load(response)["extensions"]
    except (AssertionError, OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if found != extensions(tree):
        return f"the server has the extensions {found}"
    if not tests:
        return ""
    command = [sys.executable, "-m", "pytest", "-q", *tests]
    with output.open("w") as written:
        status = subprocess.call(command, cwd=tree, env=environment, stdout=written, stderr=subprocess.STDOUT)
    return f"the tests end with status {status}" if status else ""


def copy(source: Path, target: Path) -> None:
    """Copy files and folders with their modification times, so that their bytecode stays valid."""
    target.mkdir()
    for name in COPIED:
        (shutil.copytree if (source / name).is_dir() else shutil.copy2)(source / name, target / name)


def check(deletion: Deletion, original: Path) -> bool:
    """Delete extensions from a copy of the tree, check the copy, and print the result."""
    began_at = time.monotonic()
    with TemporaryDirectory(prefix="without-") as folder:
        tree, output = Path(folder, "tree"), Path(folder, "output")
        copy(original, tree)
        for name in deletion.deleted:
            shutil.rmtree(tree / EXTENSIONS / name)
            shutil.rmtree(tree / TESTS / name, ignore_errors=True)
        if not extensions(tree):
            shutil.rmtree(tree / EXTENSIONS)
        problem = problem_of(tree, deletion.tests, output)
        result = f"{'FAILED' if problem else 'ok':<6} {time.monotonic() - began_at:4.0f} s  {deletion.title}"
        if problem:
            last = output.read_text(errors="replace").splitlines()[-LINES_OF_OUTPUT:]
            result = "\n".join([f"{result}: {problem}", *last])
        print(result, flush=True)
        return not problem


if __name__ == "__main__":
    known = extensions(ROOT)
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(known)}")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count(), metavar="N", help="number of copies that are checked concurrently"
    )
    chosen = parser.parse_args()
    if unknown := set(chosen.names) - set(known):
        parser.error(f"there is no extension {', '.join(sorted(unknown))}")
    requested = [Deletion(f"without {name}", [name], [TESTS_OF_CORE, str(TESTS)]) for name in chosen.names]
    with TemporaryDirectory(prefix="without-") as folder, ThreadPoolExecutor(chosen.jobs) as pool:
        # All checks use this copy, so that edits of the tree do not disturb them.
        copy(ROOT, original := Path(folder, "tree"))
        results = list(pool.map(partial(check, original=original), requested or few_runs(known)))
    sys.exit(not all(results))
