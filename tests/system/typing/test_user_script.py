"""A user script passes strict type checking with the types of the package, and mistakes do not."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "user_script.py"

MISTAKES = {
    "argument": ("expiry_seconds=60", 'expiry_seconds="60"', "expiry_seconds"),
    "import": ("    DeviceRequest,", "    DeviceReqest,", "DeviceReqest"),
    "import_of_tables": ("import drift_frame", "import drift_frme as drift_frame", "drift_frme"),
    "import_of_widgets": ("import Explorer", "import Explorr as Explorer", "Explorr"),
    "import_of_testing": ("import Fault,", "import Falt as Fault,", "Falt"),
    "attribute": ("mirror_sdk.__version__", "mirror_sdk.__versoin__", "__versoin__"),
    "accessor": ("mirror(state).drift(", "mirror(state).drif(", "drif"),
    "argument_of_accessor": ("relative=0.1", "realtive=0.1", "realtive"),
}
"""Replacements that make a mistake in a copy of the script, and a word of the expected message."""

_FINDING = re.compile(r"^\s*\S*?(\w+)\.py:\d+:.*?error: (.*)$", re.MULTILINE)


def mypy(scripts, folder):
    return [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={folder}", *map(str, scripts)]


def pyright(scripts, folder):
    config = folder / "pyrightconfig.json"
    # No expression of the package may be Any either.
    checked = {"include": list(map(str, scripts)), "typeCheckingMode": "strict", "reportAny": "error"}
    config.write_text(json.dumps(checked))
    # The wheel of this build of pyright includes all dependencies.
    command = [sys.executable, "-m", "basedpyright", "--project", str(config)]
    return [*command, "--pythonpath", sys.executable, "--pythonversion", "3.11"]


@pytest.fixture(scope="module", params=[mypy, pyright], ids=lambda checker: checker.__name__)
def findings(request, tmp_path_factory):
    """Return the findings of a checker for the script and for copies with one mistake each, by file name."""
    folder = tmp_path_factory.mktemp("checked")
    for name, (right, wrong, _) in MISTAKES.items():
        assert SCRIPT.read_text().count(right) == 1
        (folder / f"wrong_{name}.py").write_text(SCRIPT.read_text().replace(right, wrong))
    # Not from the source folder, because the package must be found where it is installed, as for a user.
    command = request.param([SCRIPT, *folder.glob("*.py")], folder)
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 1, run.stdout + run.stderr
    found = {}
    for name, words in _FINDING.findall(run.stdout):
        found.setdefault(name, []).append(words)
    return found


def test_a_users_script_is_well_typed(findings):
    assert findings.get(SCRIPT.stem, []) == []


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_it_is_found(findings, mistake):
    *_, word = MISTAKES[mistake]
    assert any(word in words for words in findings[f"wrong_{mistake}"]), findings[f"wrong_{mistake}"]


def test_all_that_the_package_exports_has_a_type(tmp_path):
    """Libraries without types are exempt: click's options and ipywidgets."""
    command = [sys.executable, "-m", "basedpyright", "--verifytypes", "mirror_sdk", "--ignoreexternal", "--outputjson"]
    # The checker looks for the package in the environment of the first Python on the path.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    run = subprocess.run(
        command,
        cwd=tmp_path,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    symbols = json.loads(run.stdout)["typeCompleteness"]["symbols"]
    untyped = [symbol["name"] for symbol in symbols if not symbol["isTypeKnown"] or symbol["isTypeAmbiguous"]]
    assert len(symbols) > 2000
    assert [name for name in untyped if not name.startswith(("mirror_sdk.cli.", "mirror_sdk.widgets."))] == []
