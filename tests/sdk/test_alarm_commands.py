"""``mirror watch --alarm``: its lines, and the program that it runs."""

import json
import shlex
import sys

import pytest
from resource_paths import TEMPERATURE

from mirror_sdk.cli.alarm_program import AlarmProgram
from mirror_sdk.cli.group import in_words_of_the_shell

CONDITION = f"{TEMPERATURE} > 25"


@pytest.fixture
def watch(shell, tmp_path, simulator, device_id):
    """Start a watch with a state file, change the temperature, and watch until the present."""

    def watch(*words, values=(26.0,)):
        options = ("--timeout", 0, "--subscribe", "--state-file", tmp_path / "state.json")
        assert shell("watch", "--alarm", CONDITION, *options).output == ""
        for value in values:
            simulator.advance(1)
            simulator.set_value(device_id, TEMPERATURE, value)
        return shell("watch", "--alarm", CONDITION, *options, *words)

    return watch


def test_watch_prints_a_line_for_each_alarm(watch, device_id):
    lines = [json.loads(line) for line in watch("--json", values=(26.0, 27.0, 20.0)).stdout.splitlines()]
    assert [(line["kind"], line["value"], line["extreme"]) for line in lines] == [
        ("started", 26.0, 26.0),
        ("ended", 20.0, 27.0),
    ]
    assert {(line["device_id"], line["condition"], line["hidden"]) for line in lines} == {(device_id, CONDITION, 0.0)}
    assert watch("--limit", 1, "--csv", values=(26.0, 20.0)).stdout.count("started") == 1


def test_line_without_a_format_is_readable(watch):
    assert watch().stdout.rstrip().endswith(f"{TEMPERATURE}: {CONDITION}, value 26.0")


def test_program_receives_the_alarm_in_its_environment(watch, tmp_path):
    noted = tmp_path / "alarm.json"
    # A shell would interpret the semicolon and the variable.
    script = "import os, sys; open(sys.argv[1], 'w').write(os.environ['MIRROR_ALARM'] + os.environ['MIRROR_ALARM_GAP'])"
    command = shlex.join([sys.executable, "-c", script, str(noted), ";", "$HOME"])
    result = watch("--exec", command)
    assert (result.exit_code, result.stderr) == (0, "")
    alarm = json.loads(noted.read_text().removesuffix("false"))
    assert (alarm["kind"], alarm["value"], alarm["condition"]) == ("started", 26.0, CONDITION)


def test_output_of_the_program_is_not_between_the_lines_of_alarms(watch, capfd):
    result = watch("--json", "--exec", shlex.join([sys.executable, "-c", "print('sent')"]))
    assert json.loads(result.stdout)["kind"] == "started"
    assert capfd.readouterr() == ("", "sent\n")


def test_failing_program_is_reported_and_the_watch_continues(watch):
    result = watch("--exec", shlex.join([sys.executable, "-c", "raise SystemExit(3)"]), values=(26.0, 20.0))
    assert result.exit_code == 0
    assert result.stderr.splitlines() == [f"{sys.executable} ended with the exit status 3"] * 2


def test_program_that_starts_too_often_waits(watch, monkeypatch):
    slept = []
    monkeypatch.setattr(AlarmProgram.__init__, "__defaults__", (lambda: 0.0, slept.append))
    command = shlex.join([sys.executable, "-c", ""])
    result = watch("--exec", command, "--exec-per-minute", 1, values=(26.0, 20.0))
    assert slept == [60.0]
    assert "waiting for 60 s before the next start" in result.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--alarm", "hot"), "expected a path such as /3303/0/5700, found 'hot'"),
        (("--alarm", CONDITION, "--path", TEMPERATURE), "--path and --alarm cannot be combined"),
        (("--alarm", CONDITION, "--exec", "no-such-program"), "there is no program 'no-such-program'"),
        (("--alarm", CONDITION, "--exec", __file__), "is not executable; make it so with: chmod +x"),
        (("--alarm", CONDITION, "--exec", "'"), "No closing quotation"),
        (("--exec", "true"), "--exec needs --alarm"),
        (("--subscribe",), "--subscribe needs --alarm"),
    ],
)
def test_invalid_options_are_rejected(shell, words, message):
    result = shell("watch", "--timeout", "0", *words)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


def test_messages_name_the_options_of_the_shell(shell, tmp_path, device_id):
    # In tests, a warning is an error.
    warned = shell("watch", "--timeout", 0, "--alarm", CONDITION).exception
    assert "pass --subscribe, or add rules with 'mirror rules --add'" in in_words_of_the_shell(str(warned))
    result = shell("watch", "--timeout", 0, "--alarm", CONDITION, "--state-file", tmp_path / "missing" / "state.json")
    assert "--state-file: the folder does not exist" in result.stderr
