"""Extensions come, are left out, and are refused: those of the server, and those of other packages."""

import sys

import pytest
from click.testing import CliRunner

from mirror_server.cli import main
from mirror_server.config import Settings
from mirror_server.core.errors import CannotServe
from mirror_server.hooks import Extensions, installed, read_settings

GREETING = """
from dataclasses import dataclass

from mirror_server.config import setting
from mirror_server.hooks import extends


@dataclass(frozen=True, kw_only=True)
class Greeting:
    greeting: str = setting("hello", "What is said.")


@extends
def settings():
    return Greeting

"""


def test_what_is_left_out_is_not_there_and_all_else_is(install, new_server, caplog):
    install("greeting", GREETING)
    caplog.set_level("INFO", "mirror_server")
    server = new_server(without=("greeting",))
    assert server.call(server.key(), "GET", "/v3/devices").status_code == 200
    assert "greeting" not in server.call(None, "GET", "/healthz").json["extensions"]
    assert "without the extension greeting: --without names it" in caplog.text


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"without": ("pages",)}, "--without pages: there is no such extension; there are .*greeting"),
        ({"without": ("greeting",), "greeting": "hi"}, "--greeting is of the extension greeting, which is left out"),
    ],
)
def test_what_cannot_be_left_out_is_refused_with_its_name(install, settings, why):
    install("greeting", GREETING)
    made = read_settings(**settings)
    with pytest.raises(CannotServe, match=why):
        Extensions(made.without).check(made)


def test_an_extension_whose_package_is_missing_is_left_out_and_says_what_to_install(install):
    install("dried", GREETING + "\n@extends\ndef needs():\n    return ['mirror_no_such_package']\n")
    extensions = Extensions()
    assert "dried" not in extensions.names
    assert extensions.left_out["dried"].startswith("mirror_no_such_package is missing; pip install")
    with pytest.raises(CannotServe, match=r"--greeting .* mirror_no_such_package is missing"):
        extensions.check(read_settings(greeting="hi"))
    extensions.check(Settings())


@pytest.mark.parametrize(
    ("module", "name", "extra"), [("pyarrow", "snapshots", "server"), ("prometheus_client", "metrics", "server")]
)
def test_an_extension_of_the_server_names_an_extra_that_there_is(monkeypatch, module, name, extra):
    pytest.importorskip(f"mirror_server.extensions.{name}")
    monkeypatch.setitem(sys.modules, module, None)
    assert Extensions().left_out[name] == f"{module} is missing; pip install 'device-state-mirror[{extra}]'"


def test_the_manual_lists_all_with_what_they_are_and_their_topics(install):
    install("hail", f'"""Says hello.\n\nAnd more."""\n{GREETING}')
    told = CliRunner().invoke(main, ["help", "extensions"]).output.splitlines()
    assert "- ``hail``: Says hello." in told
    for name, extension in installed().items():
        assert any(line.startswith(f"- ``{name}``: {extension.__doc__.partition('.')[0]}") for line in told), name
    if "lwm2m" in installed():
        assert any(line.endswith(" More in ``mirror-server help``: devices, mirror-device.") for line in told)


def test_a_hook_of_each_request_that_does_not_take_all_is_named(install):
    install("short", GREETING + "\n@extends\ndef rewrite_path(path):\n    return None\n")
    with pytest.raises(CannotServe, match="the hook rewrite_path of short does not take all of environ, path"):
        Extensions().collected("rewrite_path")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("import mirror_no_such_package", r"broken .*cannot be loaded: No module named 'mirror_no_such_package'"),
        (GREETING + "\n@extends\ndef blueprint():\n    return []\n", "does not fit .*blueprint"),
        (GREETING + "\n@extends\ndef build(server):\n    return []\n", "does not fit .*server"),
    ],
)
def test_one_that_does_not_fit_keeps_the_server_from_starting_but_no_other_command(install, text, why):
    install("broken", text)
    with pytest.raises(CannotServe, match=why):
        Extensions()
    assert "broken" in Extensions(["broken"]).left_out
    assert CliRunner().invoke(main, ["keys", "create", "--help"]).exit_code == 0
