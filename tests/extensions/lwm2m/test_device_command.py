"""The command mirror-device: its errors, and a process that registers, responds and deregisters."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys

import pytest
from click.testing import CliRunner
from ports import free_port

pytest.importorskip("aiocoap", reason="real devices need the extra lwm2m")

from mirror_server.extensions.lwm2m.device import command
from mirror_server.extensions.lwm2m.device.kinds import kinds_by_name

LIMIT_SECONDS = 60

needs_kinds = pytest.mark.skipif(not kinds_by_name(), reason="its kinds are those of the simulated devices")


def test_invalid_options_fail_with_the_cure():
    for words, message in (
        (["--server", "http://127.0.0.1"], "write it like coap://127.0.0.1:5683"),
        (["--server", "coap://127.0.0.1:99999"], "write it like coap://127.0.0.1:5683"),
        (["--server", "coaps://127.0.0.1"], "MIRROR_DEVICE_PSK"),
        (["--server", "coaps://127.0.0.1", "--psk", "secret"], "hexadecimal digits"),
        (["--server", "coaps://127.0.0.1", "--psk", "00ff", "--count", "2"], "its own key"),
        (["--server", "coaps://127.0.0.1", "--psk", "00" * 17], "1 to 16 bytes"),
        (["--server", "coaps://127.0.0.1", "--psk", "00ff", "--identity", "x" * 33], "1 to 32 bytes"),
        (["--server", "coap://127.0.0.1", "--psk", "00ff"], "--psk is for coaps:// only"),
        (["--server", "coap://127.0.0.1", "--format", "senml-json"], "add --version 1.1"),
        (["--server", "coap://127.0.0.1", "--name", "a\nb"], "printable characters"),
    ):
        ended = CliRunner().invoke(command.main, ["--name", "probe", *words])
        assert ended.exit_code == 2
        assert message in " ".join(ended.output.split())
        assert "secret'" not in ended.output


def test_missing_aiocoap_error_names_the_extra(monkeypatch):
    monkeypatch.setattr(command, "find_spec", lambda name: None)
    ended = CliRunner().invoke(command.main, ["--name", "probe", "--server", "coap://127.0.0.1"])
    assert ended.exit_code == 1
    assert "pip install 'device-state-mirror[lwm2m]'" in ended.output


def test_missing_simulator_error_has_the_cure():
    program = (
        "import sys; sys.modules['mirror_server.extensions.simulator'] = None\n"
        "from mirror_server.extensions.lwm2m.device.command import main; main()"
    )
    for kind in ([], ["--kind", "mixed"]):
        words = [sys.executable, "-c", program, "--name", "probe", "--server", "coap://127.0.0.1", *kind]
        ended = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False)
        assert ended.returncode == 1
        assert ended.stderr.startswith("Error: mirror-device needs the models of the simulated devices")
        assert "pip install --force-reinstall 'device-state-mirror[lwm2m]'" in ended.stderr


def test_help_works_without_extras():
    program = (
        "import sys; sys.modules['aiocoap'] = sys.modules['DTLSSocket'] = None\n"
        "from mirror_server.extensions.lwm2m.device.command import main; main(['--help'])"
    )
    words = [sys.executable, "-c", program]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=True)
    assert "--queue" in ended.stdout
    assert "The first contact may be earlier" in " ".join(ended.stdout.split())


def _start(server: socket.socket | int, *words: str) -> subprocess.Popen[str]:
    port = server if isinstance(server, int) else server.getsockname()[1]
    program = "from mirror_server.extensions.lwm2m.device.command import main; main()"
    url = f"coap://127.0.0.1:{port}"
    started = [sys.executable, "-u", "-c", program, "--server", url, "--name", "probe", *words]
    with_key = os.environ | {"MIRROR_DEVICE_PSK": "00ff"}
    return subprocess.Popen(started, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=with_key)


@pytest.fixture
def server() -> socket.socket:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.settimeout(LIMIT_SECONDS)
        yield listening


@needs_kinds
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_device_registers_responds_and_deregisters_on_signal(server, number):
    with _start(server, "--kind", "door-contact", "--lifetime", "60") as process:
        # Printed before any response.
        assert process.stdout.readline() == f"probe: registering with coap://127.0.0.1:{server.getsockname()[1]}\n"
        request, peer = server.recvfrom(2000)
        assert request[1] == 2
        for part in (b"ep=probe", b"lt=60", b"</3200/0/5500>;obs;aobs="):
            assert part in request
        server.sendto(bytes.fromhex("64 41") + request[2:8] + bytes.fromhex("82 7264 01 37"), peer)
        assert process.stdout.readline() == f"probe: registered as /rd/7 from port {peer[1]}\n"
        # GET /3/0/1, Accept text/plain.
        server.sendto(bytes.fromhex("41 01 0001 aa  b1 33 01 30 01 31 60"), peer)
        assert server.recv(2000) == bytes.fromhex("61 45 0001 aa c0 ff") + b"DC-500"
        process.send_signal(number)
        # DELETE /rd/7.
        farewell, _ = server.recvfrom(2000)
        assert (farewell[1], farewell[8:]) == (4, bytes.fromhex("b2 7264 01 37"))
        server.sendto(bytes.fromhex("64 42") + farewell[2:8], peer)
        output, _ = process.communicate(timeout=LIMIT_SECONDS)
        assert (output, process.returncode) == ("probe: deregistered\n", 0)


def test_count_above_open_file_limit_fails_before_sending(server):
    url = f"coap://127.0.0.1:{server.getsockname()[1]}"
    program = (
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (100, 200))\n"
        "from mirror_server.extensions.lwm2m.device.command import main; main()"
    )
    words = [sys.executable, "-c", program, "--server", url, "--name", "probe", "--count", "1000"]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False)
    assert ended.returncode == 2
    assert "--count 1000 needs 1064 open files, and 'ulimit -Hn' allows 200: use fewer devices" in ended.stderr


@needs_kinds
def test_devices_without_a_listening_server_exit_with_one_error_line():
    port = free_port(socket.SOCK_DGRAM)
    with _start(port, "--count", "3") as process:
        output, _ = process.communicate(timeout=LIMIT_SECONDS)
        assert process.returncode == 1
        assert output == (
            f"probe-01 to probe-03: registering with coap://127.0.0.1:{port}\n"
            f"Error: coap://127.0.0.1:{port} cannot be reached: [Errno 111] Connection refused\n"
        )
