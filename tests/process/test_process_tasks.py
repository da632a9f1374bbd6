"""Tasks, each a script as who has read the README and ``help()`` alone would write it: run as they run theirs.

A script has the address and the key in its environment, and a folder of its own. The tests play the devices' side.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path

import pandas as pd
import pytest
from process_server import ServerProcess, child_environment, wait_until

from mirror_sdk import Bench, MirrorClient

pytestmark = pytest.mark.process

TASKS = Path(__file__).parent / "tasks"
TEMPERATURE = "/3303/0/5700"
DIMMER = "/3311/0/5851"


class Script:
    """A script that runs, in a process of its own."""

    def __init__(self, words: Sequence[object], folder: Path, environment: Mapping[str, str]) -> None:
        name, *arguments = map(str, words)
        self._process = subprocess.Popen(
            [sys.executable, "-W", "error", str(TASKS / name), *arguments],
            cwd=folder,
            env=child_environment(MPLBACKEND="Agg", **environment),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def read_line(self) -> str:
        """The next line it prints."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().rstrip("\n")

    def end(self) -> list[str]:
        """The lines it prints to its end, which is to come without a complaint."""
        printed, complaints = self._process.communicate(timeout=120)
        assert (self._process.returncode, complaints) == (0, ""), complaints
        return printed.splitlines()

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


class Scripts:
    """Starts the scripts of one application, all in the folder of the test."""

    def __init__(self, url: str, key: str, folder: Path) -> None:
        self._folder = folder
        self._environment = {"API_HOST": url, "API_KEY": key}
        self._begun: list[Script] = []

    def begin(self, *words: object) -> Script:
        self._begun.append(Script(words, self._folder, self._environment))
        return self._begun[-1]

    def run(self, *words: object) -> list[str]:
        """The lines that a script prints which ends by itself."""
        return self.begin(*words).end()

    def kill(self) -> None:
        for script in self._begun:
            script.kill()


@pytest.fixture(scope="module")
def simulated() -> int:
    """The fleet of the demo. Each test has a key of its own, and looks at the devices it adds."""
    return 12


@pytest.fixture
def key(shared_server: ServerProcess) -> str:
    return shared_server.key()


@pytest.fixture
def scripts(shared_server: ServerProcess, key: str, tmp_path: Path) -> Iterator[Scripts]:
    started = Scripts(shared_server.url, key, tmp_path)
    yield started
    started.kill()


@pytest.fixture
def client(shared_server: ServerProcess, key: str) -> Iterator[MirrorClient]:
    with MirrorClient(shared_server.url, key) as made:
        yield made
        # Rules hold for the devices of the tests to come too.
        made.delete_presubscriptions()


@pytest.fixture
def bench(client: MirrorClient) -> Bench:
    return Bench(client)


def test_the_temperatures_of_a_day_are_a_table_and_a_plot_and_tell_what_is_missing(
    scripts: Scripts, bench: Bench, tmp_path: Path
) -> None:
    station = "weather-station-01"
    scripts.run("temperatures_of_a_day.py", "before")
    bench.advance(timedelta(hours=9, minutes=30))
    bench.set_online(station, online=False)
    bench.advance(timedelta(hours=4))
    bench.set_online(station, online=True)
    bench.advance(timedelta(hours=10))
    told = scripts.run("temperatures_of_a_day.py", "day")
    assert f"{station}: 21 hours, 3 missing" in told
    assert "weather-station-02: 24 hours, 0 missing" in told
    hourly = pd.read_csv(tmp_path / "day.csv", index_col=0, parse_dates=True)
    assert len(hourly) == 24
    assert hourly[station].isna().sum() == 3
    assert hourly["thermometer-01"].between(15, 30).all()
    assert (tmp_path / "day.png").read_bytes().startswith(b"\x89PNG")


def test_lights_are_lowered_for_the_night_repaired_and_set_back(
    scripts: Scripts, bench: Bench, client: MirrorClient
) -> None:
    names = ["night-unread", "night-sleeps", "night-rejects", "night-fine"]
    for name in names:
        dimmer = {"path": DIMMER, "value": "80", "writable": True}
        bench.add_device(name, [dimmer], endpoint_type="NightLight", queue_mode=name == "night-sleeps")
        if name != "night-unread":
            client.read_value(name, DIMMER)
    bench.set_online("night-sleeps", online=False)
    bench.set_answer("night-rejects", "reject")

    def levels() -> list[str]:
        own = {device.endpoint_name: device.resources for device in bench.list_devices()}
        return [next(one.value for one in own[name] if one.path == DIMMER) for name in names]

    planned, told = scripts.run("lights_by_night.py", "night")
    assert "4 to write; 1 device sleeps and takes it at its next contact" in planned
    assert "sent: 1 failure, 1 pending, 2 success" in told
    assert levels() == ["10", "80", "80", "10"]
    bench.set_online("night-sleeps", online=True)
    bench.set_answer("night-rejects", "normal")
    _, told = scripts.run("lights_by_night.py", "repair", "night.json")
    assert "sent: 1 success" in told
    assert levels() == ["10", "10", "10", "10"]
    for plan, lights in (("night.json", 3), ("repair.json", 1)):
        planned, _ = scripts.run("lights_by_night.py", "back", plan)
        assert f"{lights} to write" in planned
    # The one that sleeps takes it when it next makes contact, which nothing waits for.
    wait_until(lambda: levels() == ["80", "80", "80", "80"], "all lights to be back")


def test_a_light_follows_its_door_on_a_loop(scripts: Scripts, bench: Bench) -> None:
    door, switch = "/3200/0/5500", "/3311/0/5850"
    for place in ("hall", "yard"):
        bench.add_device(f"{place}-door", [{"path": door, "value": "0", "observable": True}], endpoint_type="Door")
        bench.add_device(f"{place}-light", [{"path": switch, "value": "0", "writable": True}])
    bench.set_answer("yard-light", "reject")
    script = scripts.begin("doors_and_lights.py", 4)
    # How they stand when they are subscribed.
    assert sorted(script.read_line() for _ in range(2)) == ["hall-light off", "yard-light REJECTED"]
    bench.set_value("hall-door", door, value=True)
    assert script.read_line() == "hall-light on"
    bench.set_value("yard-door", door, value=True)
    assert script.end() == ["yard-light REJECTED"]
    bench.set_answer("yard-light", "normal")
    for value in (False, True):
        bench.set_value("hall-door", door, value=value)
        bench.set_value("yard-door", door, value=value)
    # What happened while nobody looked, in its order.
    told = scripts.run("doors_and_lights.py", 4)
    assert told == ["hall-light off", "yard-light off", "hall-light on", "yard-light on"]
