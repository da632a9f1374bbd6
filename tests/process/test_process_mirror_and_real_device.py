"""The ``mirror`` command and a real device: operations that simulated devices lack."""

from __future__ import annotations

import csv
import json
import socket
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

pytest.importorskip("aiocoap", reason="real devices need the extra lwm2m")

from click.testing import CliRunner, Result
from ports import free_port
from process_server import ServerProcess, wait_until

from mirror_sdk.cli import main
from mirror_server.clock import SystemClock
from mirror_server.extensions.lwm2m.device.fleet import BackgroundFleet, DeviceOptions
from mirror_server.extensions.lwm2m.transport_api import Unreachable

pytestmark = pytest.mark.process

NAME, INSTANCE, REBOOT = "my-sensor", "/3303/0", "/3/0/4"
Run = Callable[..., Result]


@pytest.fixture
def messages() -> list[str]:
    """The output of the device."""
    return []


@pytest.fixture
def run(start_server: Callable[..., ServerProcess], messages: list[str]) -> Iterator[Run]:
    port = free_port(socket.SOCK_DGRAM)
    server = start_server("--coap", f"127.0.0.1:{port}")
    runner = CliRunner(env={"API_HOST": server.url, "API_KEY": server.key()})

    def run(*words: str, status: int = 0) -> Result:
        result = runner.invoke(main, words)
        assert result.exit_code == status, (result.output, result.exception)
        return result

    with closing(SystemClock()) as clock, registered(DeviceOptions(f"coap://127.0.0.1:{port}"), clock, messages):
        yield run


def registered(options: DeviceOptions, clock: SystemClock, messages: list[str]) -> BackgroundFleet:
    """The registered device. On PostgreSQL, a server is ready before it leads, and opens the port only then."""

    def register() -> BackgroundFleet | None:
        try:
            return BackgroundFleet(options, [(NAME, "thermometer")], clock, messages.append)
        except Unreachable:
            return None

    fleet: BackgroundFleet = wait_until(register, "the device to register")
    return fleet


def test_an_object_instance_is_read_and_a_resource_executed(run: Run, messages: list[str]) -> None:
    lines = [line.split() for line in run("read", NAME, INSTANCE).stdout.splitlines()]
    values = dict(lines[1:])
    assert lines[0] == ["path", "value"]
    assert values[f"{INSTANCE}/5700"] == run("read", NAME, f"{INSTANCE}/5700").stdout.strip()
    rows = list(csv.DictReader(run("read", NAME, INSTANCE, "--csv").stdout.splitlines()))
    assert values == {row["path"]: row["value"] for row in rows}
    rows = json.loads(run("read", NAME, INSTANCE, "--json").stdout)
    (temperature,) = [row for row in rows if row["path"] == f"{INSTANCE}/5700"]
    assert (temperature["kind"], type(temperature["value"])) == ("number", float)
    for arguments in ([], ["5='now'"], ["--", "-now-"]):
        assert run("execute", NAME, REBOOT, *arguments).stdout == ""
        assert messages[-1] == " ".join([f"{NAME}: executed {REBOOT}", *arguments[-1:]])
