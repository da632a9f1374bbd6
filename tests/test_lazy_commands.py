"""The help of the commands, and a server, import only the packages that they need."""

import importlib
import json
import subprocess
import sys

import click
import pytest

import mirror_sdk.cli
import mirror_server.cli

# Packages that take longer to import than everything else in the help of a group.
HEAVY = {"flask", "httpcore", "httpx", "pandas", "pyarrow", "pydantic", "rich", "uvicorn"}
GROUPS = {"mirror": mirror_sdk.cli.main, "mirror-server": mirror_server.cli.main}
IN_GROUPS = [(name, command) for name, group in GROUPS.items() for command in group.list_commands(click.Context(group))]


def loaded_by(program: str) -> set[str]:
    """Return the packages that a program imports in a new process."""
    reported = f"import json, sys\n{program}\nprint(json.dumps(list(sys.modules)))"
    ended = subprocess.run([sys.executable, "-c", reported], capture_output=True, text=True, timeout=60, check=True)
    return {name.partition(".")[0] for name in json.loads(ended.stdout.splitlines()[-1])}


@pytest.mark.parametrize("package", ["mirror_sdk", "mirror_server"])
def test_the_help_of_a_group_does_not_import_dependencies_of_its_commands(package):
    loaded = loaded_by(f"from {package}.cli import main\nmain(['--help'], standalone_mode=False)")
    assert loaded & HEAVY == set()


def test_creating_a_client_does_not_import_rarely_used_packages():
    loaded = loaded_by("from mirror_sdk import MirrorClient; MirrorClient('http://localhost', 'a-key').close()")
    assert {"httpx", "pydantic"} <= loaded
    assert loaded & {"IPython", "ipywidgets", "numpy", "pandas", "polars", "pyarrow", "websockets"} == set()


def test_a_server_imports_neither_the_client_nor_rarely_used_packages():
    loaded = loaded_by("import mirror_server.cli.run, mirror_server.web.serve")
    assert "flask" in loaded
    assert loaded & {"httpx", "pandas", "pyarrow"} == set()


@pytest.mark.parametrize("name", GROUPS)
def test_a_group_names_exactly_the_commands_its_modules_add(name):
    group = GROUPS[name]
    for module in set(group.commands.modules.values()):
        importlib.import_module(module)
    listed = group.list_commands(click.Context(group))
    assert listed == sorted(group.commands), "the group's _MODULES do not name what its modules add"


@pytest.mark.parametrize(("name", "command"), IN_GROUPS)
def test_the_line_of_a_command_in_the_help_of_its_group_is_the_beginning_of_its_own_help(name, command):
    group = GROUPS[name]
    listed = group.listed()[command]
    found = group.get_command(click.Context(group), command)
    assert found is not None
    assert listed.get_short_help_str(1000) == found.get_short_help_str(1000)
    assert listed.hidden == found.hidden


@pytest.mark.parametrize("columns", [None, "x", "20", "200"])
@pytest.mark.parametrize("name", GROUPS)
def test_the_help_is_as_wide_as_click_makes_it(name, columns, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns is not None:
        monkeypatch.setenv("COLUMNS", columns)
    group = GROUPS[name]
    context = click.Context(group, info_name=name)
    assert group.get_help(context) == click.Group.get_help(group, click.Context(group, info_name=name))


@pytest.mark.parametrize("name", GROUPS)
def test_an_unknown_command_is_rejected_and_a_prefix_completed(name):
    group = GROUPS[name]
    context = click.Context(group, info_name=name)
    assert group.get_command(context, "no-such-command") is None
    first = group.list_commands(context)[0]
    (completed,) = [item for item in group.shell_complete(context, first) if item.value == first]
    assert completed.help == group.commands[first].get_short_help_str()


@pytest.mark.parametrize(
    ("missing", "words"),
    [("orjson", ["devices", "list"]), ("flask", ["demo"])],
)
def test_a_command_of_the_server_names_the_extra_to_install_if_it_is_missing(missing, words):
    program = f"import sys\nsys.modules[{missing!r}] = None\nfrom mirror_server.cli import main\nmain({words!r})"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert ended.stderr == (
        f"Error: {missing} is missing; install what a server needs with: pip install 'device-state-mirror[server]'\n"
    )
