"""The command ``mirror-benchmarks``, which measures the performance of a mirror on this machine."""

import runpy
import sys
from pathlib import Path

_INSTALLED = Path(__file__).parent.parent / "_benchmarks"
_CHECKOUT = Path(__file__).parents[2] / "tests" / "benchmarks"


def main() -> None:
    """Run the benchmarks of the package, or the benchmarks of the checkout from which it is installed.

    Raises:
        SystemExit: The benchmarks ended, a package is not installed, or the operating system is not Linux.
    """
    if sys.platform != "linux":
        sys.exit("mirror-benchmarks gives each process its own cores, which needs Linux")
    try:
        runpy.run_path(str(_INSTALLED if _INSTALLED.is_dir() else _CHECKOUT), run_name="__main__")
    except ModuleNotFoundError as error:
        sys.exit(f"mirror-benchmarks needs {error.name}: pip install 'device-state-mirror[test]'")
