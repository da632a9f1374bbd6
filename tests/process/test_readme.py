"""The README says what is true: its session gives what it shows, its diagram, links, commands and topics are real."""

import doctest
import re
import shlex

import click
import pytest
from process_server import ROOT

import mirror_sdk.cli
import mirror_sdk.cli.help_command
import mirror_server.cli
import mirror_server.cli.help_command
from mirror_server.core.desired import diagram

README = (ROOT / "README.md").read_text()
GROUPS: dict[str, click.Group] = {"mirror": mirror_sdk.cli.main, "mirror-server": mirror_server.cli.main}
TOPICS = {
    "mirror": mirror_sdk.cli.help_command.TOPICS,
    "mirror-server": mirror_server.cli.help_command.TOPICS,
}
LONGEST = 150


def _commands() -> list[list[str]]:
    """Each command of the package that the README shows, in a block of a shell or within a line."""
    lines = [line for block in re.findall(r"```sh\n(.*?)```", README, re.DOTALL) for line in block.split("&&")]
    words = [shlex.split(line, comments=True) for line in [*lines, *re.findall(r"`([^`\n]+)`", README)]]
    named = [[command[0].rpartition("/")[2], *command[1:]] for command in words if command]
    return [command for command in named if command[0] in GROUPS]


def test_it_is_read_in_three_minutes() -> None:
    assert len(README.splitlines()) <= LONGEST


@pytest.mark.process
def test_the_session_gives_what_it_shows(demo_environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in demo_environment.items():
        monkeypatch.setenv(name, value)
    (session,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    test = doctest.DocTestParser().get_doctest(session, {}, "README", "README.md", 0)
    assert len(test.examples) >= 10
    failures: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    runner.run(test, out=failures.append, clear_globs=False)
    test.globs["client"].close()
    assert runner.failures == 0, "".join(failures)


def test_the_diagram_is_the_table() -> None:
    assert diagram() in README


def test_every_place_it_leads_to_is_there() -> None:
    targets = re.findall(r"\]\((?!https?:)([^)]+)\)", README)
    assert len(targets) >= 8
    for target in targets:
        file, _, heading = target.partition("#")
        assert (ROOT / file).exists(), target
        if heading:
            headings = re.findall(r"^#+ (.+)$", (ROOT / file).read_text(), re.MULTILINE)
            assert heading in {found.lower().replace(" ", "-") for found in headings}, target


def test_every_command_it_shows_is_one() -> None:
    found = _commands()
    assert {command[0] for command in found} == set(GROUPS)
    for name, *words in found:
        group, context = GROUPS[name], click.Context(GROUPS[name])
        if words and not words[0].startswith("-"):
            command = group.get_command(context, words[0])
            assert command is not None, words
            # What is wrong with the words is an error; nothing is run by this.
            command.make_context(words[0], words[1:], parent=context)
            if words[0] == "help" and words[1:]:
                assert words[1] in TOPICS[name]


def test_every_topic_of_the_manual_is_named() -> None:
    assert all(f"`{topic}`" in README or f"`mirror help {topic}`" in README for topic in TOPICS["mirror"])
    assert all(f"`mirror-server help {topic}`" in README for topic in TOPICS["mirror-server"])


def test_its_test_command_is_the_one_the_checks_run() -> None:
    (command,) = re.findall(r"\.venv/bin/(python -m pytest.*)", README)
    assert command in (ROOT / ".ci" / "run").read_text()
