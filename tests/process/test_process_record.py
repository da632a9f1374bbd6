"""Recordings during kills of the server and of the recorder."""

import signal
import subprocess
import sys

import pytest
from click.testing import CliRunner
from process_server import PATIENCE_SECONDS, child_environment, wait_until
from recording_readers import READERS
from resource_paths import TEMPERATURE

from mirror_sdk import MirrorClient, Simulator
from mirror_sdk.cli import main
from mirror_sdk.recording import Recording

pytestmark = pytest.mark.process

RESOURCES = [{"path": TEMPERATURE, "value": "0", "observable": True}]
COMMAND = [sys.executable, "-c", "from mirror_sdk.cli import main; main()", "record"]


@pytest.fixture
def server(start_server):
    return start_server("--simulate", "0")


@pytest.fixture
def key(server):
    return server.key()


@pytest.fixture
def client(server, key):
    with MirrorClient(server.url, key) as made:
        yield made


@pytest.fixture
def change(client):
    """Change the observed temperature of a device."""
    simulator = Simulator(client)
    device_id = simulator.add_device("thermometer", RESOURCES)
    client.subscribe(device_id, TEMPERATURE)

    def change(*values):
        for value in values:
            simulator.set_value(device_id, TEMPERATURE, float(value))

    return change


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "run.parquet"


@pytest.fixture
def start_recorder(server, key, folder):
    """Start the command in separate processes with one key."""
    running = []

    def start(*options):
        child = subprocess.Popen(
            [*COMMAND, str(folder), *options],
            env=child_environment(API_HOST=server.url, API_KEY=key),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        running.append(child)
        assert child.stderr.readline().startswith("recording into")
        return child

    yield start
    for child in running:
        child.kill()
        child.communicate()


def seen(folder):
    """Return the numbers of the entries, which are equal for every reader."""
    (numbers,) = {tuple(sorted(read(folder)["seq"])) for read in READERS.values()}
    return list(numbers)


def observed(folder):
    """Return each value once, in the order of the recording. A device repeats its value when it is subscribed again."""
    frame = Recording(folder).events()
    return [value for value in frame[frame["event"] == "observation"]["value_num"].unique() if value]


def test_a_recording_over_a_kill_of_the_server_is_complete(server, client, change, folder):
    with client.record(folder) as recorder:
        for beginning in (1, 11):
            change(*range(beginning, beginning + 10))
            wait_until(lambda last=beginning + 9: last in observed(folder), "the recorder to catch up")
            server.kill()
            server.start()
            assert recorder.is_running
        change(21)
    assert observed(folder) == list(range(1, 22))
    assert recorder.audit().complete, str(recorder.audit())


def test_next_recorder_continues_after_a_kill_without_loss_or_extra_rules(start_recorder, client, change, folder):
    client.subscriptions.rules.replace([{"endpoint_name": "others"}])
    others = client.subscriptions.rules.list()
    killed = start_recorder("--path", "/3303/*", "--subscribe")
    assert [rule.resource_path for rule in client.subscriptions.rules.list()] == [None, ["/3303/*"]]
    change(*range(1, 11))
    wait_until(lambda: 3 in observed(folder), "a part of it to be recorded")
    running, before = seen(folder), Recording(folder).events()["seq"].tolist()
    assert running == before[: len(running)]
    killed.send_signal(signal.SIGKILL)
    killed.wait(PATIENCE_SECONDS)
    change(*range(11, 21))
    assert len(client.subscriptions.rules.list()) == 2
    left = Recording(folder).events()["seq"].tolist()
    assert seen(folder) == left[: len(seen(folder))]
    finalized = CliRunner().invoke(main, ["record", str(folder), "--finalize"])
    assert finalized.stdout.startswith("complete from ")
    assert seen(folder) == left
    last = start_recorder("--path", "/3303/*")
    last.send_signal(signal.SIGTERM)
    output, _ = last.communicate(timeout=PATIENCE_SECONDS)
    assert last.returncode == 0
    assert output.startswith("complete from ")
    assert observed(folder) == list(range(1, 21))
    assert seen(folder) == Recording(folder).events()["seq"].tolist()
    assert client.subscriptions.rules.list() == others


def test_the_command_records_for_a_while_and_audits(server, key, change, folder):
    def run(*arguments, status=0):
        runner = CliRunner(env={"API_HOST": server.url, "API_KEY": key})
        ended = runner.invoke(main, ["record", str(folder), *arguments], catch_exceptions=False)
        assert ended.exit_code == status, ended.output
        return ended

    assert "is not a recording" in run("--audit", status=2).stderr
    run("--device", "thermometer", "--path", "/3303/*", "--seconds", "0")
    change(1)
    again = run("--device", "thermometer", "--path", "/3303/*", "--seconds", "0")
    assert again.stdout.startswith("complete from ")
    assert observed(folder) == [1.0]
    assert run("--audit").stdout == again.stdout
    assert "use another folder" in run("--seconds", "0", status=1).stderr
