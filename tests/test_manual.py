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
from mirror_server.hooks import call_installed
from mirror_server.service.keys import Scope

GROUPS: dict[str, tuple[click.Group, dict[str, str]]] = {
    "mirror_sdk": (mirror_sdk.cli.main, mirror_sdk.cli.help_command.TOPICS),
    "mirror_server": (mirror_server.cli.main, mirror_server.cli.TOPICS),
}
TOPICS = [(package, topic, module) for package, (_, topics) in GROUPS.items() for topic, module in topics.items()]


def _help(package: str, *words: str) -> Any:
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
def test_help_lists_topics_with_their_first_line(package: str) -> None:
    listed = " ".join(_help(package).output.split())
    for topic in GROUPS[package][1]:
        first = " ".join(_help(package, topic).output.partition("\n")[0].replace("`", "").split())
        assert f"{topic} {first}" in listed


@pytest.mark.parametrize(("package", "topic", "module"), TOPICS)
def test_piped_topic_is_not_formatted(package: str, topic: str, module: str) -> None:
    result = _help(package, topic)
    assert result.exit_code == 0
    written = importlib.import_module(module).__doc__
    assert written is not None
    lines = result.output.splitlines()
    assert [line for line in written.splitlines() if ":`" not in line and line not in lines] == []
    assert ":`" not in result.output


@pytest.mark.parametrize(("package", "topic"), [("mirror_sdk", "plans"), ("mirror_server", "processes")])
def test_terminal_topic_fits_the_width_and_keeps_examples(package: str, topic: str) -> None:
    lines = re.sub(r"\x1b\[[0-9;]*m", "", _on_a_terminal(package, topic, 100)).splitlines()
    assert max(map(len, lines)) <= 100
    assert not [line for line in lines if "``" in line]
    written = _help(package, topic).output.splitlines()
    assert len(lines) > len(written)
    blocks = [line.strip() for line in written if line.startswith((">>> ", "    "))]
    assert len(blocks) >= 3
    assert [block for block in blocks if len(block) < 90 and block not in map(str.strip, lines)] == []


@pytest.mark.parametrize("package", GROUPS)
def test_unknown_topic_lists_topics_of_both_manuals(package: str) -> None:
    result = _help(package, "no-such-topic")
    assert result.exit_code == 2
    assert all(topic in result.output for topic in GROUPS[package][1])
    assert "'mirror help'" in result.output
    assert "'mirror-server help'" in result.output


def test_a_command_instead_of_a_topic_names_its_help_option() -> None:
    assert " keys --help" in " ".join(_help("mirror_server", "keys").output.split())
    assert "'COMMAND --help'" in " ".join(_help("mirror_server", "no-such-topic").output.split())


def test_modules_have_the_names_that_help_and_import_accept() -> None:
    assert "``mirror_sdk.errors`` begins with a drawing" in _help("mirror_sdk", "client").output
    assert "``WaitTimeout``" in _help("mirror_sdk", "client").output


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


def is_described(option: str, text: str) -> bool:
    return re.search(f"``{option}(``|\\s)", text) is not None


def test_server_manual_describes_options_variables_and_scopes() -> None:
    manual = "\n".join(MANUAL.values())
    assert all(f"``{scope}``" in MANUAL["operate"] for scope in Scope)
    for option in SERVING:
        assert is_described(option.opts[0], manual)
        if option.envvar != f"MIRROR_{option.opts[0].removeprefix('--').replace('-', '_').upper()}" and option.envvar:
            assert f"``{option.envvar}``" in manual


@pytest.mark.parametrize("kind", [Settings, *call_installed("settings")])
def test_core_and_extensions_describe_their_settings(kind: type) -> None:
    package = kind.__module__.rpartition(".")[0]
    texts = [text for topic, text in MANUAL.items() if SERVER_TOPICS[topic] == package]
    assert [
        option_name(each)
        for each in fields(kind)
        if each.name != "extensions" and not any(is_described(option_name(each), text) for text in texts)
    ] == []


def test_options_and_variables_in_the_server_manual_exist() -> None:
    there = [*_parameters(mirror_server.cli.main), *mirror_server.extensions.wsgi.app._settings.params]
    options = {name for parameter in there for name in (*parameter.opts, *parameter.secondary_opts)}
    # In these are options of gunicorn and mirror-device.
    manual = "\n".join(text for topic, text in MANUAL.items() if topic not in {"mirror-device", "wsgi"})
    mentioned = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", manual)) - {"--help"} - OTHERS
    assert mentioned <= options
    variables = set(re.findall(r"MIRROR_[A-Z][A-Z_]*", manual)) - OTHERS
    assert variables <= {parameter.envvar for parameter in there}
    assert len(mentioned) > 20
    assert len(variables) > 3


def test_options_in_the_client_manual_exist() -> None:
    client = mirror_sdk.cli.main
    parameters = [*client.params, *_parameters(client), *_parameters(mirror_server.cli.main)]
    existing = {name for parameter in parameters for name in (*parameter.opts, *parameter.secondary_opts)}
    texts = (importlib.import_module(module).__doc__ or "" for module in mirror_sdk.cli.help_command.TOPICS.values())
    mentioned = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", "\n".join(texts)))
    # Options of pytest, its plugin, and gunicorn.
    of_others = {"--mirror-cassettes", "--mirror-key", "--mirror-url", "--preload", "--pyargs"}
    assert mentioned - of_others <= existing | {"--help"}
    assert len(mentioned) > 10
