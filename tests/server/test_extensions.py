"""Extensions of the server and of other packages are loaded, left out or rejected."""

import os
import subprocess
import sys

import pytest
from click.testing import CliRunner

from mirror_server.cli import main
from mirror_server.config import Settings
from mirror_server.core.errors import CannotServe
from mirror_server.hooks import Extensions, installed, read_settings
from mirror_server.store.maintenance import current_instant

GREETING = """
from dataclasses import dataclass

from mirror_server.config import setting
from mirror_server.hooks import extends


@dataclass(frozen=True, kw_only=True)
class Greeting:
    greeting: str = setting("hello", "The greeting.")


@extends
def settings():
    return Greeting

"""


def test_left_out_extension_is_not_loaded(install, new_server, caplog):
    install("greeting", GREETING)
    caplog.set_level("INFO", "mirror_server")
    server = new_server(without=("greeting",))
    assert server.call(server.key(), "GET", "/v3/devices").status_code == 200
    assert "greeting" not in server.call(None, "GET", "/healthz").json["extensions"]
    assert "the extension greeting is not loaded: --without leaves it out" in caplog.text


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"without": ("pages",)}, "--without pages: no such extension; the installed extensions are .*greeting"),
        (
            {"without": ("greeting",), "greeting": "hi"},
            "--greeting belongs to the extension greeting, which is not loaded",
        ),
    ],
)
def test_unknown_or_configured_extension_cannot_be_left_out(install, settings, why):
    install("greeting", GREETING)
    made = read_settings(**settings)
    with pytest.raises(CannotServe, match=why):
        Extensions(made.without).check(made)


def test_extension_with_a_missing_package_is_left_out_with_a_cure(install):
    install("dried", GREETING + "\n@extends\ndef needs():\n    return ['mirror_no_such_package']\n")
    extensions = Extensions()
    assert "dried" not in extensions.names
    assert extensions.left_out["dried"] == "mirror_no_such_package is missing; pip install it"
    with pytest.raises(CannotServe, match=r"--greeting .* mirror_no_such_package is missing"):
        extensions.check(read_settings(greeting="hi"))
    extensions.check(Settings())


def test_duplicate_extension_name_prevents_the_start(install, tmp_path):
    install("greeting", GREETING)
    other = tmp_path / "site" / "other-1.0.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    (other / "entry_points.txt").write_text("[mirror_server.extensions]\ngreeting = mirror_other\n")
    with pytest.raises(CannotServe, match="two extensions have the name greeting, one of them mirror_"):
        Extensions()


@pytest.mark.parametrize(
    ("module", "name", "extra"), [("pyarrow", "snapshots", "server"), ("prometheus_client", "metrics", "server")]
)
def test_missing_package_message_names_an_existing_extra(monkeypatch, module, name, extra):
    pytest.importorskip(f"mirror_server.extensions.{name}")
    monkeypatch.setitem(sys.modules, module, None)
    assert Extensions().left_out[name] == f"{module} is missing; pip install 'device-state-mirror[{extra}]'"


def test_manual_lists_extensions_with_purpose_and_topics(install):
    install("hail", f'"""Says hello.\n\nAnd more."""\n{GREETING}')
    lines = CliRunner().invoke(main, ["help", "extensions"]).output.splitlines()
    assert "- `hail`: Says hello." in lines
    for name, extension in installed().items():
        assert any(line.startswith(f"- `{name}`: {extension.__doc__.partition(' ')[0]}") for line in lines), name
    if "lwm2m" in installed():
        assert any(line.endswith(" More in `mirror-server help`: devices, mirror-device.") for line in lines)


def test_manual_shows_topics_that_are_docstrings_of_modules(install, tmp_path):
    topic = 'from mirror_server.hooks import extends\n\n\n@extends\ndef help_topics():\n    return {"hail": __name__}\n'
    install("hail", f'"""Describe how to hail.\n\nCall it."""\n{topic}')
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path / "site"), *sys.path])}
    for words, found in ((["hail"], "# hail\n\nDescribe how to hail.\n\nCall it."), ([], "Describe how to hail.")):
        command = [sys.executable, "-m", "mirror_server", "help", *words]
        ran = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        assert found in ran.stdout


def test_request_hook_with_missing_arguments_is_named(install):
    install("short", GREETING + "\n@extends\ndef rewrite_path(path):\n    return None\n")
    with pytest.raises(
        CannotServe, match="the hook rewrite_path of short does not accept all of the arguments environ, path"
    ):
        Extensions().implementations("rewrite_path")


BUILT = """

class Part:
    @extends
    def {hook}(self, {arguments}):
        pass


@extends
def build():
    return [Part()]
"""


@pytest.mark.parametrize(
    ("hook", "arguments", "why"),
    [
        ("values_reported", "session", r"the hook values_reported of greeting \(Part\) does not accept all of"),
        ("values_reported", "values", r"greeting \(Part\) cannot be loaded: .*:\d+\) has the argument values, but"),
        ("value_reported", "session", r"greeting \(Part\) .*value_reported\(\) .*; did you mean values_reported\?"),
    ],
)
def test_invalid_hook_of_a_built_object_names_the_extension(install, new_server, hook, arguments, why):
    install("greeting", GREETING + BUILT.format(hook=hook, arguments=arguments))
    with pytest.raises(CannotServe, match=why):
        new_server()


SAME_STORAGE = """
from mirror_server.store.backend import Storage
from mirror_server.store.schema import Branch

@extends
def storage():
    return Storage(branch=Branch("core", "."))
"""
SAME_ROUTE = """
from flask import Blueprint

routes = Blueprint("greeting", __name__)


@extends
def blueprints():
    return [routes]


@routes.get("/v3/devices/<other>")
def greet(other):
    return ""
"""


@pytest.mark.parametrize(
    ("text", "clash"),
    [
        (GREETING.replace("greeting:", "port:"), "setting port"),
        (GREETING.replace("greeting:", "poll_share:"), "setting poll_share"),
        (GREETING.replace('"The greeting."', '"The greeting.", option="--port"'), "option --port"),
        (GREETING + SAME_STORAGE, "storage branch core"),
        (GREETING + SAME_ROUTE, r"route GET /v3/devices/<\.\.\.>"),
    ],
)
def test_name_conflict_with_the_server_prevents_the_start(install, new_server, text, clash):
    install("greeting", text)
    with pytest.raises(CannotServe, match=f"the server and the extension greeting both have the {clash}; rename"):
        new_server()


def test_setting_name_conflict_of_two_extensions_prevents_the_start(install):
    install("greeting", GREETING)
    install("hello", GREETING)
    why = "the extension greeting and the extension hello both have the setting greeting"
    with pytest.raises(CannotServe, match=why):
        Extensions().check(read_settings())


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("    import mirror_no_such", "the extension greeting failed: No module named 'mirror_no_such'"),
        ("    import no_such_module", "the extension greeting failed: No module named 'no_such_module'"),
        ("    from flask import no_such_name", "the extension greeting failed: cannot import name 'no_such_name'"),
    ],
)
def test_missing_import_of_an_extension_is_reported_with_its_name(install, tmp_path, text, why):
    install("greeting", GREETING + f"@extends\ndef storage():\n{text}\n")
    result = CliRunner().invoke(main, ["check", "--database", f"sqlite:///{tmp_path}/mirror.db"])
    assert result.exit_code == 1
    assert result.output.startswith(f"Error: {why}")
    assert result.output.endswith("; fix or uninstall it, or start the server with --without greeting\n")


def test_commands_report_an_incompatible_extension_without_traceback(install, tmp_path):
    install("greeting", GREETING + "@extends\ndef value_reported():\n    pass\n")
    result = CliRunner().invoke(main, ["check", "--database", f"sqlite:///{tmp_path}/mirror.db"])
    assert result.exit_code == 1
    assert "there is no hook value_reported; did you mean values_reported?" in result.output


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("import mirror_no_such_package", r"broken .*cannot be loaded: No module named 'mirror_no_such_package'"),
        (
            f"{GREETING}\nno_such_name",
            r"cannot be loaded: name 'no_such_name' is not defined \(.*mirror_broken.py:18\)",
        ),
        (
            f"{GREETING}\n@extends\ndef blueprint():\n    return []\n",
            r"blueprint\(\) \(.*mirror_broken.py:18\) is marked as a hook, .* blueprint; did you mean blueprints\?$",
        ),
        (
            f"{GREETING}\n@extends\ndef build(server):\n    return []\n",
            r"build\(\) \(.*mirror_broken.py:18\) has the argument server, but the hook build has services$",
        ),
        (f"{GREETING}\ndef blueprints():\n    return []\n", r"blueprints\(\) \(.*:18\) has the name of a hook; mark"),
        (
            f"{GREETING}\n@extends\ndef needs():\n    return 'numpy'\n",
            r"needs\(\) of the extension broken returned the text 'numpy'; return a list, \['numpy'\]",
        ),
    ],
)
def test_incompatible_extension_prevents_the_start_but_not_other_commands(install, text, why):
    install("broken", text)
    with pytest.raises(CannotServe, match=why):
        Extensions()
    assert "broken" in Extensions(["broken"]).left_out
    assert CliRunner().invoke(main, ["keys", "create", "--help"]).exit_code == 0


def test_command_gets_the_time_of_the_server(new_server):
    for is_manual in (True, False):
        server = new_server(manual_clock=is_manual)
        with server.services.database.read() as session:
            assert current_instant(session) == pytest.approx(server.now, abs=60_000 * (not is_manual))


COMMANDS = """
from mirror_server.hooks import extends


@extends
def commands():
    return {"mirror_without_commands": ["quiet"]}
"""


def run_installed(tmp_path, *words):
    """Run ``mirror-server`` with the installed extensions, in a new process, and return the ended process."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path / "site"), *sys.path])}
    command = [sys.executable, "-m", "mirror_server", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)


def test_missing_command_of_an_extension_is_reported_with_its_module(install, tmp_path):
    install("without_commands", COMMANDS)
    assert run_installed(tmp_path, "--help").returncode == 0
    assert run_installed(tmp_path, "quiet").stderr == (
        "Error: the module mirror_without_commands is listed with the command 'quiet', but adds none of this name to"
        " the group\n"
    )


def test_duplicate_setting_is_reported_before_any_option_is_read(install, tmp_path):
    install("greeting", GREETING.replace("greeting:", "poll_share:"))
    assert run_installed(tmp_path, "run", "--poll-share", "2").stderr == (
        "Error: the server and the extension greeting both have the setting poll_share; rename one of them\n"
    )
