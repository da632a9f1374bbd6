"""Builds ``mirror_sdk/widgets/ui/ui.js``, the one JavaScript file of the widgets and of the server's page.

It needs npm; an installation of the project does not. ``--check`` only checks that the file is up to date.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
UI = ROOT / "mirror_sdk" / "widgets" / "ui"
MADE = UI / "ui.js"
LICENSES = UI / "ui.LICENSE.txt"
LIBRARIES = ("ag-grid-community", "ag-stack", "preact", "@preact/signals", "@preact/signals-core", "uplot")
_SETTINGS = ("package.json", "package-lock.json", "tsconfig.json")


def banner() -> str:
    """Return the first line of the file, with a digest of its sources."""
    sources = [UI / name for name in _SETTINGS] + sorted(UI.glob("*.css"))
    sources += sorted(path for path in (UI / "src").rglob("*") if path.suffix in {".ts", ".tsx"})
    digest = hashlib.sha256()
    for source in sources:
        digest.update(source.relative_to(UI).as_posix().encode() + b"\0" + source.read_bytes() + b"\0")
    return f"/* Made by .ci/make_ui.py from sources {digest.hexdigest()}. Libraries: see ui.LICENSE.txt. */"


def is_current() -> bool:
    """Return whether the file was built from the current sources."""
    if not MADE.exists():
        return False
    with MADE.open(encoding="utf-8") as made:
        return made.readline().rstrip("\n") == banner()


def make() -> None:
    """Install the libraries, check the types, and build the file."""
    installed = UI / "node_modules" / ".package-lock.json"
    if not installed.exists() or installed.stat().st_mtime < (UI / "package-lock.json").stat().st_mtime:
        _run("npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts")
    _run("npx", "tsc")
    inputs = ["src/main.ts", "--bundle", "--minify", "--format=esm", "--target=es2022", "--loader:.css=text"]
    outputs = ["--charset=utf8", "--legal-comments=none", f"--banner:js={banner()}", f"--outfile={MADE}"]
    _run("npx", "esbuild", "--log-level=warning", *inputs, *outputs)
    LICENSES.write_text("\n\n".join(_license(name) for name in LIBRARIES), encoding="utf-8")


def _run(*command: str) -> None:
    subprocess.run(command, cwd=UI, check=True)


def _license(library: str) -> str:
    folder = UI / "node_modules" / library
    terms = next((path for path in sorted(folder.glob("LICENSE*")) if path.is_file()), None)
    # ag-stack has no file of its own; it is a part of AG Grid.
    return f"{library}\n\n{'See ag-grid-community.' if terms is None else terms.read_text(encoding='utf-8').strip()}\n"


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only check whether the file is up to date")
    if not parser.parse_args().check:
        make()
    elif not is_current():
        print("ui.js was not built from the current sources: run python .ci/make_ui.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
