"""``mirror lab`` as a process."""

import re
import subprocess
import sys
from pathlib import Path

from process_server import child_environment, wait_until

ADDRESS = re.compile(r"(http://127\.0\.0\.1:\d+)/lab/tree/(\S+)\?token=(\w+)")
MIRROR = re.compile(r"Mirror with 3 simulated devices: (\S+)")


class Lab:
    """A running ``mirror lab``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.output_path = folder / "output.txt"
        program = "from mirror_sdk.cli import main; main()"
        command = [sys.executable, "-c", program, "lab", "--no-browser", "--devices=3"]
        with self.output_path.open("wb") as output:
            self.process = subprocess.Popen(
                command,
                cwd=folder,
                env=child_environment(JUPYTER_RUNTIME_DIR=str(folder / "runtime")),
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def find(self, pattern: re.Pattern[str]) -> re.Match[str]:
        found: re.Match[str] = wait_until(
            lambda: pattern.search(self.output_path.read_text()), f"{pattern.pattern} in the output", 60
        )
        return found

    def close(self) -> None:
        """Stop it, and with it server and kernels."""
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait(40)
