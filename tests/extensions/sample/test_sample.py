"""The sample extension: it publishes values, and adds a route, a setting, a metric, a table and a command."""

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import click
import pytest
from click.testing import CliRunner

from mirror_server import hooks
from mirror_server.config import options_of
from mirror_server.hooks import call_installed, installed
from mirror_server.store.maintenance import erase_device

PACKAGE = Path(__file__).parent / "mirror_sample"
LONGEST = 100


def run_python(folder, *arguments):
    """Run Python with the extension in a new process, and return what it printed."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), *sys.path])}
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, env=environment).stdout


@pytest.fixture(autouse=True)
def published(tmp_path, monkeypatch):
    """Install the extension and a module with a publish function; return the published values."""
    metadata = tmp_path / "sample-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: sample\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[mirror_server.extensions]\nsample = mirror_sample\n")
    for folder in (tmp_path, PACKAGE.parent):
        monkeypatch.syspath_prepend(str(folder))
    values = []
    program = ModuleType("program")
    program.__dict__["publish"] = lambda topic, payload: values.append((topic, payload))
    monkeypatch.setitem(sys.modules, "program", program)
    hooks.installed.cache_clear()
    yield values
    hooks.installed.cache_clear()


def test_values_are_published_after_the_commit_and_counted_across_a_restart(new_server, published):
    server = new_server(sample_publisher="program:publish")
    key = server.key()
    device = server.add_device(key, "sensor")
    server.subscribe(key, device)
    published.clear()
    for value in ("22.5", "23.5"):
        server.set_value(key, device, value)
    assert published == [(f"{device}/3303/0/5700", b"22.5"), (f"{device}/3303/0/5700", b"23.5")]
    count = server.call(key, "GET", "/v3/published-count").json["published"]
    assert count >= len(published)
    assert ("sample_published", count) in [
        (each.name, each.value) for some in server.services.measurements() for each in some
    ]
    server.restart()
    assert server.call(key, "GET", "/v3/published-count").json == {"published": count}
    assert "sample" in server.call(None, "GET", "/healthz").json["extensions"]
    serve = options_of("run", *call_installed("settings"))(click.command("run")(lambda: None))
    assert "--sample-publisher " in CliRunner().invoke(serve, ["--help"]).output
    if "openapi" in installed():
        assert server.call(None, "GET", "/openapi.json").json["paths"]["/v3/published-count"]


def test_count_of_an_erased_device_is_deleted(new_server):
    server = new_server(sample_publisher="program:publish")
    key = server.key()
    device = server.add_device(key, "sensor")
    server.subscribe(key, device)
    database = server.services.database
    assert database.write(lambda session: erase_device(session, device, database.storages))["sample_counts"] == 1
    assert server.call(key, "GET", "/v3/published-count").json == {"published": 0}


def test_help_of_all_commands_does_not_import_the_server(tmp_path):
    program = "import sys, mirror_server.cli as cli; cli.main(['--help'], standalone_mode=False); print(*sys.modules)"
    modules = run_python(tmp_path, "-c", program).rstrip().rpartition("\n")[2]
    assert "mirror_sample" in modules.split()
    assert {"flask", "pydantic", "mirror_sample.views"}.isdisjoint(modules.split())


def test_server_without_the_extension_leaves_its_table_unchanged(new_server):
    server = new_server(without=("sample",))
    assert server.call(server.key(), "GET", "/v3/published-count").status_code == 404
    assert "sample" in installed()


def test_extension_has_at_most_100_lines():
    lines = [line for file in PACKAGE.rglob("*.py") for line in file.read_text().splitlines() if line.strip()]
    assert len(lines) <= LONGEST
