"""Every benchmark still runs, with tiny sizes, and a soak. It takes a minute of a processor."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytestmark = pytest.mark.process

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
TINY = (
    "--rounds 1 --seconds 0.1 --connections 2 --devices 5 --resources 3 --in-flight 4 --batch 5 --polls 20"
    " --events 3 --calls 3 --growth 5,10 --log-entries 20 --rules 10 --registrations 10 --fleet 10 --loop-devices 5"
    " --flood-mib 1 --deaf 2 --coap-devices 5 --coap-registrations 10"
)
FIGURES = {
    "device_object": ["E1 / hello", "E1 / under waitress, two cores"],
    "observation": [
        "observation / hello",
        "batches of 5 / executemany",
        "p99 until on disk, 4 in flight / bare request",
        "longest until on disk, 4 in flight / bare request",
        "WAL at most",
    ],
    "read_value": [
        "read_value / GET of the device object with httpx",
        "read_value / GET of the device object with httpx, a core each",
    ],
    "polls": [
        "event -> held poll, p50 / hello request",
        "event -> held poll, p99 / hello request",
        "memory of each of 20 held polls",
        "one event to all 20 polls / bare request",
        "one event to all 10 websockets / bare request",
    ],
    "growth": [
        "E1 at 5 / 10 devices",
        "write at 5 / 10 devices",
        "page at 2 / 20 log entries",
        "registration of 900 links, 10 / 0 rules",
        "applied to a device, 10 / 1 rules",
        "longest write while rules are applied",
    ],
    "fleet": [
        "naive loop / snapshot, cold",
        "memory of a dataset's writer, three times the fleet / the fleet",
        "snapshot, held / the same bytes from a file",
        "memory of the client, arrow / pandas",
        "snapshot, held: arrow / pandas",
        "snapshot, held: polars / pandas",
    ],
    "history": [
        "observation with history / without",
        "a row in the table",
        "1,500 rows into Arrow, archived",
        "a row in the archive",
        "the fleet as of the day's end / a snapshot",
        "E1 while the history is read / without",
    ],
    "processes": ["E1, PostgreSQL / SQLite, one process each", "E1, 4 processes / 1", "write, 2 processes / 1"],
    "import_time": [
        "from mirror_sdk import MirrorClient",
        "the same, and the first client",
        "CPU of mirror-server --help / import click, rich",
        "CPU until a server on a known file is ready / import flask, uvicorn, pydantic",
    ],
    "hostile": [
        "1 MiB of headers without a key: memory",
        "2 connections that take no page: slowest answer to another / bare request",
        "expensive requests: slowest E1 of another key / bare request",
    ],
    "loop_holds": [
        f"{call} / bare request" for call in ("first snapshot", "refresh", "events_frame", "plan", "apply", "record")
    ],
    "questions": ["mean over time by the hour, 1,500 rows", "groupby of pandas by the hour, 1,500 rows"],
    "call_overhead": ["device object, MirrorClient / httpx", "device object and its values, MirrorClient / httpx"],
}

if find_spec("aiocoap"):  # speaks CoAP: needs the extra lwm2m
    FIGURES["real_devices"] = [
        "notifications / simulated observations",
        "read by async-id, CoAP / simulated",
        "E1 beside 2000 notifications a second / alone",
        "10 devices registering at once: time",
        "memory of a registered device",
    ]


def run(cache: Path, *arguments: str) -> str:
    """Run benchmarks; gives what they print."""
    command = [sys.executable, str(BENCHMARKS), "--no-peers", "--cache", str(cache), *arguments]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MIRROR_")}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


class Measured(NamedTuple):
    """What a run of all benchmarks wrote and printed."""

    content: dict[str, Any]
    printed: str


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    folder = tmp_path_factory.mktemp("benchmarks")
    result = folder / "result.json"
    printed = run(folder, *TINY.split(), "--json", str(result), *FIGURES)
    return Measured(json.loads(result.read_text()), printed)


@pytest.mark.parametrize("name", FIGURES)
def test_a_benchmark_gives_its_figures(name: str, measured: Measured) -> None:
    content = measured.content
    figures: dict[str, Any] = {f["what"]: f for f in content["figures"] if f["benchmark"] == name}
    for what in FIGURES[name]:
        assert figures[what]["value"] > 0
        assert f"{name}: {what}: " in measured.printed
    assert {figure["met"] for figure in figures.values() if figure["goal"] is None} <= {None}
    assert all(figure["met"] in {True, False} for figure in figures.values() if figure["goal"] is not None)
    assert content["machine"]["client_cores"]


def test_a_soak_shows_what_a_server_holds_and_what_was_lost(tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    printed = run(tmp_path, "--minutes", "0.05", "--soak-devices", "3", "--json", str(result), "soak")
    content = json.loads(result.read_text())
    assert content["figures"] == []
    soak = content["soak"]
    assert soak["gaps"] == soak["errors"] == {}
    assert all(soak["counts"][name] > 0 for name in ("device object", "snapshot", "write", "poll", "stream", "webhook"))
    for name in ("memory_mb", "descriptors", "threads", "database_mb", "wal_mb"):
        assert all(value > 0 for value in soak["moments"][name])
        assert name.replace("_", " ") in printed
