"""The help of the ``mirror-server`` command against its own definition."""

import click
import pytest
from process_server import run_command

from mirror_server.cli import main

pytestmark = pytest.mark.process


def subcommand(*words: str) -> click.Command:
    found: click.Command = main
    for word in words:
        assert isinstance(found, click.Group)
        found = found.get_command(click.Context(found), word) or pytest.fail(f"no command {word}")
    return found


@pytest.mark.parametrize(
    "words", [["run"], ["demo"], ["keys", "create"], ["keys", "list"], ["keys", "renew"], ["keys", "revoke"]]
)
def test_help_names_every_option_and_its_variable(words: list[str]) -> None:
    shown = run_command(*words, "--help")
    assert shown.returncode == 0
    for parameter in subcommand(*words).params:
        if isinstance(parameter, click.Option):
            assert all(name in shown.stdout for name in parameter.opts)
            assert parameter.help
            assert not parameter.envvar or str(parameter.envvar) in shown.stdout


@pytest.mark.parametrize("words", [[], ["keys"]])
def test_help_of_a_group_names_every_command(words: list[str]) -> None:
    shown = run_command(*words, "--help")
    assert shown.returncode == 0
    group = subcommand(*words)
    assert isinstance(group, click.Group)
    assert all(f"\n  {name} " in shown.stdout for name in group.list_commands(click.Context(group)))
