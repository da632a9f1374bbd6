"""Where the commands meet a shell: dashes, Ctrl-C, closed pipes, outputs that cannot show a character."""

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
from pathlib import Path

import pytest
from click.testing import CliRunner
from process_server import Application, ServerProcess, child_environment

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
    """Runs commands as a shell does."""

    def __init__(self, server: ServerProcess, application: Application) -> None:
        self.base = {"API_HOST": server.url, "API_KEY": application.key, "PYTHONUNBUFFERED": "1"}

    def run(self, *words: str, encoding: str = "utf-8") -> subprocess.CompletedProcess[bytes]:
        """Run a command in this process, with an output of this encoding; that spares its start."""
        unset = {name: None for name in os.environ if name.startswith("MIRROR_")}
        runner = CliRunner(charset=encoding, env=unset | self.base)
        ended = runner.invoke(main, words, prog_name="mirror", catch_exceptions=False)
        return subprocess.CompletedProcess(words, ended.exit_code, ended.stdout_bytes, ended.stderr_bytes)

    def run_process(self, *words: str, **variables: str) -> subprocess.CompletedProcess[bytes]:
        command = [sys.executable, "-c", COMMANDS["mirror"], *words]
        environment = child_environment(**self.base, **variables)
        return subprocess.run(command, env=environment, capture_output=True, timeout=PATIENCE_SECONDS, check=False)

    @contextmanager
    def running(self, *words: str, first: str = "pass") -> Iterator[subprocess.Popen[str]]:
        """A command that runs; ``first`` is what its process does before."""
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
    """A device with a name and values that few encodings can show."""
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
    """The device's own value."""
    return application.simulated_values(id_of(application, device))[path]


def subscribe(application: Application, device: str) -> None:
    application.json("PUT", f"/v2/subscriptions/{id_of(application, device)}{OFFSET}")


@pytest.mark.parametrize(
    ("dashes", "written"), [([], "-5"), ([], "-1.5E-3"), (["--"], "-0.5")], ids=["plain", "exponent", "two dashes"]
)
def test_a_number_below_zero_is_a_value(
    shell: Shell, application: Application, device: str, written: str, dashes: list[str]
) -> None:
    ended = shell.run("write", device, OFFSET, *dashes, written)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")
    assert float(value_of(application, device, OFFSET)) == float(written)


def test_options_are_options_beside_a_number_below_zero(shell: Shell, application: Application, device: str) -> None:
    for words in (["--timeout", "30", device, OFFSET, "-2"], [device, OFFSET, "-3", "--timeout=30"]):
        assert shell.run("write", *words).returncode == 0
    assert float(value_of(application, device, OFFSET)) == -3
    for words, told in [
        ([device, OFFSET, "-4", "--tiemout", "3"], b"--timeout"),
        ([device, OFFSET, "--tiemout"], b"--timeout"),
        ([device, OFFSET, "-4", "--timeout", "-1"], b"is not in the range"),
        ([device, NAME, "-none-"], b"-- -none-"),
        ([device, NAME, "--none"], b"-- --none"),
    ]:
        ended = shell.run("write", *words)
        assert (ended.returncode, ended.stdout) == (2, b"")
        assert told in ended.stderr
    assert float(value_of(application, device, OFFSET)) == -3
    assert value_of(application, device, NAME) == TEXT
    for help_option in ("-h", "--help"):
        assert b"Usage: mirror write" in shell.run("write", device, NAME, help_option).stdout


@pytest.mark.parametrize("text", ["-none-", "-h", "-"])
def test_a_text_that_begins_with_a_dash_goes_behind_two(
    shell: Shell, application: Application, device: str, text: str
) -> None:
    assert shell.run("write", device, NAME, "--", text).returncode == 0
    assert value_of(application, device, NAME) == text


@pytest.mark.parametrize(
    ("form", "how"),
    [([], signal.SIGINT), (["--json"], signal.SIGTERM), (["--csv"], signal.SIGINT)],
    ids=["table", "json", "csv"],
)
def test_a_watch_that_is_ended_has_done_what_it_was_to_do(
    shell: Shell, application: Application, device: str, how: signal.Signals, form: list[str]
) -> None:
    subscribe(application, device)
    with shell.running("watch", "--path", OFFSET, *form) as watching:
        first_line(watching, application, device)
        watching.send_signal(how)
        _, complaint = watching.communicate(timeout=PATIENCE_SECONDS)
    assert (watching.returncode, complaint) == (0, "")


def test_watch_in_csv_begins_with_the_names_of_its_columns(shell: Shell, application: Application) -> None:
    finished = shell.run("watch", "--csv", "--timeout", "0")
    assert finished.stdout.decode() == "at,event,device_id,endpoint_name,path,value,async_id,status,category\n"


def test_table_is_aligned_where_names_are_shown_as_escapes(
    shell: Shell, application: Application, device: str, tmp_path: Path
) -> None:
    other = f"plain-{os.urandom(4).hex()}"
    application.add_device(other, {"path": OFFSET, "value": "1", "writable": True})
    wanted = tmp_path / "wanted.csv"
    wanted.write_text("\n".join(["device,path,value", *(f"{one},{OFFSET},5" for one in (device, other))]))
    finished = shell.run("plan", str(wanted), encoding="ascii")
    heading, *lines = finished.stdout.decode("ascii").splitlines()
    rows = [line for line in lines if OFFSET in line]
    assert len(rows) == 2
    assert {line.index(OFFSET) for line in rows} == {heading.index("path")}


def test_a_watch_of_which_nothing_comes_says_once_beside_its_output_what_brings_values(
    shell: Shell, application: Application, device: str
) -> None:
    # As if it had waited for long.
    at_once = "import mirror_sdk.cli.log_commands as log; log._SILENT_SECONDS = 0"
    with shell.running("watch", "--path", OFFSET, "--json", first=at_once) as watching:
        assert watching.stderr is not None
        assert f"mirror rules --add --path {OFFSET} adds such a rule" in watching.stderr.readline()
        subscribe(application, device)
        assert json.loads(first_line(watching, application, device).splitlines()[0])["path"] == OFFSET
        watching.send_signal(signal.SIGINT)
        _, complaint = watching.communicate(timeout=PATIENCE_SECONDS)
    assert (watching.returncode, complaint) == (0, "")


@pytest.mark.parametrize("file", ["state.csv", "state.parquet"])
def test_a_snapshot_for_which_there_is_no_room_leaves_the_file_as_it_was(
    shell: Shell, device: str, tmp_path: Path, file: str
) -> None:
    (tmp_path / file).write_text("before")
    # What is imported is not to be written half, either.
    no_room = """
import resource, sys
sys.dont_write_bytecode = True
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
"""
    with shell.running("snapshot", str(tmp_path / file), first=no_room) as writing:
        shown, complaint = writing.communicate(timeout=PATIENCE_SECONDS)
    assert (writing.returncode, shown) == (1, "")
    assert complaint == f"Error: {tmp_path / file} cannot be written: File too large\n"
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [(file, "before")]


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_watch_goes_on_when_the_server_is_back_and_says_so(start_server: StartServer, how: signal.Signals) -> None:
    server = start_server("--simulate", "0", "--clock", "manual")
    application = server.application()
    device = "sensor"
    application.add_device(device, {"path": OFFSET, "value": "1", "writable": True, "observable": True})
    subscribe(application, device)
    shell = Shell(server, application)
    with shell.running("watch", "--path", OFFSET) as watching:
        first_line(watching, application, device)
        server.stop(how)
        server.child.close()
        assert watching.stderr is not None
        assert watching.stderr.readline().startswith("waiting for the mirror: ")
        server.start()
        assert watching.stderr.readline() == "the mirror is back\n"
        assert OFFSET in first_line(watching, application, device)
        watching.send_signal(signal.SIGINT)
        _, complaint = watching.communicate(timeout=PATIENCE_SECONDS)
    assert (watching.returncode, complaint) == (0, "")


@pytest.mark.parametrize("form", [[], ["--json"], ["--csv"]], ids=["table", "json", "csv"])
def test_a_watch_whose_reader_has_enough_ends_quietly(
    shell: Shell, application: Application, device: str, form: list[str]
) -> None:
    subscribe(application, device)
    with shell.running("watch", "--path", OFFSET, *form) as watching:
        first_line(watching, application, device)
        assert watching.stdout is not None
        assert watching.stderr is not None
        watching.stdout.close()
        change_until(lambda: watching.poll() is not None, application, device)
        assert (watching.returncode, watching.stderr.read()) == (1, "")


@pytest.mark.parametrize("words", [["read"], ["write", "5"], ["execute"]], ids=" ".join)
def test_who_does_not_wait_for_a_device_is_told_that_the_request_goes_on(
    shell: Shell, application: Application, device: str, words: list[str]
) -> None:
    application.patch_device(id_of(application, device), online=False)
    with shell.running(words[0], device, OFFSET, *words[1:]) as asking:
        while not json.loads(shell.run("requests", "--json").stdout):
            assert asking.poll() is None
        asking.send_signal(signal.SIGINT)
        shown, complaint = asking.communicate(timeout=PATIENCE_SECONDS)
    assert (asking.returncode, shown) == (1, "")
    assert complaint.startswith(
        "what was asked goes on, and the device may do it; 'mirror requests' shows what waits\n"
    )
    assert len(json.loads(shell.run("requests", "--json").stdout)) == 1


@pytest.mark.parametrize(("command", "status"), [("watch", 0), ("lab", 0), ("record", 1)])
def test_a_command_that_is_ended_while_it_loads(command: str, status: int) -> None:
    program = f"""
import mirror_sdk._lazy_group as group

def interrupted(name):
    raise KeyboardInterrupt

group.import_module = interrupted
{COMMANDS["mirror"].replace("main(", f"main(['{command}'], ")}
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=PATIENCE_SECONDS, check=False)
    # What was to be recorded was not.
    assert (ended.returncode, ended.stderr.strip()) == (status, b"Aborted!" if status else b"")


def first_line(watching: subprocess.Popen[str], application: Application, device: str) -> str:
    """The first line it shows, of changes that are made until then."""
    assert watching.stdout is not None
    output = watching.stdout.fileno()
    os.set_blocking(output, False)
    read = bytearray()

    def is_shown() -> bool:
        assert watching.poll() is None
        try:
            read.extend(os.read(output, 4096))
        except BlockingIOError:
            return False
        return b"\n" in read

    change_until(is_shown, application, device)
    os.set_blocking(output, True)
    return read.decode()


def change_until(is_so: Callable[[], bool], application: Application, device: str) -> None:
    device_id = id_of(application, device)
    for value in range(10_000):
        if is_so():
            return
        application.http.put(f"/sim/v1/devices/{device_id}/resources{OFFSET}", json={"value": str(value)})
    pytest.fail("it did not come")


SHOWN = [
    ["devices"],
    ["get", "{device}"],
    ["read", "{device}", NAME],
    ["drift"],
    ["requests"],
    ["get", "nobody-日本"],
    ["write", "{device}", OFFSET, "日本"],
    ["plan", "{plan}"],
    ["plan", "{plan}", "--apply"],
    ["watch", "--device", "{device}", "--timeout", "0"],
    ["日本"],
    ["snapshot", "日本.xlsx"],
    ["--help"],
]


def test_what_the_output_of_a_process_cannot_show_is_an_escape(shell: Shell, device: str) -> None:
    ended = shell.run_process("devices", PYTHONIOENCODING="cp1252")
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert r"\u65e5" in ended.stdout.decode("cp1252")


@pytest.mark.parametrize("words", SHOWN, ids=" ".join)
def test_what_an_output_cannot_show_is_an_escape(
    shell: Shell, application: Application, device: str, tmp_path: Path, words: list[str]
) -> None:
    application.read(id_of(application, device), NAME, "known")
    application.response("known")
    wanted = tmp_path / "gewünscht.csv"
    wanted.write_text(f'device,path,value\n{device},{NAME},"new {TEXT}"\n', encoding="utf-8")
    given = [word.format(device=device, plan=wanted) for word in words]
    ended = shell.run(*given, encoding="ascii")
    told = ended.stdout.decode("ascii") + ended.stderr.decode("ascii")
    assert ended.returncode in {0, 1, 2}
    assert "Traceback" not in told
    assert "日".encode() not in ended.stdout + ended.stderr
    if words[0] in {"get", "read", "devices", "plan"}:
        assert r"\u65e5" in told


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_what_programs_read_is_whole_in_every_encoding(shell: Shell, device: str, encoding: str) -> None:
    (row,) = json.loads(shell.run("read", device, NAME, "--json", encoding=encoding).stdout.decode("ascii"))
    assert row["value"] == TEXT
    shown = shell.run("read", device, NAME, "--csv", encoding=encoding).stdout.decode("utf-8")
    (cells,) = csv.DictReader(io.StringIO(shown))
    assert cells["value"] == TEXT
    listed = shell.run("devices", "--csv", encoding=encoding).stdout.decode("utf-8")
    assert device in [cells["endpoint_name"] for cells in csv.DictReader(io.StringIO(listed))]


@pytest.mark.parametrize(
    ("form", "closed"),
    [([], ">&-"), ([], "2>&-"), ([], "<&-"), ([], ">&- 2>&- <&-"), (["--json"], ">&-"), (["--csv"], ">&-")],
    ids=lambda one: " ".join(one) if isinstance(one, list) else one,
)
def test_a_stream_that_the_shell_closed_takes_everything(shell: Shell, form: list[str], closed: str) -> None:
    command = ["sh", "-c", f'"$@" {closed}', "sh", sys.executable, "-c", COMMANDS["mirror"], "devices", *form]
    environment = child_environment(**shell.base)
    ended = subprocess.run(command, env=environment, capture_output=True, timeout=PATIENCE_SECONDS, check=False)
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert bool(ended.stdout) == (">&-" not in closed.split())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
@pytest.mark.parametrize("words", [["devices"], ["devices", "--json"], ["devices", "--csv"], ["--help"]], ids=" ".join)
def test_an_output_that_is_full_is_told_in_one_line(shell: Shell, words: list[str]) -> None:
    command = ["sh", "-c", '"$@" >/dev/full', "sh", sys.executable, "-c", COMMANDS["mirror"], *words]
    environment = child_environment(**shell.base)
    ended = subprocess.run(command, env=environment, capture_output=True, timeout=PATIENCE_SECONDS, check=False)
    assert (ended.returncode, ended.stdout) == (1, b"")
    (line,) = ended.stderr.splitlines()
    assert line == b"Error: [Errno 28] No space left on device"


@pytest.mark.parametrize(
    ("variables", "cure"),
    [
        ({}, b"write it in that"),
        ({"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, b"PYTHONUTF8=1"),
    ],
    ids=["utf-8", "ascii"],
)
def test_a_word_that_is_no_text_is_told_in_one_line(shell: Shell, variables: dict[str, str], cure: bytes) -> None:
    for words in (["get", "k\udcffse"], ["devices", "--type", "\udcff"], ["write", "nobody", NAME, "h\udcff"]):
        ended = shell.run_process(*words, **variables)
        (line,) = ended.stderr.splitlines()
        assert (ended.returncode, ended.stdout, line.startswith(b"Error: '")) == (1, b"", True)
        assert cure in line


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_the_operators_commands_show_what_they_can(tmp_path: Path, encoding: str) -> None:
    def run(*words: str) -> subprocess.CompletedProcess[bytes]:
        command = [sys.executable, "-c", COMMANDS["mirror-server"], *words, "--database", url]
        environment = child_environment(PYTHONIOENCODING=encoding)
        return subprocess.run(command, env=environment, capture_output=True, timeout=PATIENCE_SECONDS, check=False)

    url = f"sqlite:///{tmp_path / '日本.db'}"
    assert run("keys", "create", "日本 €").returncode == 0
    listed = run("keys", "list")
    assert listed.returncode == 0
    assert r"\u65e5\u672c" in listed.stdout.decode(encoding)
    written = run("backup", str(tmp_path / "日.db"))
    assert (written.returncode, r"\u65e5.db" in written.stdout.decode(encoding)) == (0, True)
    refused = run("keys", "renew", "東京")
    assert (refused.returncode, r"\u6771" in refused.stderr.decode(encoding)) == (1, True)


def test_after_a_failed_canary_the_others_are_not_sent(
    shell: Shell, application: Application, device: str, tmp_path: Path
) -> None:
    others = [f"other-{os.urandom(4).hex()}" for _ in range(2)]
    for name in others:
        application.add_device(name, {"path": OFFSET, "value": "1", "writable": True})
    application.patch_device(id_of(application, device), answer="reject")
    wanted = tmp_path / "wanted.csv"
    rows = "".join(f"{name},{OFFSET},20\n" for name in (device, *others))
    wanted.write_text(f"device,path,value\n{rows}", encoding="utf-8")
    ended = shell.run("plan", str(wanted), "--apply", "--json")
    assert ended.returncode == 1
    assert [row["status"] for row in json.loads(ended.stdout)] == ["failure", "not sent", "not sent"]
    assert [row["latency"] is None for row in json.loads(ended.stdout)] == [False, True, True]
    assert b"stopped: the first write" in ended.stderr
    table = shell.run("plan", str(wanted), "--apply").stdout.decode()
    assert table.count("not sent") == 2
    assert "queued" not in table


def test_a_plan_applied_by_the_command_tells_spans_of_the_clock_here(
    shell: Shell, application: Application, device: str, tmp_path: Path
) -> None:
    wanted = tmp_path / "wanted.csv"
    wanted.write_text(f"device,path,value\n{device},{OFFSET},20\n", encoding="utf-8")
    (row,) = json.loads(shell.run("plan", str(wanted), "--apply", "--json").stdout)
    assert row["status"] == "success"
    assert 0 <= row["latency"] < PATIENCE_SECONDS


def test_files_are_utf_8_whatever_the_locale(shell: Shell, device: str, tmp_path: Path) -> None:
    program = f"""
from mirror_sdk import MirrorClient
with MirrorClient.from_env() as client:
    device_id = client.get_directory_device({device!a}).id
    client.plan([(device_id, {NAME!r}, {TEXT!a})]).save("plan.json")
    print(ascii(client.load_plan("plan.json").planned[0].endpoint_name))
    client.snapshot_dataset("fleet", endpoint_name={device!a})
"""
    environment = child_environment(**shell.base, LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    command = [sys.executable, "-c", program]
    ended = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert (ended.returncode, ended.stdout.decode().strip()) == (0, ascii(device)), ended.stderr
    assert device in (tmp_path / "plan.json").read_text(encoding="utf-8")
