"""The command ``help``: every topic of the manual, for people and for programs."""

import os
import pty
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

import mirror_sdk.cli
import mirror_sdk.cli.help_command
import mirror_server
import mirror_server.cli
import mirror_server.extensions.wsgi.app
from mirror_sdk._manual import show_topic, topics_in
from mirror_server.config import Settings, option_name
from mirror_server.hooks import call_installed
from mirror_server.service.keys import Scope

GROUPS: dict[str, tuple[click.Group, dict[str, Path]]] = {
    "mirror_sdk": (mirror_sdk.cli.main, mirror_sdk.cli.help_command.TOPICS),
    "mirror_server": (mirror_server.cli.main, mirror_server.cli.TOPICS),
}
TOPICS = [(package, topic, file) for package, (_, topics) in GROUPS.items() for topic, file in topics.items()]


def _help(package: str, *words: str) -> Any:
    return CliRunner().invoke(GROUPS[package][0], ["help", *words])


def _on_a_terminal(package: str, topic: str, columns: int) -> str:
    ours, theirs = pty.openpty()
    environment = os.environ | {"COLUMNS": str(columns), "TERM": "xterm"}
    command = [sys.executable, "-c", f"from {package}.cli import main; main()", "help", topic]
    with subprocess.Popen(command, stdout=theirs, stdin=theirs, env=environment) as process:
        os.close(theirs)
        parts = []
        # On Linux, reading from a terminal whose other end is closed fails instead of ending.
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
def test_help_lists_topics_with_their_first_paragraph(package: str) -> None:
    listed = " ".join(_help(package).output.split())
    for topic, file in GROUPS[package][1].items():
        title, first = file.read_text().split("\n\n")[:2]
        assert re.fullmatch("# .+", title)
        assert len(first.split()) <= 25
        assert f"{topic} {' '.join(first.replace('`', '').split())}" in listed


@pytest.mark.parametrize("package", GROUPS)
def test_help_lists_topics_in_groups_that_name_each_topic_once(package: str) -> None:
    module = {"mirror_sdk": mirror_sdk.cli.help_command, "mirror_server": mirror_server.cli}[package]
    grouped = [topic for group in module.GROUPS.values() for topic in group]
    assert sorted(grouped) == sorted(GROUPS[package][1])
    lines = _help(package).output.splitlines()
    assert [line.removesuffix(":") for line in lines if line and line[0] != " "] == [*module.GROUPS]
    assert [line.split()[0] for line in lines if re.match("  [a-z]", line)] == grouped


def test_help_lists_topics_of_other_extensions_last(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for topic in ("greeting", "start"):
        (tmp_path / f"{topic}.md").write_text(f"# Title\n\nThe {topic}.\n")
    show_topic(None, topics_in(tmp_path), {"Start here": ["start"], "Left out": ["missing"]})
    listed = capsys.readouterr().out
    assert listed == "Start here:\n  start     The start.\n\nOther extensions:\n  greeting  The greeting.\n"


@pytest.mark.parametrize(("package", "topic", "file"), TOPICS)
def test_piped_topic_is_not_formatted(package: str, topic: str, file: Path) -> None:
    result = _help(package, topic)
    assert result.exit_code == 0
    assert result.output.startswith(file.read_text())


@pytest.mark.parametrize(("package", "topic", "file"), TOPICS)
def test_topic_has_no_list_item_or_code_that_a_line_break_spoils(package: str, topic: str, file: Path) -> None:
    prose = re.sub(r"^```.*?^```$", "", file.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert re.findall(r"\S +(?:\d\.|[-*]) +\*\*.*", prose) == []
    assert [line for line in prose.splitlines() if line.count("`") % 2] == []


@pytest.mark.parametrize(("package", "topic"), [("mirror_sdk", "plans"), ("mirror_server", "processes")])
def test_terminal_topic_fits_the_width_and_code_can_be_copied(package: str, topic: str) -> None:
    lines = re.sub(r"\x1b\[[0-9;]*m", "", _on_a_terminal(package, topic, 100)).splitlines()
    blocks = re.findall(r"^```\w+\n(.*?)^```$", _help(package, topic).output, re.MULTILINE | re.DOTALL)
    code = "".join(blocks).splitlines()
    assert len(code) >= 3
    assert [line for line in code if line not in lines] == []
    prose = [line for line in lines if line not in code]
    assert max(map(len, prose)) <= 100
    assert not [line for line in prose if "`" in line]


@pytest.mark.parametrize("package", GROUPS)
def test_unknown_topic_lists_topics_of_both_manuals(package: str) -> None:
    result = _help(package, "no-such-topic")
    assert result.exit_code == 2
    assert all(topic in result.output for topic in GROUPS[package][1])
    assert "'mirror help'" in result.output
    assert "'mirror-server help'" in result.output


def test_a_command_instead_of_a_topic_names_its_help_option() -> None:
    assert " erase --help" in " ".join(_help("mirror_server", "erase").output.split())
    assert "'COMMAND --help'" in " ".join(_help("mirror_server", "no-such-topic").output.split())


def _parameters(group: click.Group) -> list[click.Parameter]:
    """Return the parameters of all commands of a group."""
    found: list[click.Parameter] = []
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        found += _parameters(command) if isinstance(command, click.Group) else command.params
    return found


SERVER_TOPICS = mirror_server.cli.TOPICS
MANUAL = {topic: file.read_text() for topic, file in SERVER_TOPICS.items()}
# Options of mirror-device, mirror, systemctl and an example.
OTHERS = {
    *("--server", "--name", "--kind", "MIRROR_DEVICE_PSK"),
    *("--connections", "--query", "--since", "--where"),
    "--now",
    *("--greeting", "MIRROR_GREETING"),
}
SERVING = [
    parameter
    for name in ("run", "demo")
    if (command := mirror_server.cli.main.get_command(click.Context(mirror_server.cli.main), name))
    for parameter in command.params
    if isinstance(parameter, click.Option)
]
OPTIONS = {name for each in _parameters(mirror_server.cli.main) for name in (*each.opts, *each.secondary_opts)}
WSGI = mirror_server.extensions.wsgi.app._settings.params


def is_described(option: str, text: str) -> bool:
    """Return whether a text describes an option. A setting that no command has as an option has only a variable."""
    name = option if option in OPTIONS else variable_of(option)
    return re.search(f"`{name}(`|\\s)", text) is not None


def variable_of(option: str) -> str:
    return f"MIRROR_{option.removeprefix('--').replace('-', '_').upper()}"


def test_server_manual_describes_options_variables_and_scopes() -> None:
    manual = "\n".join(MANUAL.values())
    assert all(f"`{scope}`" in MANUAL["keys"] for scope in Scope)
    for option in [*SERVING, *WSGI]:
        assert is_described(option.opts[0], manual)
        if option.envvar and option.envvar != variable_of(option.opts[0]):
            assert f"`{option.envvar}`" in manual


@pytest.mark.parametrize("kind", [Settings, *call_installed("settings")])
def test_core_and_extensions_describe_their_settings(kind: type) -> None:
    folder = Path(sys.modules[kind.__module__.rpartition(".")[0]].__path__[0]) / "manual"
    texts = [text for topic, text in MANUAL.items() if SERVER_TOPICS[topic].parent == folder]
    assert [
        option_name(each)
        for each in fields(kind)
        if each.name != "extensions" and not any(is_described(option_name(each), text) for text in texts)
    ] == []


def test_options_and_variables_in_the_server_manual_exist() -> None:
    # These contain options of gunicorn and mirror-device.
    manual = "\n".join(text for topic, text in MANUAL.items() if topic not in {"mirror-device", "wsgi"})
    mentioned = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", manual)) - {"--help"} - OTHERS
    assert mentioned <= OPTIONS
    variables = set(re.findall(r"MIRROR_[A-Z][A-Z_]*", manual)) - OTHERS
    assert variables <= {each.envvar for each in [*_parameters(mirror_server.cli.main), *WSGI]}
    assert len(mentioned) > 20
    assert len(variables) > 3


def test_options_in_the_client_manual_exist() -> None:
    client = mirror_sdk.cli.main
    parameters = [*client.params, *_parameters(client), *_parameters(mirror_server.cli.main)]
    existing = {name for parameter in parameters for name in (*parameter.opts, *parameter.secondary_opts)}
    texts = [file.read_text() for file in mirror_sdk.cli.help_command.TOPICS.values()]
    mentioned = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", "\n".join(texts)))
    # Options of pytest, its plugin, gunicorn and mirror-device.
    of_others = {"--mirror-cassettes", "--mirror-key", "--mirror-url", "--preload", "--pyargs", "--queue"}
    assert mentioned - of_others <= existing | {"--help"}
    assert len(mentioned) > 10
