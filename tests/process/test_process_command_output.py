"""The commands in a shell: dashes, Ctrl-C, closed pipes, output encodings that lack a character."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest
from click.testing import CliRunner
from process_server import Application, ServerProcess, child_environment, wait_until

from mirror_sdk.cli import main

pytestmark = pytest.mark.process

StartServer = Callable[..., ServerProcess]

TEMPERATURE, NAME = "/3303/0/5601", "/3/0/15"
OFFSET = "/3308/0/5900"
TEXT = "Grüße, 日本 €"
COMMANDS = {
    "mirror": "from mirror_sdk.cli import main; main(prog_name='mirror')",
    "mirror-server": "from mirror_server.cli import main; main(prog_name='mirror-server')",
}
PATIENCE_SECONDS = 60


class Shell:
    """A runner of commands that behaves like a shell."""

    def __init__(self, server: ServerProcess, application: Application) -> None:
        self.base = {"API_HOST": server.url, "API_KEY": application.key, "PYTHONUNBUFFERED": "1"}

    def run(self, *words: str, encoding: str = "utf-8") -> subprocess.CompletedProcess[bytes]:
        """Run a command in this process, with an output of this encoding, which saves its start."""
        unset = {name: None for name in os.environ if name.startswith("MIRROR_")}
        runner = CliRunner(charset=encoding, env=unset | self.base)
        ended = runner.invoke(main, words, prog_name="mirror", catch_exceptions=False)
        return subprocess.CompletedProcess(words, ended.exit_code, ended.stdout_bytes, ended.stderr_bytes)

    def run_process(self, *words: str, **variables: str) -> subprocess.CompletedProcess[bytes]:
        command = [sys.executable, "-c", COMMANDS["mirror"], *words]
        environment = child_environment(**self.base, **variables)
        return subprocess.run(command, env=environment, capture_output=True, timeout=PATIENCE_SECONDS, check=False)

    def run_redirected(self, redirection: str, *words: str) -> subprocess.CompletedProcess[bytes]:
        command = ["sh", "-c", f'"$@" {redirection}', "sh", sys.executable, "-c", COMMANDS["mirror"], *words]
        environment = child_environment(**self.base)
        return subprocess.run(command, env=environment, capture_output=True, timeout=PATIENCE_SECONDS, check=False)

    @contextmanager
    def running(self, *words: str, first: str = "pass") -> Iterator[subprocess.Popen[str]]:
        """Start a command; ``first`` is code that its process runs before it."""
        command = [sys.executable, "-c", f"{first}\n{COMMANDS['mirror']}", *words]
        environment = child_environment(**self.base)
        pipe = subprocess.PIPE
        with subprocess.Popen(command, env=environment, stdout=pipe, stderr=pipe, text=True) as process:
            try:
                yield process
            finally:
                process.kill()


@pytest.fixture
def shell(shared_server: ServerProcess, application: Application) -> Shell:
    return Shell(shared_server, application)


@pytest.fixture
def device(application: Application) -> str:
    """A device with a name and values that few encodings support."""
    name = f"käse-日本-{os.urandom(4).hex()}"
    application.name = name
    application.add_device(
        name,
        {"path": OFFSET, "value": "1", "writable": True, "observable": True},
        {"path": NAME, "value": TEXT, "writable": True, "observable": True},
    )
    return name


def id_of(application: Application, device: str) -> str:
    found: str = application.json("GET", "/v3/devices", params={"endpoint_name__eq": device})["data"][0]["id"]
    return found


def value_of(application: Application, device: str, path: str) -> str:
    """Return the device's own value."""
    return application.simulated_values(id_of(application, device))[path]


def subscribe(application: Application, device: str) -> None:
    application.json("PUT", f"/v2/subscriptions/{id_of(application, device)}{OFFSET}")


def test_negative_number_is_a_value_and_options_stay_options(shell, application, device):
    for words, written in [
        ([device, OFFSET, "-5"], -5),
        ([device, OFFSET, "-1.5E-3"], -1.5e-3),
        ([device, OFFSET, "--", "-0.5"], -0.5),
        (["--timeout", "30", device, OFFSET, "-2"], -2),
        ([device, OFFSET, "-3", "--timeout=30"], -3),
    ]:
        ended = shell.run("write", *words)
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")
        assert float(value_of(application, device, OFFSET)) == written
    for words, message in [
        ([device, OFFSET, "-4", "--tiemout", "3"], b"--timeout"),
        ([device, OFFSET, "-4", "--timeout", "-1"], b"is not in the range"),
        ([device, NAME, "-none-"], b"-- -none-"),
    ]:
        ended = shell.run("write", *words)
        assert (ended.returncode, ended.stdout) == (2, b"")
        assert message in ended.stderr
    assert float(value_of(application, device, OFFSET)) == -3
    assert value_of(application, device, NAME) == TEXT
    assert b"Usage: mirror write" in shell.run("write", device, NAME, "-h").stdout
    assert shell.run("write", device, NAME, "--", "-h").returncode == 0
    assert value_of(application, device, NAME) == "-h"


@pytest.mark.parametrize(("form", "how"), [([], signal.SIGINT), (["--json"], signal.SIGTERM)], ids=["table", "json"])
def test_interrupted_watch_exits_with_success(shell, application, device, how, form):
    subscribe(application, device)
    with shell.running("watch", "--path", OFFSET, *form) as watching:
        output = first_line(watching, application, device)
        watching.send_signal(how)
        _, complaint = watching.communicate(timeout=PATIENCE_SECONDS)
    assert (watching.returncode, complaint) == (0, "")
    if form:
        event = json.loads(output.splitlines()[0])
        assert (event["event"], event["endpoint_name"], event["path"]) == ("observation", device, OFFSET)


def test_a_snapshot_that_does_not_fit_on_the_disk_leaves_the_file_unchanged(shell, device, tmp_path):
    file = "state.parquet"
    (tmp_path / file).write_text("before")
    # An imported file must not be written half either.
    no_room = """
import resource, sys
sys.dont_write_bytecode = True
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
"""
    with shell.running("snapshot", str(tmp_path / file), first=no_room) as writing:
        output, complaint = writing.communicate(timeout=PATIENCE_SECONDS)
    assert (writing.returncode, output) == (1, "")
    assert complaint == f"Error: {tmp_path / file} cannot be written: File too large\n"
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [(file, "before")]


def test_a_watch_continues_when_the_server_is_back_and_reports_the_outage(start_server):
    server = start_server("--simulate", "0", "--clock", "manual")
    application = server.application()
    device = "sensor"
    application.add_device(device, {"path": OFFSET, "value": "1", "writable": True, "observable": True})
    subscribe(application, device)
    shell = Shell(server, application)
    with shell.running("watch", "--path", OFFSET) as watching:
        first_line(watching, application, device)
        server.kill()
        assert watching.stderr is not None
        assert watching.stderr.readline().startswith("waiting for the mirror: ")
        server.start()
        assert watching.stderr.readline() == "the mirror is back\n"
        assert OFFSET in first_line(watching, application, device)
        watching.send_signal(signal.SIGINT)
        _, complaint = watching.communicate(timeout=PATIENCE_SECONDS)
    assert (watching.returncode, complaint) == (0, "")


def test_a_watch_whose_reader_has_enough_ends_quietly(shell, application, device):
    subscribe(application, device)
    with shell.running("watch", "--path", OFFSET, "--csv") as watching:
        first_line(watching, application, device)
        assert watching.stdout is not None
        assert watching.stderr is not None
        watching.stdout.close()
        change_until(lambda: watching.poll() is not None, application, device)
        assert (watching.returncode, watching.stderr.read()) == (1, "")


def test_interrupted_wait_reports_that_the_request_continues(shell, application, device):
    application.patch_device(id_of(application, device), online=False)
    with shell.running("write", device, OFFSET, "5") as writing:
        wait_until(lambda: application.json("GET", "/v2/device-requests")["data"], "the request")
        writing.send_signal(signal.SIGINT)
        output, complaint = writing.communicate(timeout=PATIENCE_SECONDS)
    assert (writing.returncode, output) == (1, "")
    assert complaint.startswith(
        "the request continues, and the device may carry it out; 'mirror requests' lists waiting requests\n"
    )
    assert len(json.loads(shell.run("requests", "--json").stdout)) == 1


def first_line(watching: subprocess.Popen[str], application: Application, device: str) -> str:
    """Return the first line of its output, during changes of the device."""
    assert watching.stdout is not None
    output = watching.stdout.fileno()
    os.set_blocking(output, False)
    read = bytearray()

    def is_displayed() -> bool:
        assert watching.poll() is None
        try:
            read.extend(os.read(output, 4096))
        except BlockingIOError:
            return False
        return b"\n" in read

    change_until(is_displayed, application, device)
    os.set_blocking(output, True)
    return read.decode()


def change_until(is_true: Callable[[], bool], application: Application, device: str) -> None:
    values = count(2)
    url = f"/sim/v1/devices/{id_of(application, device)}/resources{OFFSET}"

    def is_true_after_a_change() -> bool:
        application.http.put(url, json={"value": str(next(values))})
        return is_true()

    wait_until(is_true_after_a_change, "what the changes lead to")


PRINTED = [
    ["devices"],
    ["get", "{device}"],
    ["read", "{device}", NAME],
    ["drift"],
    ["plan", "{plan}"],
    ["日本"],
    ["--help"],
]


def test_undisplayable_characters_of_a_process_are_escaped(shell, device):
    ended = shell.run_process("devices", PYTHONIOENCODING="cp1252")
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert r"\u65e5" in ended.stdout.decode("cp1252")


def test_undisplayable_characters_are_escaped(shell, application, device, tmp_path):
    application.read(id_of(application, device), NAME, "known")
    application.response("known")
    plan_file = tmp_path / "gewünscht.csv"
    plan_file.write_text(f'device,path,value\n{device},{NAME},"new {TEXT}"\n', encoding="utf-8")
    for words in PRINTED:
        ended = shell.run(*(word.format(device=device, plan=plan_file) for word in words), encoding="ascii")
        output = ended.stdout.decode("ascii") + ended.stderr.decode("ascii")
        assert ended.returncode in {0, 1, 2}
        assert "Traceback" not in output
        assert "日".encode() not in ended.stdout + ended.stderr
        assert r"\u65e5" in output or words[0] in {"drift", "--help"}, words


def test_output_for_programs_is_complete_in_every_encoding(shell, device):
    encoding = "ascii"
    (row,) = json.loads(shell.run("read", device, NAME, "--json", encoding=encoding).stdout.decode("ascii"))
    assert row["value"] == TEXT
    output = shell.run("read", device, NAME, "--csv", encoding=encoding).stdout.decode("utf-8")
    (cells,) = csv.DictReader(io.StringIO(output))
    assert cells["value"] == TEXT


@pytest.mark.parametrize("closed", ["2>&-", ">&- 2>&- <&-"])
def test_closed_stream_accepts_all_output(shell, closed):
    ended = shell.run_redirected(closed, "devices")
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert bool(ended.stdout) == (">&-" not in closed.split())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
def test_full_output_is_reported_in_one_line(shell):
    ended = shell.run_redirected(">/dev/full", "devices")
    assert (ended.returncode, ended.stdout) == (1, b"")
    (line,) = ended.stderr.splitlines()
    assert line == b"Error: [Errno 28] No space left on device"


@pytest.mark.parametrize(
    ("variables", "cure"),
    [
        ({}, b"pass it in that encoding"),
        ({"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, b"PYTHONUTF8=1"),
    ],
    ids=["utf-8", "ascii"],
)
def test_argument_that_is_not_text_is_reported_in_one_line(shell, variables, cure):
    ended = shell.run_process("get", "k\udcffse", **variables)
    (line,) = ended.stderr.splitlines()
    assert (ended.returncode, ended.stdout, line.startswith(b"Error: '")) == (1, b"", True)
    assert cure in line


def test_commands_of_operators_escape_undisplayable_characters(tmp_path):
    def run(*words: str) -> subprocess.CompletedProcess[bytes]:
        command = [sys.executable, "-c", COMMANDS["mirror-server"], *words, "--database", url]
        environment = child_environment(PYTHONIOENCODING="ascii")
        return subprocess.run(command, env=environment, capture_output=True, timeout=PATIENCE_SECONDS, check=False)

    url = f"sqlite:///{tmp_path / '日本.db'}"
    assert run("keys", "create", "日本 €").returncode == 0
    listed = run("keys", "list")
    assert listed.returncode == 0
    assert r"\u65e5\u672c" in listed.stdout.decode("ascii")
    rejected = run("keys", "renew", "東京")
    assert (rejected.returncode, r"\u6771" in rejected.stderr.decode("ascii")) == (1, True)


def test_files_are_utf_8_in_every_locale(shell, device, tmp_path):
    program = f"""
from mirror_sdk import MirrorClient
with MirrorClient.from_env() as client:
    device_id = client.devices.get({device!a}).id
    client.plan([(device_id, {NAME!r}, {TEXT!a})]).save("plan.json")
    print(ascii(client.plans.load("plan.json").planned[0].endpoint_name))
    client.fleet.dataset("fleet", endpoint_name={device!a})
"""
    environment = child_environment(**shell.base, LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    command = [sys.executable, "-c", program]
    ended = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert (ended.returncode, ended.stdout.decode().strip()) == (0, ascii(device)), ended.stderr
    assert device in (tmp_path / "plan.json").read_text(encoding="utf-8")
