"""Every notebook gives its stored outputs to the letter on a fresh mirror, and runs on a mirror that others used."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from process_server import ROOT, ServerProcess, child_environment

from mirror_sdk import examples
from mirror_sdk.lab.demo import DemoServer

pytestmark = [pytest.mark.process, pytest.mark.notebook]

Run: TypeAlias = Callable[[Path, Mapping[str, str], int], list[dict[str, Any]]]

WITH_COAP = find_spec("aiocoap") is not None
NOTEBOOKS = [path for path in sorted((ROOT / "notebooks").glob("*.ipynb")) if WITH_COAP or path.stem[:2] != "08"]
"""Without aiocoap the one on real devices says what to install, and nothing else."""
BACKEND = "module://matplotlib_inline.backend_inline"
AS_STORED, WIDE = 80, 1000
TOLD = {
    "00_tour": {
        "cell-02": r"it is now 08:",
        "cell-07": r"desired=<DesiredValue 40 SUCCESS",
        "cell-09": r"1 to write, 1 refused; nothing was sent.*from 0 to 100, not 140",
        "cell-13": r"it is now 20:",
    },
    "01_first_steps": {
        "cell-18": r"done: False.*75 PENDING",
        "cell-20": r"75 SUCCESS",
        "cell-22": r"METHOD_NOT_ALLOWED.*desired=<DesiredValue 30.0 FAILURE",
        "cell-25": r"(\S+ /3303/0/5700 -?[0-9.]+\n){4}",
        "cell-27": r"(thermometer-0[12].*){2}(thermostat-0[12].*){2}(weather-station-0[12].*){2}",
        "cell-32": r"weather-station-01  /3303/0/5700",
        "cell-34": r"\[\]",
    },
    "02_a_fleet_as_a_frame": {
        "cell-06": r" 13 devices",
        "cell-15": r"endpoint_name +\n?imported-01 +68.5  Far",
        "cell-25": r"age_minutes\s+endpoint_name\s+thermometer-02 [^\n]+\nimported-01 [^\n]+\s+$",
        "cell-27": r"68.5",
        "cell-32": r"light-01  /3311/0/5851 +40.0 +90.0  reverted.*light-02  /3311/0/5851 +40.0 +91.0   pending",
        "cell-35": r"the same table: True",
    },
    "03_writing_safely": {
        "cell-06": r"9 to write, 4 refused; 2 devices sleep",
        "cell-12": r"sent: 1 failure; stopped.*queued +9",
        "cell-14": r"sent: 1 failure, 1 success; stopped",
        "cell-16": r"thermostat-02 +91.0  failure  BAD_VALUE",
        "cell-18": r"9 to write, 1 to skip; sent: 2 pending, 7 success",
        "cell-20": r"sent: 9 success",
        "cell-25": r"9 to write; sent: 9 success.*1 to write; sent: 1 success",
        "cell-27": r"10 of 10 devices have their old set point",
    },
    "04_watching_events": {
        "cell-04": r"smart-plug-01 (9\d|1\d\d)\.\d W at",
        "cell-08": r"complete: True",
        "cell-12": r"door-contact-01 .*door-contact-02 ",
        "cell-20": r"complete: False\nmissing \d+ to \d+: the log had dropped them\n$",
        "cell-22": r"complete: False.* gap ",
    },
    "05_inside_an_app": {
        "cell-04": r"^(smart-plug-0[12] [0-9.]+ W now\n){2}(smart-plug-0[12] [0-9.]+ W at [^\n]+\n){4,6}$",
        "cell-06": r"403\nrefused: 1 ",
        "cell-09": r"a stranger: 403\nthe mirror: 204",
        "cell-14": r"answered at once: False\nanswered after 20 minutes: \d",
        "cell-17": r"door (open|closed), light follows",
        "cell-19": r"door open: (\w+) \| light wanted: \1 SUCCESS",
        "cell-21": r"(the rule lives; light on: SUCCESS\n.*){3}the light refuses: the rule died of WriteRejected",
        "cell-23": r"(the rule lives; light on: SUCCESS\n.*){3}the light refuses: the rule lives; light on: FAILURE",
    },
    "06_an_investigation": {
        "cell-06": r"14 of 24 rooms do not follow",
        "cell-11": r"(room-\d+ [^\n]+\n){13}room-\d+ ",
        "cell-15": r"1.3.9 +4 +0 +0 +0\n1.4.2 +0 +10 +5 +1",
        "cell-17": r"REJECTED",
        "cell-19": r"(room-\d+ +22\.0 [-0-9]+ 07:00:0\d[^\n]+\s+(\d  )?){5}$",
        "cell-21": r"0 +4 +10 +0 +1\n1 +0 +0 +5 +0",
        "cell-25": r"1.3.9 refuses +4 .*not connected +4 .*its own program +5 .*decimal comma +1 ",
        "cell-28": r"18 to write; sent: 18 success",
        "cell-30": r"1 of 24 rooms do not follow.*room-301  type_mismatch",
        "cell-32": r"recording complete: True",
    },
    "07_more_than_memory": {
        "cell-04": r"120 devices",
        "cell-06": r"6 partitions",
        "cell-10": r"Freezer +40 .*Fridge +40 .*ColdRoom +40 +\S+ +\S+ +[1-9]",
        "cell-12": r"coldroom-007.*coldroom-023.*freezer-007.*freezer-023.*fridge-007.*fridge-023 [^\n]+\s+$",
        "cell-14": r"fridge-015 +failed +3.0 .*fridge-030  reverted +3.0 ",
        "cell-16": r"240 rows of 120 devices",
        "cell-18": r"same columns and types: True",
    },
    "08_real_devices": {
        "cell-06": r"my-station +LwM2M 1.1 over CoAP +U +600 .*my-thermometer +LwM2M 1.0 over CoAP +UQ +86400 ",
        "cell-08": r"'my-station', 'my-thermometer', 'my-thermostat'",
        "cell-10": r"by LwM2M 1.1 over CoAP: a read brought it.*refused: BAD_VALUE\nreads: 19.5",
        "cell-12": r"my-station 2.5 observation\nmy-station 3.0 observation",
        "cell-14": r"TIMEOUT.*ReportedValue 3.0 at 2026-01-05T08:00:00.000Z",
        "cell-16": r"done: False\n.*'my-station': 'deregistered'",
        "cell-18": r"read: 3.0\nobserved again: 3.0",
        "cell-20": r"expired .*registration .*observation +/3303/0/5700 +3.0 .*async_response +/3303/0/5700 +3.0 ",
        "cell-22": r"done: False\nGET /3303/0/5700 waiting.*my-thermometer +UQ 2026-01-05 08:00:00\+00:00 +False",
        "cell-24": r"read: 18.5.*my-thermometer +UQ 2026-01-05 08:18:00\+00:00 +True",
        "cell-26": r"my-station [^\n]* 3.0 .*my-thermometer [^\n]* 18.5 .*my-thermostat [^\n]* 19.5 [^\n]* failure",
        "cell-28": r"{'deregistered'}",
    },
    "09_what_happened": {
        "cell-04": r"^all is known since 20[-0-9T:.]+Z\n$",
        "cell-06": r"It is Wednesday, 10:",
        "cell-08": r"complete: True.*desired +write +5\n.*deregistration +NaN +1\n.*expired +NaN +1",
        "cell-11": r"(office-(03|04|05|06|08|12) 0 days 0[1-6]:[^\n]+ 1 days\s+){6}$",
        "cell-15": r"office-07 +deregistration .* 09:30.*office-11 +silent .* 08:00.*office-11 +expired .* 18:",
        "cell-18": r"duration +lasting\s+room\s+office-09 +21.0 [^\n]* 2 days [^\n]* True\s+$",
        "cell-20": r"before .* 11:30.* desired +write +25.0 +success .*after .* 15:00.* failure +REJECTED\s+$",
        "cell-22": r"office-02 .*22.5 +the wheel\n(office-(03|05|08|12) .* 25.0 +a write\s+){4}$",
        "cell-24": r"(office-\d\d +(19\.5|20\.[05]) +21\.0\s+){12}$",
        "cell-26": r"office-02 +21.0 +22.5 .*(office-(03|05|08|12) +21.0 +25.0 [^\n]+\s+){4}$",
        "cell-28": r"(office-(03|05|08|12) +25.0 +21.0 +write\s+){4}$",
        "cell-30": r"sent: 1 failure, 3 success.*office-08 +17.0 +21.0 +refuse +changed\n",
        "cell-32": r"reported_num_monday +reported_num\s+room\s+office-02 +21.0 +22.5\noffice-08 +21.0 +17.0\s+$",
        "cell-34": r"rows; the same table: True",
    },
}
"""What the prose beside a cell says of its output, also where the numbers are those of another day."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Runs a notebook in an environment, with printed tables so wide; gives its cells, by the program notebook_runs."""
    folder = tmp_path_factory.mktemp("notebooks")
    command = [sys.executable, str(Path(__file__).with_name("notebook_runs.py"))]
    environment = child_environment(IPYTHONDIR=str(folder), MPLBACKEND=BACKEND)
    with subprocess.Popen(
        command, env=environment, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:

        def run(notebook: Path, environment: Mapping[str, str], width: int) -> list[dict[str, Any]]:
            assert program.stdin is not None
            assert program.stdout is not None
            request = {"notebook": str(notebook), "environment": dict(environment), "width": width}
            program.stdin.write(json.dumps(request) + "\n")
            program.stdin.flush()
            cells: list[dict[str, Any]] = json.loads(program.stdout.readline())
            return cells

        yield run


def stored(cell: Mapping[str, Any]) -> dict[str, Any]:
    """What a notebook has in its file of a cell's outputs, as the program tells it; images are left out."""
    shown: dict[str, list[str]] = {}
    for output in cell["outputs"]:
        for kind, lines in output.get("data", {}).items():
            if kind.startswith("text/"):
                shown.setdefault(kind, []).append("".join(lines))
    written = ["".join(output["text"]) for output in cell["outputs"] if output["output_type"] == "stream"]
    return {"id": cell["id"], "stdout": "".join(written), "stderr": "", "shown": shown, "error": "''"}


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_gives_its_stored_outputs(run: Run, notebook: Path, demo_environment: dict[str, str]) -> None:
    code = [cell for cell in json.loads(notebook.read_text())["cells"] if cell["cell_type"] == "code"]
    for cell, ran in zip(code, run(notebook, demo_environment, AS_STORED), strict=True):
        if "nbval-ignore-output" in cell["metadata"].get("tags", []):
            assert (ran["stderr"], ran["error"]) == ("", "''")
        else:
            assert ran == stored(cell)


def test_no_notebook_minds_what_ran_before(run: Run) -> None:
    """Backwards on one mirror, as that of ``mirror lab``: no error, no warning, and the prose is true."""
    server = DemoServer()
    try:
        for notebook in reversed(NOTEBOOKS):
            outputs = {}
            for cell in run(notebook, server.environment, WIDE):
                assert (cell["error"], cell["stderr"]) == ("''", ""), f"{notebook.stem}, {cell['id']}"
                outputs[cell["id"]] = "\n".join([cell["stdout"], *cell["shown"].get("text/plain", []), ""])
            for cell_id, told in TOLD[notebook.stem].items():
                assert re.search(told, outputs[cell_id], re.DOTALL), f"{notebook.stem}: {outputs[cell_id]}"
    finally:
        server.close()


def test_where_no_history_is_kept_the_notebook_that_needs_one_says_who_can_change_that(
    run: Run, start_server: Callable[..., ServerProcess], tmp_path: Path
) -> None:
    notebook = json.loads((ROOT / "notebooks" / "09_what_happened.ipynb").read_text())
    short = tmp_path / "short.ipynb"
    short.write_text(json.dumps({**notebook, "cells": notebook["cells"][:5]}))
    plain = start_server("--simulate", "1", "--clock", "manual")
    first, asked = run(short, {"API_HOST": plain.url, "API_KEY": plain.key()}, WIDE)
    assert first["error"] == "''"
    assert "NoHistory" in asked["error"]
    assert "its operator may switch it on with --keep-history" in asked["error"]
    assert "`NoHistory`" in "".join(notebook["cells"][4]["source"])


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_output_is_compared_but_that_of_a_widget(notebook: Path) -> None:
    cells = json.loads(notebook.read_text())["cells"]
    marked = [cell for cell in cells if cell["metadata"].get("tags")]
    assert {tag for cell in marked for tag in cell["metadata"]["tags"]} <= {"nbval-ignore-output"}
    for cell in marked:
        assert "from mirror_sdk.widgets import" in "".join(cell["source"])
        (copy,) = cell["outputs"]
        assert '<div class="mirror-copy">' in "".join(copy["data"]["text/html"])


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_what_is_stored_tells_nothing_of_the_machine(notebook: Path) -> None:
    stored = json.dumps([cell.get("outputs", []) for cell in json.loads(notebook.read_text())["cells"]])
    assert re.findall(r"/(?:tmp|home|root|opt|work|Users)/|127\.0\.0\.1|ak_[0-9a-f]{16}", stored) == []


def test_the_notebooks_of_the_package_are_copied_once_and_never_over_the_users_own(tmp_path: Path) -> None:
    first = examples.copy(tmp_path / "notebooks")
    assert [path.name for path in first] == [path.name for path in examples.list_notebooks()]
    assert [path.name.partition("_")[0] for path in first] == [f"{number:02}" for number in range(10)]
    first[0].write_text("mine")
    assert examples.copy(tmp_path / "notebooks")[0].read_text() == "mine"
