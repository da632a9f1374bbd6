"""Builds ``mirror_sdk/widgets/grid.js`` from ``.ci/grid``: AG Grid and the code that uses it, in one file.

It needs npm; an installation of the project does not. ``--check`` only checks that the file is up to date.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / ".ci" / "grid"
MADE = ROOT / "mirror_sdk" / "widgets" / "grid.js"


def banner() -> str:
    """Return the first line of the file, with a digest of its sources and the copyright of AG Grid."""
    content = b"".join((SOURCES / name).read_bytes() for name in ("grid.mjs", "package.json", "package-lock.json"))
    digest = hashlib.sha256(content).hexdigest()
    return f"/* Made by .ci/make_grid.py of sources {digest}. Holds AG Grid Community, MIT, (c) AG GRID LTD. */"


def is_current() -> bool:
    """Return whether the file was built from the current sources."""
    with MADE.open(encoding="utf-8") as made:
        return made.readline().rstrip("\n") == banner()


def make() -> None:
    """Make it."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(SOURCES, folder, dirs_exist_ok=True)
        subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"], cwd=folder, check=True)
        command = ["npx", "esbuild", "grid.mjs", "--bundle", "--minify", "--format=esm", "--target=es2022"]
        options = ["--charset=utf8", "--legal-comments=none", f"--banner:js={banner()}", f"--outfile={MADE}"]
        subprocess.run([*command, *options], cwd=folder, check=True)
        terms = Path(folder, "node_modules", "ag-grid-community", "LICENSE.txt")
        shutil.copyfile(terms, MADE.with_name("grid.LICENSE.txt"))


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only check whether the file is up to date")
    if not parser.parse_args().check:
        make()
    elif not is_current():
        print("grid.js is not made of the present .ci/grid: run python .ci/make_grid.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
