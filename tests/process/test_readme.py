"""The README: its session produces the shown output, and its diagram, links, commands and topics exist."""

import doctest
import re
import shlex
from contextlib import ExitStack, closing
from pathlib import Path

import click
import pytest
from process_server import DEVICE_COMMAND, ROOT, Child, read_exports
from state_diagram import diagram

import mirror_sdk.cli
import mirror_sdk.cli.help_command
import mirror_server.cli
import mirror_server.extensions.lwm2m.device.command
from mirror_sdk import MirrorClient

README = (ROOT / "README.md").read_text()
GROUPS: dict[str, click.Group] = {"mirror": mirror_sdk.cli.main, "mirror-server": mirror_server.cli.main}
COMMANDS = GROUPS | {"mirror-device": mirror_server.extensions.lwm2m.device.command.main}
TOPICS = {
    "mirror": mirror_sdk.cli.help_command.TOPICS,
    "mirror-server": mirror_server.cli.TOPICS,
}
LONGEST = 120
MOST_STEPS = 7
SESSIONS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def _commands() -> list[list[str]]:
    """Return the commands of this package in shell blocks and inline code."""
    lines = [line for block in re.findall(r"```sh\n(.*?)```", README, re.DOTALL) for line in re.split("&&|\n", block)]
    words = [shlex.split(line, comments=True) for line in [*lines, *re.findall(r"`([^`\n]+)`", README)]]
    named = [[command[0].rpartition("/")[2], *command[1:]] for command in words if command]
    return [command for command in named if command[0] in COMMANDS]


def test_readme_stays_short() -> None:
    assert len(README.splitlines()) <= LONGEST


def _run_session(session: str, **names: object) -> dict[str, object]:
    """Run a session with these names, and return its names at the end."""
    test = doctest.DocTestParser().get_doctest(session, names, "README", "README.md", 0)
    assert len(test.examples) >= 4
    failures: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    runner.run(test, out=failures.append, clear_globs=False)
    assert runner.failures == 0, "".join(failures)
    return test.globs


@pytest.mark.process
def test_session_produces_its_documented_output(
    demo_environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in demo_environment.items():
        monkeypatch.setenv(name, value)
    client = _run_session(SESSIONS[0])["client"]
    assert isinstance(client, MirrorClient)
    client.close()


@pytest.mark.process
def test_session_with_a_real_device_produces_its_documented_output(tmp_path: Path) -> None:
    pytest.importorskip("aiocoap", reason="real devices need the extra lwm2m")
    serving, playing = re.findall(r"^(mirror-server demo .*--coap .*|mirror-device .*)$", README, re.MULTILINE)
    free = [word.replace(":5683", ":0") for word in shlex.split(serving)[1:]]
    with closing(Child(*free, "--port=0", stderr_path=tmp_path / "server.txt")) as server, ExitStack() as ending:
        ending.callback(server.stop)
        url = server.read_line().removeprefix("# Real devices: ")
        exports = read_exports(server)
        words = [url if word == "coap://127.0.0.1:5683" else word for word in shlex.split(playing)[1:]]
        device = Child(*words, stderr_path=tmp_path / "device.txt", command=DEVICE_COMMAND)
        ending.callback(device.close)
        ending.callback(device.stop)
        assert "registered" in device.read_line()
        with MirrorClient(exports["API_HOST"], exports["API_KEY"]) as client:
            _run_session(SESSIONS[1], client=client)


def test_diagram_matches_the_transition_table() -> None:
    assert diagram() in README


def test_links_have_targets() -> None:
    targets = re.findall(r"\]\((?!https?:)([^)]+)\)", README)
    assert len(targets) >= 8
    for target in targets:
        file, _, heading = target.partition("#")
        assert (ROOT / file).exists(), target
        if heading:
            headings = re.findall(r"^#+ (.+)$", (ROOT / file).read_text(), re.MULTILINE)
            assert heading in {found.lower().replace(" ", "-") for found in headings}, target


def test_commands_exist() -> None:
    found = _commands()
    assert {command[0] for command in found} == set(COMMANDS)
    for name, *words in found:
        # Wrong arguments raise an error; this does not run the command.
        if words and name not in GROUPS:
            COMMANDS[name].make_context(name, words)
        elif words and not words[0].startswith("-"):
            group, context = GROUPS[name], click.Context(GROUPS[name])
            command = group.get_command(context, words[0])
            assert command is not None, words
            command.make_context(words[0], words[1:], parent=context)
            if words[0] == "help" and words[1:]:
                assert words[1] in TOPICS[name]


def test_next_steps_are_few_and_name_the_commands_that_list_all_topics() -> None:
    steps = README.partition("## Next steps\n")[2]
    assert all(f"`{name} help`" in steps for name in TOPICS)
    assert len(re.findall(r"^\| (?!You want).+\|$", steps, re.MULTILINE)) <= MOST_STEPS


@pytest.mark.parametrize("found_by", ["'mirror lab$'", "-- '-m pytest'"])
def test_checks_run_the_commands_of_the_readme(found_by: str) -> None:
    assert f"$(grep -m 1 {found_by} README.md)" in (ROOT / ".ci" / "run").read_text()
    (command,) = re.findall(f"^.*{shlex.split(found_by)[-1]}.*", README, re.MULTILINE)
    assert re.match(r"python3 -m venv [^&]+ && \.venv/bin/pip install [^&]+ && \.venv/bin/\w+ [^&]+$", command)
