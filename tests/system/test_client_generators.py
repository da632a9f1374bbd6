"""Client generators accept the description of the interface without errors, and their output compiles.

Those for TypeScript need Node 20 or newer.
"""

import compileall
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from flask.testing import FlaskClient

from mirror_server.hooks import read_settings
from mirror_server.server import Services
from mirror_server.web.flask_app import create_app

NODE = Path(__file__).parent / "node"
TIMEOUT_SECONDS = 300


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def description(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("description")
    services = Services(read_settings(database_url=f"sqlite:///{folder}/mirror.db"))
    document = FlaskClient(create_app(services)).get("/openapi.json").get_data()
    services.close()
    file = folder / "openapi.json"
    file.write_bytes(document)
    return file


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the generators that npm installs."""
    assert shutil.which("npm"), "Node is missing: apt-get install nodejs npm"
    folder = tmp_path_factory.mktemp("node")
    for name in ("package.json", "package-lock.json"):
        shutil.copy(NODE / name, folder)
    run("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", cwd=folder)
    return folder


def compile_typescript(source: Path, node: Path) -> None:
    options = ["--noEmit", "--strict", "--skipLibCheck", "--target", "es2022", "--lib", "es2022,dom,dom.iterable"]
    run("npx", "tsc", *options, "--module", "esnext", "--moduleResolution", "bundler", source, cwd=node)


def test_openapi_python_client(description: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "openapi_python_client", "generate", "--meta", "none"]
    output = run(*command, "--path", description, "--output-path", tmp_path / "client", cwd=tmp_path)
    assert compileall.compile_dir(tmp_path / "client", quiet=1)
    # The generator does not support bodies of any media type, such as the value of a resource.
    assert re.findall(r"parsing (\w+ \S+) within \w+. Endpoint will not be generated", output) == [
        "PUT /v2/endpoints/{device_id}/{path}",
        "POST /v2/endpoints/{device_id}/{path}",
    ]


def test_datamodel_code_generator(description: Path, tmp_path: Path) -> None:
    options = ["--input-file-type=openapi", "--output-model-type=pydantic_v2.BaseModel", "--formatters=builtin"]
    command = [sys.executable, "-m", "datamodel_code_generator", *options]
    run(*command, "--input", description, "--output", tmp_path / "models.py", cwd=tmp_path)
    models: dict[str, object] = {}
    exec((tmp_path / "models.py").read_text(), models)
    assert set(json.loads(description.read_text())["components"]["schemas"]) <= set(models)


def test_openapi_typescript(description: Path, node: Path, tmp_path: Path) -> None:
    run("npx", "openapi-typescript", description, "--output", tmp_path / "schema.d.ts", cwd=node)
    compile_typescript(tmp_path / "schema.d.ts", node)


def test_openapi_ts(description: Path, node: Path) -> None:
    run("npx", "openapi-ts", "--input", description, "--output", node / "client", cwd=node)
    compile_typescript(node / "client" / "index.ts", node)
