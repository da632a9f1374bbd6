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
"""What is put in the place of what in a script of its own, and the word that a checker says of it."""

_FINDING = re.compile(r"^\s*\S*?(\w+)\.py:\d+:.*?error: (.*)$", re.MULTILINE)


def mypy(scripts, folder):
    return [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={folder}", *map(str, scripts)]


def pyright(scripts, folder):
    config = folder / "pyrightconfig.json"
    # No word of the package may be Any either.
    checked = {"include": list(map(str, scripts)), "typeCheckingMode": "strict", "reportAny": "error"}
    config.write_text(json.dumps(checked))
    # The wheel of this build of pyright brings all it needs.
    command = [sys.executable, "-m", "basedpyright", "--project", str(config)]
    return [*command, "--pythonpath", sys.executable, "--pythonversion", "3.11"]


@pytest.fixture(scope="module", params=[mypy, pyright], ids=lambda checker: checker.__name__)
def findings(request, tmp_path_factory):
    """What a checker says of the script, and of copies with a mistake each: by the name of the file, its findings."""
    folder = tmp_path_factory.mktemp("checked")
    for name, (right, wrong, _) in MISTAKES.items():
        assert SCRIPT.read_text().count(right) == 1
        (folder / f"wrong_{name}.py").write_text(SCRIPT.read_text().replace(right, wrong))
    # Not from the folder of the sources: the package is to be found where it is installed, as a user has it.
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
    """Of what needs no library without types: those are click's options and ipywidgets."""
    command = [sys.executable, "-m", "basedpyright", "--verifytypes", "mirror_sdk", "--ignoreexternal", "--outputjson"]
    # It looks for the package where the first Python of the path has it.
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
