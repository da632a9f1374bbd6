"""A user's own script passes strict type checking, with what the package tells of its types."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "user_script.py"


CHECKERS = ["mypy", "pyright"]


def mypy(scripts, folder):
    return [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={folder}", *map(str, scripts)]


def pyright(scripts, folder):
    config = folder / "pyrightconfig.json"
    config.write_text(json.dumps({"include": list(map(str, scripts)), "typeCheckingMode": "strict"}))
    # The wheel of this build of pyright brings all it needs.
    command = [sys.executable, "-m", "basedpyright", "--project", str(config)]
    return [*command, "--pythonpath", sys.executable, "--pythonversion", "3.11"]


@pytest.fixture(scope="module", params=[mypy, pyright], ids=CHECKERS)
def findings(request, tmp_path_factory):
    """What a checker says of the script and of one with a mistake: each line names its file."""
    folder = tmp_path_factory.mktemp("checked")
    wrong = folder / "wrong.py"
    wrong.write_text(SCRIPT.read_text().replace("expiry_seconds=60", 'expiry_seconds="60"'))
    # Not from the folder of the sources: the package is to be found where it is installed, as a user has it.
    command = request.param([SCRIPT, wrong], folder)
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)


def test_a_users_script_is_well_typed(findings):
    assert SCRIPT.name not in findings.stdout, findings.stdout


def test_a_mistake_in_it_is_found(findings):
    assert findings.returncode == 1, findings.stdout + findings.stderr
    (told,) = re.findall(r"^.*wrong\.py:.*error.*$", findings.stdout, re.MULTILINE)
    assert "expiry_seconds" in findings.stdout
    assert told
