"""Make a release: ``python .ci/release.py 0.2.0``. ``--dry-run`` builds and checks everything and keeps nothing.

The script works in a copy of the last commit. It writes version and date, builds the reference, and
builds wheel and sdist, checks them and installs the wheel in an empty environment. Then it creates the commit and its
tag here, copies both files to ``dist``, and prints the two commands that publish them.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from shutil import copy2
from tempfile import TemporaryDirectory
from venv import create

ROOT = Path(__file__).parent.parent
WRITTEN = ("pyproject.toml", "CHANGELOG.md")
HEADINGS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
SHIPPED = (
    "mirror_sdk/py.typed",
    "mirror_sdk/manual/client.md",
    "mirror_sdk/_benchmarks/__main__.py",
    "mirror_sdk/_benchmarks/databases.py",
    "mirror_server/py.typed",
    "mirror_server/manual/operate.md",
    "mirror_server/extensions/history/manual/history.md",
    "mirror_server/extensions/page/built/index.html",
    "mirror_server/extensions/page/built/searchindex.js",
    "mirror_server/extensions/page/built/_static/styles/furo.css",
)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("version", nargs="?", help="three numbers, for example 0.2.0; optional in a dry run")
    parser.add_argument("--dry-run", action="store_true", help="keep nothing")
    arguments = parser.parse_args()
    version = arguments.version or (_next_version() if arguments.dry_run else parser.error("VERSION is missing"))
    if not arguments.dry_run and _output_of("git", "status", "--porcelain"):
        sys.exit("there are uncommitted changes; commit them first")
    if arguments.version and _output_of("git", "tag", "--list", f"v{version}"):
        sys.exit(f"the tag v{version} exists; choose the next version")
    with TemporaryDirectory() as folder:
        copy = Path(folder) / "tree"
        _run("git", "clone", "--quiet", "--no-tags", str(ROOT), str(copy))
        prepare(copy, version, datetime.now(UTC).date().isoformat())
        built = build(copy, Path(folder) / "doctrees")
        check(built, version, Path(folder) / "empty")
        if not arguments.dry_run:
            _keep(copy, built, version)
    state = "can be released" if arguments.dry_run else "is made"
    print(f"{version} {state}: {', '.join(file.name for file in built)}")


def prepare(tree: Path, version: str, date: str) -> None:
    """Write the version and the date into the files that contain them.

    Raises:
        SystemExit: The version is not above the last one, or the changelog has nothing under Unreleased.
    """
    project, changes = (tree / name for name in WRITTEN)
    text = project.read_text(encoding="utf-8")
    last = tomllib.loads(text)["project"]["version"]
    is_first = f"## [{last}]" not in changes.read_text(encoding="utf-8")
    if _numbers(version) < _numbers(last) or (version == last and not is_first):
        sys.exit(f"{version} is not above {last}")
    project.write_text(text.replace(f'\nversion = "{last}"\n', f'\nversion = "{version}"\n', 1), encoding="utf-8")
    changes.write_text(dated(changes.read_text(encoding="utf-8"), version, date), encoding="utf-8")


def dated(changelog: str, version: str, date: str) -> str:
    """Return the changelog with its unreleased changes under a version and date, and a new empty section.

    Raises:
        SystemExit: Nothing is unreleased, or a heading is not one of Keep a Changelog.
    """
    before, heading, rest = changelog.partition("## [Unreleased]\n")
    section = rest.partition("\n## [")[0]
    if not heading or not re.search(r"^- ", section, re.MULTILINE):
        sys.exit("CHANGELOG.md has nothing under Unreleased")
    if odd := set(re.findall(r"^### (.*)$", section, re.MULTILINE)) - HEADINGS:
        sys.exit(f"CHANGELOG.md: {', '.join(sorted(odd))} is not one of {', '.join(sorted(HEADINGS))}")
    return f"{before}{heading}\n## [{version}] - {date}\n{rest}"


def build(tree: Path, doctrees: Path) -> list[Path]:
    """Build the reference, then the wheel and the sdist that contain it."""
    pages = (".ci/reference", "mirror_server/extensions/page/built")
    _run(sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-E", "-d", str(doctrees), *pages, folder=tree)
    _run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-t", "wheel", folder=tree)
    return sorted((tree / "dist").iterdir())


def check(built: Sequence[Path], version: str, empty: Path) -> None:
    """Check the metadata as the index does, and the wheel in an empty environment."""
    _run(sys.executable, "-m", "twine", "check", "--strict", *map(str, built))
    create(empty, with_pip=True)
    commands = empty / "bin"
    wheel = next(file for file in built if file.suffix == ".whl")
    # These commands run outside the tree, so they see only the environment.
    _run(str(commands / "pip"), "install", "--quiet", "--constraint", str(ROOT / ".ci/constraints.txt"), str(wheel))
    assertion = f"assert mirror_sdk.__version__ == {version!r} and mirror_sdk.examples.list_notebooks()"
    _run(str(commands / "python"), "-c", f"import mirror_sdk.examples; {assertion}", folder=empty)
    _run(str(commands / "mirror"), "--version", folder=empty)
    for command in ("mirror-server", "mirror-device"):
        _run(str(commands / command), "--help", folder=empty)
    packages = next((empty / "lib").glob("python*")) / "site-packages"
    if missing := [name for name in SHIPPED if not (packages / name).is_file()]:
        sys.exit(f"{wheel.name} lacks {', '.join(missing)}")
    if not list(packages.glob("device_state_mirror-*.dist-info/licenses/LICENSE")):
        sys.exit(f"{wheel.name} lacks its license")


def _keep(copy: Path, built: Sequence[Path], version: str) -> None:
    for name in WRITTEN:
        copy2(copy / name, ROOT / name)
    (ROOT / "dist").mkdir(exist_ok=True)
    for file in built:
        copy2(file, ROOT / "dist")
    _run("git", "commit", "--quiet", "--message", f"Version {version}", "--", *WRITTEN)
    _run("git", "tag", "--annotate", f"v{version}", "--message", f"Version {version}")
    print("git push --follow-tags", f"twine upload {' '.join(f'dist/{file.name}' for file in built)}", sep="\n")


def _next_version() -> str:
    last = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    major, minor, _ = _numbers(last)
    return f"{major}.{minor + 1}.0"


def _numbers(version: str) -> tuple[int, ...]:
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        sys.exit(f"{version!r} is not a version of three numbers, for example 0.2.0")
    return tuple(map(int, version.split(".")))


def _run(*command: str, folder: Path = ROOT) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if subprocess.run(command, cwd=folder, env=environment, check=False).returncode:
        sys.exit(f"no release: {shlex.join(command)} failed")


def _output_of(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    main()
