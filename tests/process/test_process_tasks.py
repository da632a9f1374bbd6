"""Ten tasks, each a script as who has read the README and ``help()`` alone would write it: run as they run theirs.

A script has the address and the key in its environment, and a folder of its own. The tests play the devices' side.
"""

from __future__ import annotations

import ast
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import count
from pathlib import Path

import httpx
import pandas as pd
import pytest
from ports import free_port
from process_server import ServerProcess, child_environment, wait_until

from mirror_sdk import Bench, MirrorClient
from mirror_sdk.recording import Recording

pytestmark = pytest.mark.process

StartServer = Callable[..., ServerProcess]

TASKS = Path(__file__).parent / "tasks"
TEMPERATURE = "/3303/0/5700"
DIMMER = "/3311/0/5851"

_numbers = count(1)


class Script:
    """A script that runs, in a process of its own."""

    def __init__(self, name: str, *arguments: object, folder: Path, **variables: str) -> None:
        self.complaints = folder / f"{name}-{next(_numbers)}.txt"
        with self.complaints.open("wb") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, "-W", "error", str(TASKS / name), *map(str, arguments)],
                cwd=folder,
                env=child_environment(MPLBACKEND="Agg", **variables),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )

    def read_line(self) -> str:
        """The next line it prints."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip("\n")

    def end(self, typed: str | None = None) -> list[str]:
        """The lines it prints to its end, which is to come without a complaint."""
        printed, _ = self.process.communicate(typed, timeout=120)
        complaints = self.complaints.read_text()
        assert (self.process.returncode, complaints) == (0, ""), complaints
        return printed.splitlines()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


class Scripts:
    """Starts the scripts of one application, all in the folder of the test."""

    def __init__(self, url: str, key: str, folder: Path) -> None:
        self._folder = folder
        self._environment = {"API_HOST": url, "API_KEY": key}
        self._begun: list[Script] = []

    def begin(self, name: str, *arguments: object, **variables: str) -> Script:
        self._begun.append(Script(name, *arguments, folder=self._folder, **self._environment, **variables))
        return self._begun[-1]

    def run(self, name: str, *arguments: object) -> list[str]:
        """The lines that a script prints which ends by itself."""
        return self.begin(name, *arguments).end()

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


def lines_of_code(text: str) -> int:
    """How many lines are neither empty nor part of a docstring nor a comment."""
    described: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0]
            if ast.get_docstring(node) is not None:
                described.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    numbered = enumerate(map(str.strip, text.splitlines()), 1)
    return sum(1 for number, line in numbered if line and number not in described and not line.startswith("#"))


@pytest.mark.parametrize("script", sorted(TASKS.glob("*.py")), ids=lambda path: path.stem)
def test_a_task_takes_twenty_lines(script: Path) -> None:
    assert 0 < lines_of_code(script.read_text()) <= 20


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


def test_silent_devices_are_told_with_the_reason(scripts: Scripts, bench: Bench, client: MirrorClient) -> None:
    names = ["meter-heard", "meter-cut-off", "meter-gone", "meter-never-read"]
    for name in names:
        bench.add_device(name, [{"path": TEMPERATURE, "value": "20", "observable": True}])
    for name in names[:3]:
        client.read_value(name, TEMPERATURE)
    client.subscribe("weather-station-02", TEMPERATURE)
    bench.advance(timedelta(hours=1))
    for name in ("weather-station-02", "meter-cut-off"):
        bench.set_online(name, online=False)
    bench.deregister("meter-gone")
    bench.advance(timedelta(hours=4))
    client.read_value("meter-heard", TEMPERATURE)
    told = scripts.run("silent_devices.py")
    reasons = {line.partition(":")[0]: reason for line, reason in zip(told[:-1:2], told[1:-1:2], strict=True)}
    assert {name for name in names if name in reasons} == {"meter-cut-off", "meter-gone"}
    assert "cut off" in reasons["weather-station-02"]
    assert "its rhythm is not known" in reasons["meter-cut-off"]
    assert "The device is not registered" in reasons["meter-gone"]
    assert {name for name in names if name in told[-1]} == {"meter-never-read"}
    bench.set_online("weather-station-02", online=True)


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


def test_set_points_are_changed_and_the_rooms_follow(scripts: Scripts, bench: Bench) -> None:
    script = scripts.begin("set_points.py")
    assert script.read_line() == "['success', 'success']"
    for _ in range(12):
        bench.advance(timedelta(minutes=30))
    told = sorted(script.end())
    assert [line.split()[0] for line in told] == ["thermostat-01", "thermostat-02"]
    for line in told:
        _, before, after = line.split()
        assert float(after) < float(before) - 1


def test_a_week_is_recorded_over_a_restart_and_a_kill_and_read_as_one_table(
    start_server: StartServer, tmp_path: Path
) -> None:
    server = start_server("--simulate", "0", "--clock", "manual")
    key, folder = server.key(), tmp_path / "week.parquet"
    scripts = Scripts(server.url, key, tmp_path)
    begun: list[Script] = []

    def begin_recording() -> None:
        begun.append(scripts.begin("week_recorded.py", folder))
        assert begun[-1].read_line() == "recording"

    def day(number: int) -> None:
        """Two changes of a day, which are looked at before the day is over, since the log keeps no more."""
        for value in (number, number + 0.5):
            bench.set_value("thermometer", TEMPERATURE, value)
            bench.advance(timedelta(hours=12))
        wait_until(lambda: number + 0.5 in set(Recording(folder).events()["value_num"]), f"day {number}")

    with MirrorClient(server.url, key) as client:
        bench = Bench(client)
        begin = bench.get_clock()
        bench.add_device("thermometer", [{"path": TEMPERATURE, "value": "0", "observable": True}])
        begin_recording()
        for number in (1, 2):
            day(number)
        server.kill()
        server.start()
        for number in (3, 4):
            day(number)
        begun[-1].kill()
        seen, recorded = pd.read_parquet(folder)["seq"].tolist(), Recording(folder).events()["seq"].tolist()
        assert seen == recorded[: len(seen)] == sorted(seen)
        bench.set_value("thermometer", TEMPERATURE, 4.75)
        begin_recording()
        for number in (5, 6, 7):
            day(number)
    begun[-1].process.send_signal(signal.SIGTERM)
    assert begun[-1].end()[0].startswith("complete from ")
    told = scripts.run("week_read.py", folder, begin + timedelta(days=2, hours=6))
    days = [(int(count), float(mean)) for _, count, mean in map(str.split, told[2:9])]
    first, *others = days
    assert first == (3, pytest.approx((0 + 1 + 1.5) / 3, abs=1e-5))
    assert others.pop(3) == (3, pytest.approx((4.75 + 5 + 5.5) / 3, abs=1e-5))
    assert others == [(2, number + 0.25) for number in (2, 3, 4, 6, 7)]
    assert told[-2].split()[:2] == ["thermometer", "3.0"]
    assert told[-1] == "complete"
    # The clock of this machine is months ahead of the service's.
    told = scripts.run("week_read.py", folder, begin + timedelta(days=60))
    assert told[-1] == "not known to be complete"
    scripts.kill()


def test_states_and_events_are_served_by_flask(scripts: Scripts, bench: Bench) -> None:
    device_id = bench.add_device("flask-room", [{"path": TEMPERATURE, "value": "20", "observable": True}])
    port = free_port()
    script = scripts.begin("states_in_flask.py", PORT=str(port))
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as web:

        def serves() -> bool:
            assert script.process.poll() is None, script.complaints.read_text()
            try:
                return web.get("/lately").is_success
            except httpx.TransportError:
                return False

        def came() -> bool:
            values = [event["value"] for event in web.get("/lately").json() if event["device_id"] == device_id]
            return 21.5 in [value["value"] for value in values if value]

        wait_until(serves, "the application")
        bench.set_value(device_id, TEMPERATURE, 21.5)
        wait_until(came, "the event")
        state = web.get("/devices/flask-room").json()
        assert state["resources"][TEMPERATURE]["reported"]["value"] == 21.5
        missing = web.get("/devices/flask-rom")
        assert (missing.status_code, "flask-room" in missing.json()["detail"]) == (404, True)
    complaints = script.complaints.read_text()
    assert "Traceback" not in complaints
    assert "Warning:" not in complaints


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


def test_a_program_is_tested_with_the_fixtures(tmp_path: Path) -> None:
    shutil.copy(TASKS / "tests_of_a_program.py", tmp_path / "test_program.py")
    others = ["-p", "no:nbval", "-p", "no:schemathesis"]
    command = [sys.executable, "-W", "error", "-m", "pytest", "-q", "-p", "no:cacheprovider", *others]
    ended = subprocess.run(
        command, cwd=tmp_path, env=child_environment(), capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.returncode, "2 passed" in ended.stdout, ended.stderr) == (0, True, ""), ended.stdout


def test_a_table_of_rooms_is_joined_and_exported(
    scripts: Scripts, bench: Bench, client: MirrorClient, tmp_path: Path
) -> None:
    for number in (1, 2, 3):
        bench.add_device(f"room-{number}", [{"path": TEMPERATURE, "value": str(20 + number)}])
        client.read_value(f"room-{number}", TEMPERATURE)
    (tmp_path / "rooms.csv").write_text("endpoint_name,floor\nroom-1,first\nroom-2,second\nroom-3,second\n")
    told = scripts.run("rooms_exported.py", "rooms.csv", "joined")
    assert told[-1] == "0 are stale"
    file = tmp_path / "joined"
    for table in (
        pd.read_parquet(file.with_suffix(".parquet")),
        pd.read_csv(file.with_suffix(".csv")),
        pd.read_excel(file.with_suffix(".xlsx")),
    ):
        assert table.groupby("floor", observed=True)["reported_num"].mean().to_dict() == {"first": 21.0, "second": 22.5}


def test_two_analysts_share_a_key(scripts: Scripts, bench: Bench, client: MirrorClient, tmp_path: Path) -> None:
    humidity = "/3304/0/5700"
    names = {TEMPERATURE: "shared-warm", humidity: "shared-damp"}
    ids = {
        name: bench.add_device(name, [{"path": path, "value": "1", "observable": True}]) for path, name in names.items()
    }
    begun = [scripts.begin("analyst.py", path, f"{name}.parquet") for path, name in names.items()]
    assert [script.read_line() for script in begun] == ["begun", "begun"]
    assert {tuple(rule.resource_path or ()) for rule in client.get_presubscriptions()} == {(TEMPERATURE,), (humidity,)}
    for path, name in names.items():
        for value in (2, 3):
            bench.set_value(name, path, value)
    for script in begun:
        seen, _, kept, _, *audited = " ".join(script.end("\n")).split()
        assert int(seen) == int(kept) >= 3
        assert audited[0] == "complete"
    for name, device_id in ids.items():
        recorded = pd.read_parquet(tmp_path / f"{name}.parquet")
        assert recorded[recorded["device_id"] == device_id]["value_num"].tolist() == [1, 2, 3]
    assert client.get_presubscriptions() == []
