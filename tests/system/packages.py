"""Debian's packages that tests/system needs. ``python3 tests/system/packages.py`` prints those that are missing."""

import importlib.util
import os
import shutil
import sysconfig
from pathlib import Path

PROGRAMS = {
    "chromium": ["chromium", "fonts-dejavu-core"],
    "git": ["git"],
    "initdb": ["postgresql"],
    "node": ["nodejs"],
    "npm": ["npm"],
    "openssl": ["openssl"],
    "pgbouncer": ["pgbouncer"],
}
BUILD_PROGRAMS = {
    "autoconf": ["autoconf"],
    "automake": ["automake"],
    "gcc": ["gcc", "libc6-dev"],
    "make": ["make"],
}
"""Packages that DTLSSocket needs for its build, since it has no wheels."""


def missing() -> list[str]:
    """Return the names of the missing packages."""
    programs = PROGRAMS if importlib.util.find_spec("DTLSSocket") else PROGRAMS | BUILD_PROGRAMS
    # Debian has servers in separate folders.
    path = os.pathsep.join([os.environ["PATH"], "/usr/sbin", *map(str, Path("/usr/lib/postgresql").glob("*/bin"))])
    found = [name for program, names in programs.items() if not shutil.which(program, path=path) for name in names]
    has_headers = (Path(sysconfig.get_path("include")) / "Python.h").exists()
    return found if programs is PROGRAMS or has_headers else [*found, "python3-dev"]


if __name__ == "__main__":
    print(*missing())
