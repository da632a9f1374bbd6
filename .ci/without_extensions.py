"""Checks that extensions can be deleted: without their folders the other tests pass, and the server starts and stops.

``python .ci/without_extensions.py`` proves it for all of them, in copies of the tree, with few runs of the tests:

- all extensions are deleted: the tests of the core pass;
- all but one are deleted, each in turn: the tests of this one pass;
- one is deleted, each in turn: the server has the others.

The tests that remain without one extension are not run for each of them, which would take ten times as long: those of
the core and of each other extension have passed with even more deleted, and pass with nothing deleted.
``python .ci/without_extensions.py NAME ...`` runs them for the deletion of these.
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
SHOWN_LINES = 40


class Deletion(NamedTuple):
    """Extensions to delete, and the folders of tests that are to pass without them."""

    title: str
    deleted: Sequence[str]
    tests: Sequence[str] = ()


def extensions(tree: Path) -> list[str]:
    """The names of the extensions of a tree."""
    return sorted(file.parent.name for file in (tree / EXTENSIONS).glob("*/__init__.py"))


def few_runs(names: Sequence[str]) -> list[Deletion]:
    """What proves that each extension can be deleted."""
    alone = [Deletion(f"{name} alone", [each for each in names if each != name], [f"{TESTS}/{name}"]) for name in names]
    return [
        # The tests folder has an example of another package's extension, too.
        Deletion("without extensions", names, [TESTS_OF_CORE, str(TESTS)]),
        # What takes longest begins first.
        *sorted(alone, key=lambda each: -sum(file.stat().st_size for file in (ROOT / each.tests[0]).rglob("*.py"))),
        *(Deletion(f"without {name}", [name]) for name in names),
    ]


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


def problem_of(tree: Path, tests: Sequence[str], output: Path) -> str:
    """What is wrong with a tree, whose last program wrote to this file; empty where nothing is."""
    temporary = output.parent / "tmp"
    temporary.mkdir()
    # First in the path of each process, whatever its folder is and whatever is installed.
    environment = os.environ | {"PYTHONPATH": str(tree), "TMPDIR": str(temporary)}
    try:
        with running(tree, environment, output) as url, urlopen(f"{url}/healthz") as answer:  # noqa: S310
            found = json.load(answer)["extensions"]
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
    """Copy files and folders with their times, which tell that what was compiled of them is up to date."""
    target.mkdir()
    for name in COPIED:
        (shutil.copytree if (source / name).is_dir() else shutil.copy2)(source / name, target / name)


def check(deletion: Deletion, whole: Path) -> bool:
    """Check a copy of the whole tree after a deletion, and print the result."""
    began_at = time.monotonic()
    with TemporaryDirectory(prefix="without-") as folder:
        tree, output = Path(folder, "tree"), Path(folder, "output")
        copy(whole, tree)
        for name in deletion.deleted:
            shutil.rmtree(tree / EXTENSIONS / name)
            shutil.rmtree(tree / TESTS / name, ignore_errors=True)
        if not extensions(tree):
            shutil.rmtree(tree / EXTENSIONS)
        problem = problem_of(tree, deletion.tests, output)
        result = f"{'FAILED' if problem else 'ok':<6} {time.monotonic() - began_at:4.0f} s  {deletion.title}"
        if problem:
            last = output.read_text(errors="replace").splitlines()[-SHOWN_LINES:]
            result = "\n".join([f"{result}: {problem}", *last])
        print(result, flush=True)
        return not problem


if __name__ == "__main__":
    known = extensions(ROOT)
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(known)}")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count(), metavar="N", help="how many copies there are at once"
    )
    chosen = parser.parse_args()
    if unknown := set(chosen.names) - set(known):
        parser.error(f"there is no extension {', '.join(sorted(unknown))}")
    asked = [Deletion(f"without {name}", [name], [TESTS_OF_CORE, str(TESTS)]) for name in chosen.names]
    with TemporaryDirectory(prefix="without-") as folder, ThreadPoolExecutor(chosen.jobs) as pool:
        # Whatever changes in the tree meanwhile.
        copy(ROOT, whole := Path(folder, "tree"))
        are_well = list(pool.map(partial(check, whole=whole), asked or few_runs(known)))
    sys.exit(not all(are_well))
