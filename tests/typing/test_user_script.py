"""A user's own script passes strict type checking, with what the package tells of its types."""

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parent / "user_script.py"


def check(script, tmp_path):
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={tmp_path}", str(script)]
    # Not from the folder of the sources: the package is to be found where it is installed, as a user has it.
    return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)


def test_a_users_script_is_well_typed(tmp_path):
    checked = check(SCRIPT, tmp_path)
    assert checked.returncode == 0, checked.stdout


def test_a_mistake_in_it_is_found(tmp_path):
    wrong = tmp_path / "wrong.py"
    wrong.write_text(SCRIPT.read_text().replace("expiry_seconds=60", 'expiry_seconds="60"'))
    checked = check(wrong, tmp_path)
    assert checked.returncode == 1
    assert "expiry_seconds" in checked.stdout
