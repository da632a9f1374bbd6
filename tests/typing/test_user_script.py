"""A user's own script passes strict type checking, with what the package tells of its types."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "user_script.py"


def mypy(script, folder):
    return [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={folder}", str(script)]


def pyright(script, folder):
    config = folder / "pyrightconfig.json"
    config.write_text(json.dumps({"include": [str(script)], "typeCheckingMode": "strict"}))
    # The wheel of this build of pyright brings all it needs.
    command = [sys.executable, "-m", "basedpyright", "--project", str(config)]
    return [*command, "--pythonpath", sys.executable, "--pythonversion", "3.11"]


def check(checker, script, folder):
    # Not from the folder of the sources: the package is to be found where it is installed, as a user has it.
    command = checker(script, folder)
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.parametrize("checker", [mypy, pyright])
def test_a_users_script_is_well_typed(checker, tmp_path):
    checked = check(checker, SCRIPT, tmp_path)
    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize("checker", [mypy, pyright])
def test_a_mistake_in_it_is_found(checker, tmp_path):
    wrong = tmp_path / "wrong.py"
    wrong.write_text(SCRIPT.read_text().replace("expiry_seconds=60", 'expiry_seconds="60"'))
    checked = check(checker, wrong, tmp_path)
    assert checked.returncode == 1
    assert "expiry_seconds" in checked.stdout
