"""Messages of the command mirror without results or events, and complete output files."""

import errno
import json
import os
import stat

import pytest
from click import ClickException
from client_test_data import DIMMER, SENSOR

from mirror_sdk.cli.output_files import replacing
from mirror_sdk.cli.plan_files import delimiter_of

pytestmark = pytest.mark.keeps_history

NOTHING = {
    "devices": "'mirror-device' imitates one",
    "device-events": "no device has registered or deregistered yet",
    "devices --type nothing": "without options 'mirror devices' lists all",
    "get empty": "empty has reported no resources yet",
    "get sensor-1 --path /9/*": "'mirror get sensor-1' lists its resources",
    "requests": "no request of this key waits for a response",
    "rules": "'mirror rules --add'",
    "drift": "--unconfirmed",
    "history sensor-1 --begin 2026-01-05T09:00Z": "nothing happened to sensor-1",
    "watch --timeout 0": "To add a rule: mirror rules --add --device '*'.",
    "watch --timeout 0 --path /3303/*": "To add a rule: mirror rules --add --path '/3303/*'.",
    "watch --timeout 0 --device sensor-1 --path /1/0/1": "mirror rules --add --device sensor-1 --path /1/0/1.",
}


@pytest.mark.parametrize(
    ("words", "form"),
    [
        *((words, "") for words in NOTHING),
        *((words, form) for words in ("devices", "watch --timeout 0") for form in ("--json", "--csv")),
    ],
)
def test_empty_result_is_explained_on_standard_error(shell, simulator, words, form):
    if any(name in words for name in ("sensor-1", "empty")):
        simulator.add_device("sensor-1", [SENSOR])
        simulator.add_device("empty", [])
        simulator.advance(7200)
    result = shell(*words.split(), *form.split())
    assert result.exit_code == 0, result.output
    (line,) = result.stderr.splitlines()
    assert NOTHING[words] in line
    if words.startswith("watch"):
        # A CSV always has column names.
        assert len(result.stdout.splitlines()) == (form == "--csv")
    elif form == "--json":
        assert json.loads(result.stdout) == []
    else:
        assert len(result.stdout.splitlines()) == (1 if form else 0)


WRONG = {
    ("get", "my-api_key"): (1, "'my-api_key'"),
    ("get", "base_url"): (1, "'base_url'"),
    ("get", ""): (2, "the value is empty; pass an id or an endpoint name"),
    ("watch", "--device", ""): (2, "the value is empty"),
    ("rules", "--add", "--device", "", "--path", "/3303/*"): (2, "--device: the value is empty; '*' matches all"),
    ("rules", "--add", "--device", "x" * 65): (1, "Error: --device: takes at most 64 characters"),
    ("rules", "--add", "--type", "a*b"): (1, "Error: --type: 'a*b': '*' is allowed only at the end"),
    ("read", "sensor-1", "/3303/0/5700", "--expiry-seconds", "2592001"): (2, "is not in the range"),
    ("write", "sensor-1", "/3311/0/5851", "1", "--if-match", "9" * 30): (1, "--if-match 999"),
    ("history", "sensor-1", "--since", "999999999d"): (2, "before the year 1"),
    ("--timeout", "1e-9", "devices"): (3, "pass a longer --timeout before the command"),
    ("plan", "{folder}/nothing.csv"): (2, "does not exist"),
    ("plan", "{folder}"): (2, "is a directory"),
    ("raed",): (2, "no command 'raed'. Did you mean 'read' or"),
    ("help", "tabels"): (2, "no topic 'tabels'. Did you mean 'tables'? Topics are cassettes"),
    ("devices", "--json", "--csv"): (2, "--json and --csv cannot be combined; remove one of them"),
    ("rules", "--remove", "--add", "--path", "/3303/*"): (2, "--remove and --add cannot be combined"),
    ("snapshot", "{folder}/folder.csv"): (2, "is a folder"),
    ("snapshot", "{folder}/none/state.csv"): (1, "there is no folder"),
    ("record", "{folder}/none", "--audit"): (2, "'mirror record FOLDER' starts one"),
    ("snapshot", "{folder}/state.csv", "--max-snapshot-bytes", "9"): (1, "(--max-snapshot-bytes)"),
}


def test_errors_name_options_and_commands_of_the_shell(shell, simulator, tmp_path):
    simulator.add_device("sensor-1", [SENSOR | {"writable": True}, DIMMER])
    (tmp_path / "folder.csv").mkdir()
    for words, (status, complaint) in WRONG.items():
        result = shell(*(word.format(folder=tmp_path) for word in words))
        assert (result.exit_code, result.stdout) == (status, ""), (words, result.output)
        assert complaint in result.stderr, words
        assert len(result.stderr.splitlines()) == (4 if status == 2 else 1), words


def test_empty_recording_explains_how_to_receive_values(shell, simulator, tmp_path):
    simulator.add_device("sensor-1", [SENSOR])
    result = shell("record", tmp_path / "nothing", "--seconds", "0")
    assert result.exit_code == 0, result.output
    assert result.stderr.splitlines()[-1].startswith("no events received; ")
    assert "--subscribe" in result.stderr
    assert "no events received" not in shell("record", tmp_path / "nothing", "--audit").stderr
    result = shell("record", tmp_path / "something", "--seconds", "0", "--subscribe")
    assert "no events received" not in result.stderr


def test_delimiter_is_found_in_the_heading_of_a_plan():
    for mark in (",", ";", "\t"):
        for more in ("", "{}what{}", '{}"a, b; c"', "{}why and how"):
            heading = mark.join(["device", "path", "value"]) + more.replace("{}", mark)
            assert delimiter_of(f"{heading}\r\n") == mark
    assert delimiter_of("device;path;value;what, why, how, when\n") == ";"
    assert delimiter_of("nothing;that,is;known\n") == ","


def test_watch_without_events_explains_how_to_receive_them_once(shell, monkeypatch):
    monkeypatch.setattr("mirror_sdk.cli.event_commands._SILENT_SECONDS", 0)
    monkeypatch.setattr("mirror_sdk.cli.event_commands._POLL_SECONDS", 0.01)
    (line,) = shell("watch", "--timeout", "1").stderr.splitlines()
    assert line.startswith("no events received for 0 s, still watching; a value arrives when it changes and a rule")


def write(file, content="after", error=None):
    with replacing(file) as unfinished:
        unfinished.write_text(content)
        if error is not None:
            raise error


@pytest.fixture
def file(tmp_path):
    found = tmp_path / "state.csv"
    found.write_text("before")
    found.chmod(0o640)
    return found


def test_file_is_replaced_atomically_with_the_same_permissions(file):
    with pytest.raises(KeyboardInterrupt):
        write(file, "half", KeyboardInterrupt)
    assert [(one.name, one.read_text()) for one in file.parent.iterdir()] == [("state.csv", "before")]
    with replacing(file) as unfinished:
        unfinished.write_text("after")
        assert stat.S_IMODE(unfinished.stat().st_mode) == 0o600
        assert file.read_text() == "before"
    assert [(one.name, one.read_text()) for one in file.parent.iterdir()] == [("state.csv", "after")]
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


def test_file_that_cannot_be_replaced_is_overwritten(file, monkeypatch):
    def reject(*_):
        raise OSError(errno.EBUSY, "busy")

    # The test cannot mount a file system without root.
    with monkeypatch.context() as mounted:
        mounted.setattr(os, "replace", reject)
        write(file)
    assert [(one.name, one.read_text()) for one in file.parent.iterdir()] == [("state.csv", "after")]
    missing = file.parent / "missing" / "state.csv"
    with pytest.raises(ClickException, match="cannot be written: No such file"):
        write(missing)


def test_pipe_and_link_are_written_and_not_replaced(file):
    pipe, link = file.with_name("pipe.csv"), file.with_name("latest.csv")
    os.mkfifo(pipe)
    link.symlink_to(file.name)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write(pipe)
        assert os.read(reading, 99) == b"after"
    finally:
        os.close(reading)
    write(link, "through the link")
    assert (pipe.is_fifo(), link.is_symlink(), file.read_text()) == (True, True, "through the link")
    assert {one.name for one in file.parent.iterdir()} == {"state.csv", "pipe.csv", "latest.csv"}
