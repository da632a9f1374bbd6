"""Every benchmark runs with tiny sizes. This takes a minute of CPU time."""

import json
import os
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
TINY = (
    "--rounds 1 --seconds 0.1 --connections 2 --devices 5 --resources 3 --in-flight 4 --batch 5 --polls 20"
    " --events 3 --calls 3 --growth 5,10 --log-entries 20 --rules 10 --registrations 10 --fleet 10 --loop-devices 5"
    " --log-rate 400 --log-seconds 4 --flood-mib 1 --deaf 2 --coap-devices 5 --coap-registrations 10"
    " --widget-devices 12 --points 20 --widget-runs 2"
)
FIGURES = {
    "device_object": 5,
    "observation": 5,
    "read_value": 2,
    "polls": 6,
    "fleet": 9,
    "growth": 41,
    "full_log": 15,
    "history": 10,
    "processes": 9,
    "import_time": 5,
    "loop_holds": 11,
    "malicious": 8,
    "widgets": 13,
}
"""The number of figures of each benchmark."""
if find_spec("aiocoap"):  # speaks CoAP: needs the extra lwm2m
    FIGURES["real_devices"] = 7


def test_every_benchmark_gives_its_figures(tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    command = [sys.executable, str(BENCHMARKS), *TINY.split(), "--json", str(result), *FIGURES]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MIRROR_")}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    results = json.loads(result.read_text())
    assert results["machine"]["client_cores"]
    assert results["missing"] == {}
    assert Counter(figure["benchmark"] for figure in results["figures"]) == FIGURES
    for figure in results["figures"]:
        none_is_lost = figure["goal"] == "<= 0"
        assert none_is_lost or figure["value"] > 0, figure
        assert (figure["met"] is None) == (figure["goal"] is None)
        assert f"{figure['benchmark']}: {figure['what']}: " in ended.stdout
