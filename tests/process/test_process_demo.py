"""The demo server: its persistent database, its running clock, its key, and its end."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from ports import free_port
from process_server import (
    PATIENCE_SECONDS,
    Child,
    child_environment,
    read_exports,
    responds,
    run_command,
    wait_until,
)

from mirror_sdk import MirrorClient, Simulator, examples
from mirror_sdk.lab import launcher
from mirror_sdk.lab.demo import DemoError, DemoServer
from mirror_sdk.lab.real_devices import LabDevices

pytestmark = pytest.mark.process

BEGINS_AT = datetime(2026, 1, 5, 8, tzinfo=UTC)
OTHER_KEY = f"ak_0123456789abcdef_{'x' * 43}"
StartDemo = Callable[..., Child]


@pytest.fixture
def start_demo(tmp_path: Path) -> Iterator[StartDemo]:
    """Start demo servers, which are stopped at the end."""
    children: list[Child] = []

    def start(*options: str, **variables: str) -> Child:
        arguments = ["demo", "--port=0", "--devices=3", "--clock=manual", *options]
        children.append(Child(*arguments, stderr_path=tmp_path / "stderr.txt", **variables))
        return children[-1]

    yield start
    for child in children:
        child.kill()


def client_of(exports: dict[str, str]) -> MirrorClient:
    return MirrorClient(exports["API_HOST"], exports["API_KEY"])


def test_database_keeps_the_application_and_its_key(start_demo: StartDemo, tmp_path: Path) -> None:
    option = f"--database=sqlite:///{tmp_path}/kept.db"
    first = start_demo(option)
    old = read_exports(first)
    assert first.read_line() == f"# In a browser: {old['API_HOST']}/#key={old['API_KEY']}"
    assert f"# The key is stored in {tmp_path}/kept.db.key" in first.read_line()
    with client_of(old) as client:
        client.subscriptions.rules.replace([{"resource_path": ["/3303/*"]}])
        Simulator(client).add_device("mine")
        Simulator(client).advance(timedelta(hours=5))
    first.kill()

    new = read_exports(start_demo(option))
    assert new["API_KEY"] == old["API_KEY"]
    with MirrorClient(new["API_HOST"], old["API_KEY"]) as client:
        assert [rule.resource_path for rule in client.subscriptions.rules.list()] == [["/3303/*"]]
        assert len(client.devices.list(endpoint_name="mine")) == 1
        assert Simulator(client).get_clock() >= BEGINS_AT + timedelta(hours=5)
        assert "registration" in client.history()["event"].tolist()


def test_a_database_that_was_served_by_the_wall_clock_is_never_set_back(start_demo: StartDemo, tmp_path: Path) -> None:
    option = f"--database=sqlite:///{tmp_path}/kept.db"
    began_at = datetime.now(UTC) - timedelta(seconds=1)
    live = start_demo(option, "--clock=system")
    read_exports(live)
    live.kill()
    with client_of(read_exports(start_demo(option))) as client:
        assert Simulator(client).get_clock() > began_at


def test_a_paced_clock_passes_by_itself_and_can_be_advanced(start_demo: StartDemo) -> None:
    began = time.monotonic()
    with client_of(read_exports(start_demo("--pace=600"))) as client:
        simulator = Simulator(client)
        wait_until(lambda: simulator.get_clock() > BEGINS_AT + timedelta(minutes=5), "minutes to pass")
        assert simulator.get_clock() <= BEGINS_AT + 600 * timedelta(seconds=time.monotonic() - began)
        assert simulator.advance(timedelta(hours=24)) > BEGINS_AT + timedelta(hours=24)


def test_key_of_the_option_works_and_is_not_printed(start_demo: StartDemo) -> None:
    demo = start_demo(MIRROR_DEMO_KEY=OTHER_KEY)
    url = demo.read_line().removeprefix("export API_HOST=")
    wait_until(lambda: responds(url), "an answer")
    with MirrorClient(url, OTHER_KEY) as client:
        assert len(client.devices.list()) == 3
    demo.kill()
    assert OTHER_KEY not in demo.stderr


@pytest.mark.parametrize(
    ("option", "message"),
    [(f"--key={OTHER_KEY}x", "an access key consists of ak_"), ("--pace=1", "add --clock manual")],
)
def test_invalid_option_is_reported_in_one_line(option: str, message: str) -> None:
    finished = run_command("demo", "--port=0", option)
    assert finished.returncode == 2
    assert message in finished.stderr
    assert "Traceback" not in finished.stderr


def test_the_server_ends_with_the_program_that_started_it(tmp_path: Path) -> None:
    program = (
        "import sys; from mirror_sdk.lab.demo import DemoServer; server = DemoServer(devices=1);"
        "print(server.base_url, flush=True); sys.stdin.read(); server.close()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        env=child_environment(TMPDIR=str(tmp_path)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert responds(url)
        assert list(tmp_path.glob("mirror-demo-*"))
        process.kill()
        process.stdin.close()
        process.wait(PATIENCE_SECONDS)
        wait_until(lambda: not responds(url), "the server to stop")
        wait_until(lambda: not list(tmp_path.glob("mirror-demo-*")), "its folder to be removed")


def test_the_server_uses_this_port_and_key_and_no_command_line_contains_the_key() -> None:
    port = free_port()
    with closing(DemoServer(devices=1, port=port, key=OTHER_KEY)) as server:
        assert server.base_url == f"http://127.0.0.1:{port}"
        assert server.count_devices() == 1
        assert server.environment["API_KEY"] == OTHER_KEY
        command_line = Path(f"/proc/{server._process.pid}/cmdline").read_text()
    assert f"--port={port}" in command_line
    assert OTHER_KEY not in command_line


def test_the_mirror_of_the_tile_is_started_again_after_a_crash_and_needs_no_proxy(monkeypatch) -> None:
    monkeypatch.delenv("API_HOST", raising=False)
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{free_port()}")
    servers: list[DemoServer] = []

    def start(**options: Any) -> DemoServer:
        servers.append(DemoServer(**options))
        return servers[-1]

    monkeypatch.setattr(launcher, "DemoServer", start)
    process: Any = launcher.server_process()
    key = process["launcher_entry"]["path_info"].partition("#key=")[2]
    assert process["command"](free_port()) == []
    servers[0]._process.kill()
    wait_until(lambda: len(servers) == 2, "another server")
    with closing(servers[1]):
        assert servers[1].base_url == servers[0].base_url
        headers = {"Authorization": f"Bearer {key}"}
        assert httpx.get(f"{servers[1].base_url}/v3/devices", headers=headers, trust_env=False).status_code == 200
    assert servers[1].wait() == 0


def test_real_devices_come_to_a_demo_and_end_with_the_program_that_started_them() -> None:
    pytest.importorskip("aiocoap", reason="needs the extra lwm2m")
    program = (
        "import sys\n"
        "from mirror_sdk.lab.demo import DemoServer\n"
        "from mirror_sdk.lab.real_devices import LabDevices\n"
        "server = DemoServer(devices=1, coap=True)\n"
        "devices = LabDevices(server.coap_url, server.client(), count=2)\n"
        "print(server.base_url, server.environment['API_KEY'], devices._process.pid, flush=True)\n"
        "sys.stdin.read()\n"
        "devices.close()\n"
        "print(sorted((each.endpoint_name, each.state) for each in server.client().devices.list()))\n"
        "server.close()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        env=child_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        url, key, pid = process.stdout.readline().split()
        with MirrorClient(url, key) as client:
            assert client.read_value("real-02", "/3/0/0", timeout=PATIENCE_SECONDS) == "Example Devices"
        process.stdin.close()
        output = process.stdout.read()
        process.wait(PATIENCE_SECONDS)
        wait_until(lambda: not Path(f"/proc/{pid}").exists(), "the devices to end")
    assert "('real-01', 'deregistered'), ('real-02', 'deregistered')" in output


def test_devices_that_do_not_register_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("aiocoap", reason="needs the extra lwm2m")
    # A key of another demo in the environment is not used by a program that starts its own.
    monkeypatch.setenv("MIRROR_DEMO_KEY", OTHER_KEY)
    server = DemoServer(devices=1, coap=True)
    try:
        assert server.environment["API_KEY"] != OTHER_KEY
        assert re.fullmatch(r"coap://127\.0\.0\.1:\d+", server.coap_url)
        with (
            server.client() as client,
            pytest.raises(DemoError, match="these devices did not register: real-01, real-02; "),
        ):
            LabDevices("coap://no.such.name.invalid", client, count=2)
    finally:
        server.close()


def test_without_the_extra_for_real_devices_a_notebook_shows_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mirror_sdk.lab.demo.is_installed", lambda module: module != "aiocoap")
    with pytest.raises(DemoError) as caught:
        examples.start_mirror_with_coap()
    shell = InteractiveShell()
    with capture_output() as output:
        shell.showtraceback((DemoError, caught.value, caught.tb))
    assert output.stdout == 'aiocoap is missing: pip install "device-state-mirror[lwm2m]"\n'


def test_server_that_does_not_start_is_reported(tmp_path: Path) -> None:
    with pytest.raises(DemoError, match="the server did not start"):
        DemoServer(database=tmp_path / "no-such-folder" / "mirror.db")


def test_server_that_never_prints_its_address_is_ended_and_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mirror_sdk.lab.demo.SERVER_COMMAND", (sys.executable, "-c", "import time; time.sleep(60)"))
    monkeypatch.setattr("mirror_sdk.lab.demo._READY_SECONDS", 0.5)
    with pytest.raises(DemoError, match="the server did not start"):
        DemoServer()
