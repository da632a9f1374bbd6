"""The sample extension: it publishes values, and adds a route, a setting, a metric and a table."""

import sys
from pathlib import Path
from types import ModuleType

import click
import pytest
from click.testing import CliRunner

from mirror_server import hooks
from mirror_server.config import options_of
from mirror_server.hooks import call_installed, installed

PACKAGE = Path(__file__).parent / "mirror_sample"
LONGEST = 100


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


def test_server_without_the_extension_leaves_its_table_unchanged(new_server):
    server = new_server(without=("sample",))
    assert server.call(server.key(), "GET", "/v3/published-count").status_code == 404
    assert "sample" in installed()


def test_extension_has_at_most_100_lines():
    lines = [line for file in PACKAGE.rglob("*.py") for line in file.read_text().splitlines() if line.strip()]
    assert len(lines) <= LONGEST
