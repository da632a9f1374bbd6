"""The packages report their version from any installation."""

import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import mirror_sdk
import mirror_server

PRINT_VERSIONS = "import mirror_sdk, mirror_server; print(mirror_sdk.__version__, mirror_server.__version__)"


def test_bare_sources_say_that_they_have_no_version(tmp_path):
    for package in (mirror_sdk, mirror_server):
        folder = Path(package.__file__).parent
        (tmp_path / folder.name).mkdir()
        shutil.copy(folder / "__init__.py", tmp_path / folder.name)
    # Without the packages that are installed here.
    command = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {PRINT_VERSIONS}"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert run.stdout == "0+unknown 0+unknown\n", run.stderr


def test_the_version_is_that_of_the_installed_distribution_and_read_on_request():
    program = f"import sys, mirror_sdk, mirror_server; print('importlib.metadata' in sys.modules); {PRINT_VERSIONS}"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    version = metadata.version("device-state-mirror")
    assert run.stdout == f"False\n{version} {version}\n"
