"""The command ``help``: every topic of the manual, for people and for programs."""

import importlib
import os
import pty
import re
import subprocess
import sys
from dataclasses import fields
from typing import Any

import click
import pytest
from click.testing import CliRunner

import mirror_sdk.cli
import mirror_sdk.cli.help_command
import mirror_server
import mirror_server.cli
import mirror_server.extensions.wsgi.app
from mirror_server.config import Settings, option_name
from mirror_server.hooks import of_all
from mirror_server.service.keys import Scope

GROUPS: dict[str, tuple[click.Group, dict[str, str]]] = {
    "mirror_sdk": (mirror_sdk.cli.main, mirror_sdk.cli.help_command.TOPICS),
    "mirror_server": (mirror_server.cli.main, mirror_server.cli.TOPICS),
}
TOPICS = [(package, topic, module) for package, (_, topics) in GROUPS.items() for topic, module in topics.items()]


def _told(package: str, *words: str) -> Any:
    return CliRunner().invoke(GROUPS[package][0], ["help", *words])


def _on_a_terminal(package: str, topic: str, columns: int) -> str:
    ours, theirs = pty.openpty()
    environment = os.environ | {"COLUMNS": str(columns), "TERM": "xterm"}
    command = [sys.executable, "-c", f"from {package}.cli import main; main()", "help", topic]
    with subprocess.Popen(command, stdout=theirs, stdin=theirs, env=environment) as process:
        os.close(theirs)
        parts = []
        # A terminal whose other end is closed gives an error in the place of an end.
        while part := _read(ours):
            parts.append(part)
        assert process.wait(30) == 0
    os.close(ours)
    return b"".join(parts).decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""


@pytest.mark.parametrize("package", GROUPS)
def test_help_lists_every_topic_with_the_first_words_of_its_text(package: str) -> None:
    listed = " ".join(_told(package).output.split())
    for topic in GROUPS[package][1]:
        first = " ".join(_told(package, topic).output.partition("\n")[0].replace("`", "").split())
        assert f"{topic} {first}" in listed


@pytest.mark.parametrize(("package", "topic", "module"), TOPICS)
def test_a_program_gets_a_topic_as_it_is_written(package: str, topic: str, module: str) -> None:
    told = _told(package, topic)
    assert told.exit_code == 0
    written = importlib.import_module(module).__doc__
    assert written is not None
    lines = told.output.splitlines()
    assert [line for line in written.splitlines() if ":`" not in line and line not in lines] == []
    assert ":`" not in told.output


@pytest.mark.parametrize(("package", "topic"), [("mirror_sdk", "plans"), ("mirror_server", "processes")])
def test_a_terminal_gets_it_laid_out_in_its_width_and_examples_as_they_are_written(package: str, topic: str) -> None:
    lines = re.sub(r"\x1b\[[0-9;]*m", "", _on_a_terminal(package, topic, 100)).splitlines()
    assert max(map(len, lines)) <= 100
    assert not [line for line in lines if "``" in line]
    written = _told(package, topic).output.splitlines()
    assert len(lines) > len(written)
    blocks = [line.strip() for line in written if line.startswith((">>> ", "    "))]
    assert len(blocks) >= 3
    assert [block for block in blocks if len(block) < 90 and block not in map(str.strip, lines)] == []


@pytest.mark.parametrize("package", GROUPS)
def test_what_is_no_topic_is_told_with_those_there_are(package: str) -> None:
    told = _told(package, "no-such-topic")
    assert told.exit_code == 2
    assert all(topic in told.output for topic in GROUPS[package][1])
    assert "'mirror help'" in told.output
    assert "'mirror-server help'" in told.output


def test_what_is_a_command_is_told_how_to_ask_it() -> None:
    assert " keys --help" in " ".join(_told("mirror_server", "keys").output.split())
    assert " COMMAND --help" in " ".join(_told("mirror_server", "no-such-topic").output.split())


def test_a_module_is_told_by_the_name_that_help_and_import_take() -> None:
    assert "``mirror_sdk.errors`` begins with a drawing" in _told("mirror_sdk", "client").output
    assert "``WaitTimeout``" in _told("mirror_sdk", "client").output


def _parameters(group: click.Group) -> list[click.Parameter]:
    """Those of all commands of a group."""
    found: list[click.Parameter] = []
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        found += _parameters(command) if isinstance(command, click.Group) else command.params
    return found


SERVER_TOPICS = mirror_server.cli.TOPICS
MANUAL = {topic: importlib.import_module(module).__doc__ or "" for topic, module in SERVER_TOPICS.items()}
# Of mirror-device, mirror and an example.
OTHERS = {"--server", "--name", "--connections", "--greeting", "MIRROR_DEVICE_PSK", "MIRROR_GREETING"}
SERVING = [
    parameter
    for name in ("run", "demo")
    if (command := mirror_server.cli.main.get_command(click.Context(mirror_server.cli.main), name))
    for parameter in command.params
    if isinstance(parameter, click.Option)
] + mirror_server.extensions.wsgi.app._settings.params


def is_told(option: str, text: str) -> bool:
    return re.search(f"``{option}(``|\\s)", text) is not None


def test_each_option_is_told_with_its_variable_and_each_scope() -> None:
    manual = "\n".join(MANUAL.values())
    assert all(f"``{scope}``" in MANUAL["operate"] for scope in Scope)
    for option in SERVING:
        assert is_told(option.opts[0], manual)
        if option.envvar != f"MIRROR_{option.opts[0].removeprefix('--').replace('-', '_').upper()}" and option.envvar:
            assert f"``{option.envvar}``" in manual


@pytest.mark.parametrize("kind", [Settings, *of_all("settings")])
def test_the_core_and_each_extension_tell_their_own_settings(kind: type) -> None:
    package = kind.__module__.rpartition(".")[0]
    texts = [text for topic, text in MANUAL.items() if SERVER_TOPICS[topic] == package]
    assert [
        option_name(each)
        for each in fields(kind)
        if each.name != "extensions" and not any(is_told(option_name(each), text) for text in texts)
    ] == []


def test_each_option_and_variable_that_is_told_is_one() -> None:
    there = [*_parameters(mirror_server.cli.main), *mirror_server.extensions.wsgi.app._settings.params]
    options = {name for parameter in there for name in (*parameter.opts, *parameter.secondary_opts)}
    # In these are options of gunicorn and mirror-device.
    manual = "\n".join(text for topic, text in MANUAL.items() if topic not in {"mirror-device", "wsgi"})
    told = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", manual)) - {"--help"} - OTHERS
    assert told <= options
    variables = set(re.findall(r"MIRROR_[A-Z][A-Z_]*", manual)) - OTHERS
    assert variables <= {parameter.envvar for parameter in there}
    assert len(told) > 20
    assert len(variables) > 3
