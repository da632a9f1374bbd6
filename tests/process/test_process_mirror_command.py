"""The ``mirror`` command against a real server: its output for people and programs, and its exit status."""

from __future__ import annotations

import csv
import json
import os
import pty
import re
import signal
import subprocess
import sys
import termios
from collections.abc import Callable

import click
import pandas as pd
import pytest
from click.testing import CliRunner, Result
from process_server import Application, ServerProcess, child_environment, wait_until
from resource_paths import LEVEL, SET_POINT, SWITCH, TEMPERATURE

from mirror_sdk import MirrorClient
from mirror_sdk.cli import main
from mirror_sdk.errors import CATEGORY_HINTS, device_request_failed
from mirror_sdk.frames import mirror, read_parquet

pytestmark = pytest.mark.process

Run = Callable[..., Result]


@pytest.fixture
def light(application: Application) -> str:
    name = f"cli-{os.urandom(4).hex()}"
    application.name = name
    return application.add_device(
        name,
        {"path": LEVEL, "value": "10", "writable": True, "observable": True},
        {"path": TEMPERATURE, "value": "21.5", "observable": True},
    )


@pytest.fixture
def run(application: Application, shared_server: ServerProcess) -> Run:
    runner = CliRunner(env={"API_HOST": shared_server.url, "API_KEY": application.key})

    def run(*arguments: str, status: int = 0) -> Result:
        result = runner.invoke(main, arguments)
        assert result.exit_code == status, (result.output, result.exception)
        assert status == 0 or not result.stderr.startswith("Traceback")
        return result

    return run


def test_devices_are_listed_for_people_and_programs(run, application, light):
    assert application.name in run("devices").stdout
    (mine,) = [row for row in json.loads(run("devices", "--json").stdout) if row["id"] == light]
    assert (mine["endpoint_name"], mine["state"], mine["queue_mode"]) == (application.name, "registered", False)
    # A device without a name has its endpoint name.
    assert mine["name"] == application.name
    assert application.http.put(f"/v3/devices/{light}", json={"name": "Desk lamp"}).status_code == 200
    assert "Desk lamp" in run("devices").stdout
    rows = list(csv.DictReader(run("devices", "--csv").stdout.splitlines()))
    assert light in [row["id"] for row in rows]
    assert len(json.loads(run("devices", "--json", "--limit", "1").stdout)) == 1
    assert json.loads(run("devices", "--json", "--type", "nothing").stdout) == []
    (mine,) = [row for row in json.loads(run("devices", "--connections", "--json").stdout) if row["id"] == light]
    assert (mine["protocol"], mine["reachable"], mine["lifetime_seconds"]) == ("simulated", True, 86400)
    assert "protocol" not in run("devices", "--csv").stdout


def test_device_is_written_read_and_displayed(run, application, light):
    assert run("write", application.name, LEVEL, "40").stdout == ""
    assert run("read", light, LEVEL).stdout == "40\n"
    (row,) = json.loads(run("get", application.name, "--path", "/3311/*", "--json").stdout)
    assert (row["reported"], row["desired"], row["status"]) == ("40", "40", "success")
    assert row["reported_at"].endswith("+00:00")
    output = run("get", light).stdout
    assert LEVEL in output
    assert TEMPERATURE in output
    assert json.loads(run("read", light, TEMPERATURE, "--json").stdout) == [
        {"device_id": light, "path": TEMPERATURE, "kind": "number", "value": 21.5}
    ]
    assert run("read", light, LEVEL, "--csv").stdout.splitlines()[1] == f"{light},{LEVEL},number,40"
    run("write", light, LEVEL, "55", "--if-match", str(row["desired_revision"]))
    rejected = run("write", light, LEVEL, "70", "--if-match", str(row["desired_revision"]), status=1)
    assert "DESIRED_CHANGED" in rejected.stderr


def test_subscriptions_begin_and_end(run, application, light):
    assert run("subscribe", light, TEMPERATURE).stdout == ""
    assert application.http.get(f"/v2/subscriptions/{light}").text == TEMPERATURE
    assert run("subscribe", light, TEMPERATURE, "--end").stdout == ""
    assert application.http.get(f"/v2/subscriptions/{light}").status_code == 404


def test_rules_are_listed_added_and_removed_and_others_stay(run, application, light):
    rules = "/v2/subscriptions"
    application.http.put(rules, json=[{"endpoint-name": "others"}])
    assert json.loads(run("rules", "--json").stdout) == [
        {"endpoint_name": "others", "endpoint_type": None, "resource_path": None}
    ]
    mine = ("--device", light, "--path", "/3311/*", "--path", TEMPERATURE)
    for _ in range(2):
        assert f"{light}                 /3311/* {TEMPERATURE}" in run("rules", "--add", *mine).stdout
    both = [{"endpoint-name": "others"}, {"endpoint-name": light, "resource-path": ["/3311/*", TEMPERATURE]}]
    assert application.http.get(rules).json() == both
    assert application.http.get(f"{rules}/{light}").text.split() == [TEMPERATURE, LEVEL]
    assert list(csv.reader(run("rules", "--csv").stdout.splitlines()))[2] == [light, "", f"/3311/* {TEMPERATURE}"]
    run("rules", "--remove", *mine)
    assert application.http.get(rules).json() == both[:1]
    assert "no rule with exactly these" in run("rules", "--remove", *mine, status=1).stderr
    for misused in (["--add"], ["--remove"], ["--path", "/3311/*"]):
        assert "'*' matches all" in run("rules", *misused, status=2).stderr
    application.http.delete(rules)


REFUSED = {
    ("write", "{light}", TEMPERATURE, "1", "--allow-read-only"): "METHOD_NOT_ALLOWED",
    ("write", "{light}", TEMPERATURE, "1"): "if this device accepts writes anyway, pass --allow-read-only\n",
    ("execute", "{light}", TEMPERATURE): "the resource cannot be executed",
    ("read", "{light}", "/3303/0/5601"): "; 'mirror get {light}' lists its resources",
    ("get", "0" * 32): "'mirror devices' lists all devices",
    ("get", "nobody"): "DEVICE_NOT_FOUND",
}


@pytest.mark.parametrize("words", REFUSED, ids=" ".join)
def test_rejections_are_one_line_with_commands_of_the_shell(run, light, words):
    result = run(*(word.format(light=light) for word in words), status=1)
    assert REFUSED[words].format(light=light) in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert "client." not in result.stderr


def test_no_device_failure_names_python_arguments(monkeypatch):
    for category in CATEGORY_HINTS:

        def fail(category: str = category, **_: object) -> None:
            raise device_request_failed(category=category, status=400, device_id="d", path=LEVEL, async_id="a")

        monkeypatch.setattr(MirrorClient, "from_env", fail)
        result = CliRunner().invoke(main, ["read", "d", LEVEL])
        assert result.exit_code == 1
        assert category in result.stderr
        assert not re.search(r"\w\(|(?<!-)\b(expiry_seconds|resources|allow_read_only)", result.stderr)


def test_no_response_in_time_is_status_3(run, application, light):
    application.patch_device(light, online=False)
    result = run("read", light, LEVEL, "--timeout", "0", status=3)
    assert "may still finish: it waits until " in result.stderr
    assert " for the device, or for an earlier request to finish. --expiry-seconds limits this wait." in result.stderr
    assert " Pass a longer --timeout, or resume the request in Python with client.requests.resume(" in result.stderr
    assert result.stderr.endswith("'mirror devices --connections' whether the device can be reached\n")
    (waiting,) = [row for row in json.loads(run("requests", "--json").stdout) if row["device_id"] == light]
    assert (waiting["method"], waiting["uri"], waiting["state"]) == ("GET", LEVEL, "waiting")


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["write", "{light}", LEVEL, "bright"], "takes a whole number"),
        (["write", "{light}", LEVEL, "5,5"], "a comma is not a decimal point"),
        (["write", "{light}", "/3311/0/5850", "maybe"], "write true or false"),
        (["get", "{light}", "--path", "3311"], "--path"),
        (["watch", "--path", "*/5700"], "--path"),
        (["read", "{light}", "3311"], "PATH"),
        (["snapshot", "state.xlsx"], "--dataset"),
        (["snapshot", "state.csv", "--overwrite"], "--overwrite"),
        (["devices", "--state", "asleep"], "--state"),
        (["devices", "--limit", "0"], "--limit"),
    ],
)
def test_wrong_usage_is_status_2_and_names_the_mistake(run, light, arguments, word):
    result = run(*[argument.format(light=light) for argument in arguments], status=2)
    assert word in result.stderr


@pytest.mark.filterwarnings("always::mirror_sdk.EmptyTableWarning")
def test_drift_is_displayed_and_can_be_checked(run, application, light):
    run("write", light, LEVEL, "40")
    run("read", light, LEVEL)
    found = [row for row in json.loads(run("drift", "--json").stdout) if row["device"] == application.name]
    assert found == []
    application.http.put(f"/sim/v1/devices/{light}/resources{LEVEL}", json={"value": "20"})
    run("read", light, LEVEL)
    (row,) = [row for row in json.loads(run("drift", "--json").stdout) if row["device"] == application.name]
    assert (row["desired"], row["reported"], row["kind"], row["path"]) == (40.0, 20.0, "reverted", LEVEL)
    run("drift", "--check", "--path", "/3311/*", status=1)
    assert "none of these devices has /9/*" in run("drift", "--check", "--path", "/9/*").stderr
    (cells,) = [line.split() for line in run("drift").stdout.splitlines() if application.name in line]
    # In the format of "get".
    assert {"40", "20", "reverted"} <= set(cells)


def test_the_state_of_the_fleet_is_written_into_a_file_or_a_folder(run, light, tmp_path):
    table, file, folder = tmp_path / "state.csv", tmp_path / "state.parquet", tmp_path / "fleet"
    for words in ([str(table)], [str(file)], [str(folder), "--dataset"]):
        assert "wrote" in run("snapshot", *words, "--path", "/3303/*").stderr
    for frame in (pd.read_csv(table), read_parquet(file), read_parquet(folder)):
        assert light in frame["device_id"].tolist()
        assert set(frame["object_id"]) == {3303}
    assert "--overwrite" in run("snapshot", str(folder), "--dataset", status=1).stderr
    run("snapshot", str(folder), "--dataset", "--overwrite")
    assert {3303} < set(read_parquet(folder)["object_id"])


PSEUDONYM_KEY = "not to be guessed, 4711"


@pytest.mark.parametrize(("ending", "key_source"), [("parquet", "environment"), ("csv", "file")])
def test_a_file_to_be_shared_has_pseudonyms(
    run, monkeypatch, light, application, shared_server, tmp_path, ending, key_source
):
    file, key = tmp_path / f"state.{ending}", tmp_path / "secret"
    key.write_text(f"{PSEUDONYM_KEY}\n")
    arguments = ["snapshot", str(file), "--pseudonymize"]
    if key_source == "file":
        arguments += ["--pseudonym-key-file", str(key)]
    else:
        monkeypatch.setenv("MIRROR_PSEUDONYM_KEY", PSEUDONYM_KEY)
    result = run(*arguments)
    assert "endpoint_name: " in result.stderr
    assert "wrote" in result.stderr
    assert not any(word in result.output + result.stderr for word in (PSEUDONYM_KEY, light, application.name))
    frame = read_parquet(file) if ending == "parquet" else pd.read_csv(file)
    with MirrorClient(shared_server.url, application.key) as client:
        expected = mirror(client.fleet.snapshot([light])).pseudonymize(PSEUDONYM_KEY)
    assert set(expected["device_id"]) < set(frame["device_id"])
    assert light not in set(frame["device_id"])
    assert not any(word.encode() in file.read_bytes() for word in (light, application.name, PSEUDONYM_KEY))


@pytest.mark.parametrize(
    ("arguments", "key", "word"),
    [
        (["--pseudonymize"], None, "MIRROR_PSEUDONYM_KEY"),
        (["--pseudonymize"], "too short", "the key has 9 bytes"),
        (["--pseudonymize", "--dataset"], PSEUDONYM_KEY, "--pseudonymize: cannot be combined with --dataset"),
        (["--pseudonymize", "--pseudonym-key-file", "nowhere.key"], None, "nowhere.key"),
        (["--pseudonym-key-file", __file__], None, "only applies to --pseudonymize"),
    ],
)
def test_without_a_key_nothing_is_written(run, monkeypatch, tmp_path, arguments, key, word):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MIRROR_PSEUDONYM_KEY", raising=False)
    if key is not None:
        monkeypatch.setenv("MIRROR_PSEUDONYM_KEY", key)
    result = run("snapshot", "state.parquet", *arguments, status=2)
    assert word in result.stderr
    assert key is None or key not in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_terminal_prompts_for_the_key_without_echo(application, shared_server, light, tmp_path):
    ours, theirs = pty.openpty()
    environment = child_environment(API_HOST=shared_server.url, API_KEY=application.key)
    program = "from mirror_sdk.cli import main; main()"
    command = [sys.executable, "-c", program, "snapshot", "state.parquet", "--pseudonymize"]
    # Without its own terminal, so that the process does not prompt on that of the test run.
    process = subprocess.Popen(
        command, stdin=theirs, stderr=subprocess.PIPE, cwd=tmp_path, env=environment, start_new_session=True
    )
    assert process.stderr is not None
    try:
        error_output = b""
        for question in (b"Key of the pseudonyms", b"Repeat"):
            while question not in error_output and (part := os.read(process.stderr.fileno(), 4096)):
                error_output += part
            wait_until(lambda: not termios.tcgetattr(theirs)[3] & termios.ECHO, "what is written is not shown")
            os.write(ours, f"{PSEUDONYM_KEY}\n".encode())
        error_output += process.communicate(timeout=60)[1]
    finally:
        process.kill()
        process.wait()
        os.close(ours)
        os.close(theirs)
    assert process.returncode == 0, error_output
    assert PSEUDONYM_KEY.encode() not in error_output
    frame = read_parquet(tmp_path / "state.parquet")
    assert light not in set(frame["device_id"])
    assert set(frame["device_id"].astype(object).str.partition("-")[0]) == {"device"}


def test_names_and_paths_of_the_device_are_completed(application, shared_server, light):
    def complete(words: str, at: int) -> list[str]:
        variables = {"COMP_WORDS": words, "COMP_CWORD": str(at), "_MIRROR_COMPLETE": "bash_complete"}
        runner = CliRunner(env={"API_HOST": shared_server.url, "API_KEY": application.key, **variables})
        output = runner.invoke(main, prog_name="mirror").stdout
        return [line.removeprefix("plain,") for line in output.split()]

    assert application.name in complete(f"mirror get {application.name[:6]}", 2)
    assert complete(f"mirror read {application.name} /33", 3) == [TEMPERATURE, LEVEL]
    assert complete(f"mirror write {light} /3311", 3) == [LEVEL]
    assert complete("mirror read unknown-device /33", 3) == []


def commands() -> list[tuple[str, click.Command]]:
    context = click.Context(main)
    found = [(name, main.get_command(context, name)) for name in main.list_commands(context)]
    return [(name, command) for name, command in found if command is not None]


def test_every_command_has_help_with_its_options_and_examples_on_lines_of_their_own():
    for name, command in [("", main), *commands()]:
        result = CliRunner().invoke(main, [name, "--help"] if name else ["--help"])
        assert result.exit_code == 0
        examples = [line for line in result.stdout.splitlines() if line.startswith("    mirror ")]
        assert examples, name
        assert all(name in line for line in examples)
        assert "\\b" not in result.stdout
        assert command.help
        for parameter in command.params:
            for option in getattr(parameter, "opts", []):
                assert option.lstrip("-").lower() in result.output.lower()


def test_plan_is_displayed_applied_and_undone(run, application, light, tmp_path):
    plan_file, before = tmp_path / "wanted.csv", tmp_path / "before.csv"
    run("read", application.name, LEVEL)
    plan_file.write_text(f"device,path,value\n{application.name},{LEVEL},55\n")
    rows = json.loads(run("plan", str(plan_file), "--json").stdout)
    assert [(row["current"], row["wanted"], row["decision"]) for row in rows] == [(10.0, 55.0, "write")]
    assert run("plan", str(plan_file)).stderr == "1 to write; nothing was sent, --apply sends\n"
    assert run("read", application.name, LEVEL).stdout.strip() == "10"
    ledger = json.loads(run("plan", str(plan_file), "--apply", "--undo", str(before), "--json").stdout)
    assert [(row["device"], row["requested"], row["status"]) for row in ledger] == [(application.name, 55.0, "success")]
    assert run("read", application.name, LEVEL).stdout.strip() == "55"
    values_before = before.read_text()
    again = run("plan", str(plan_file), "--apply", "--undo", str(before), status=2)
    assert "exists already" in again.stderr
    assert before.read_text() == values_before
    run("plan", str(before), "--apply")
    assert run("read", application.name, LEVEL).stdout.strip() == "10"
    again = run("plan", str(before), "--apply", "--json")
    assert (again.stdout, again.stderr) == ("[]\n", "1 to skip; nothing was sent\n")


@pytest.mark.parametrize(("delimiter", "encoding"), [(";", "utf-8-sig"), ("\t", "utf-8")])
def test_a_plan_may_come_from_a_spreadsheet_of_any_country(run, application, light, tmp_path, delimiter, encoding):
    plan_file = tmp_path / "wanted.csv"
    rows = [("comment", "device", "path", "value"), ("a", light, LEVEL, "55"), ("b", light, SET_POINT, '"21,5"')]
    rows.append(("", "", "", ""))
    plan_file.write_text("".join(f"{delimiter.join(row)}\r\n" for row in rows), encoding=encoding)
    application.http.put(f"/sim/v1/devices/{light}/resources{SET_POINT}", json={"value": "1", "writable": True})
    application.http.put(f"/sim/v1/devices/{light}/registration")
    level, temperature = json.loads(run("plan", str(plan_file), "--json", status=1).stdout)
    assert (level["wanted"], level["decision"]) == (55, "write")
    assert (temperature["decision"], temperature["check"]) == ("refuse", "wrong_type")
    assert "a comma is not a decimal point; write it like 21.5" in temperature["reason"]


def test_rejected_rows_give_exit_status_1(run, application, light, tmp_path):
    plan_file = tmp_path / "wanted.csv"
    plan_file.write_text(
        f"device,path,value\n{application.name},{LEVEL},40\n{application.name},{SWITCH},bright\nnobody,{LEVEL},1\n"
    )
    _, *rejected = json.loads(run("plan", str(plan_file), "--json", status=1).stdout)
    assert [row["check"] for row in rejected] == ["wrong_type", "unknown_device"]
    assert not any("client." in row["reason"] for row in rejected)
    result = run("plan", str(plan_file), "--apply", "--json", status=1)
    assert [row["status"] for row in json.loads(result.stdout)] == ["success"]
    assert "2 rejected" in result.stderr


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "has no column device or path or value; the file is empty"),
        (b"device,value\n", "has no column path; its columns are device, value"),
        (b"dev;path;value\n", "has no column device; its columns are dev, path, value"),
        (b"device,path,value\nlight", "line 2 of wanted.csv is too short"),
        (b"device,path,value\nlight,/3311/0/5851,3,7\n", "line 2 of wanted.csv has more cells than the first line"),
        ("device,path,value\nlight,/3/0/15,Käse".encode("cp1252"), "'iconv -f WINDOWS-1252 -t UTF-8 FILE'"),
        ("device,path,value\nlight,/3/0/15,Käse".encode("utf-16"), "'iconv -f UTF-16 -t UTF-8 FILE'"),
        (b"device,path,value\nlight,/3311/0/5851," + b"9" * 200_000, "not a CSV file in UTF-8"),
    ],
)
def test_invalid_plan_file_is_reported_in_one_line(run, tmp_path, content, words):
    plan_file = tmp_path / "wanted.csv"
    plan_file.write_bytes(content)
    assert words in run("plan", str(plan_file), status=2).stderr


def test_unwritable_file_is_reported_in_one_line(run, tmp_path):
    file = tmp_path / "file"
    file.touch()
    for words in (["snapshot", f"{file}/state.csv"], ["record", f"{file}/run", "--seconds", "0"]):
        result = run(*words, status=1)
        assert result.stderr.startswith("Error: ")
        assert len(result.stderr.splitlines()) == 1


def test_undo_file_restores_the_same_values(run, application, light, tmp_path):
    clock, package, before = "/3/0/13", "/5/0/0", tmp_path / "before.csv"
    time = {"path": clock, "value": "1767225600", "writable": True}
    # The base64 of three bytes could also be hex digits.
    zeros = {"path": package, "value": "AAAA", "writable": True}
    device_id = application.add_device("clock", time, zeros, {"path": LEVEL, "value": "500"})
    for path in (clock, package, LEVEL):
        run("read", "clock", path)
    plan_file = tmp_path / "wanted.csv"
    plan_file.write_text(f"device,path,value\nclock,{clock},1767225700\nclock,{package},00ff1a\nclock,{LEVEL},40\n")
    assert "left out" in run("plan", str(plan_file), "--undo", str(before)).stderr
    assert before.read_text().splitlines()[1:] == [
        f"{device_id},{clock},2026-01-01T00:00:00.000Z",
        f"{device_id},{package},00 00 00",
    ]
    rows = json.loads(run("plan", str(before), "--json").stdout)
    assert [row["check"] for row in rows] == ["already_so"] * 2


def test_interrupted_plan_lists_the_sent_writes(run, application, light, shared_server, tmp_path):
    application.patch_device(light, online=False)
    plan_file = tmp_path / "wanted.csv"
    plan_file.write_text(f"device,path,value\n{light},{LEVEL},40\n")
    environment = child_environment(API_HOST=shared_server.url, API_KEY=application.key)
    program = "from mirror_sdk.cli import main; main()"
    arguments = [sys.executable, "-c", program, "plan", str(plan_file), "--apply", "--json"]
    with subprocess.Popen(arguments, env=environment, stdout=subprocess.PIPE, text=True) as applying:
        wait_until(lambda: application.json("GET", "/v2/device-requests")["data"], "the write")
        applying.send_signal(signal.SIGINT)
        output, _ = applying.communicate(timeout=120)
    assert applying.returncode == 1
    (row,) = json.loads(output)
    assert row["status"] in {"pending", "unknown"}
