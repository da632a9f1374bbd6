"""The files for Binder, by the rules repo2docker builds and starts an image with.

What repo2docker does with a folder ``binder``: it takes the Python of ``runtime.txt``, installs ``requirements.txt``
from the root of the repository, runs ``postBuild`` there once, and has ``start`` run the command of each session.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, expect
from process_lab import JupyterProcess
from process_server import ROOT, answers, child_environment, wait_until

pytestmark = pytest.mark.process

BINDER = ROOT / "binder"
START = str(BINDER / "start")
LAB = re.compile(r"(http://127\.0\.0\.1:\d+/user/me/)lab\?token=(\w+)")
KEY = re.compile(r"ak_[0-9a-f]{16}_[\w-]{43}")
ANOTHER_RECIPE = ["Dockerfile", "environment.yml", "Pipfile", "install.R", "DESCRIPTION", "Project.toml", "default.nix"]
SHOW = "import os; print(os.environ.get('API_HOST'), os.environ.get('API_KEY'), flush=True); input()"


def test_python_312_is_pinned_and_no_file_of_another_kind_comes_before() -> None:
    assert (BINDER / "runtime.txt").read_text().strip() == "python-3.12"
    assert not (ROOT / ".binder").exists()
    assert not [name for name in ANOTHER_RECIPE if (BINDER / name).exists()]


@pytest.mark.parametrize("name", ["postBuild", "start"])
def test_a_script_can_be_executed(name: str) -> None:
    assert os.access(BINDER / name, os.X_OK)
    assert (BINDER / name).read_text().startswith("#!/bin/bash\n")


def test_start_ends_by_becoming_the_command_it_is_given() -> None:
    assert (BINDER / "start").read_text().splitlines()[-1] == 'exec "$@"'


class Session:
    """``start`` with a program that shows what it was told, until it is told to end."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.error_path = folder / "stderr.txt"
        with self.error_path.open("wb") as stderr:
            self.process = subprocess.Popen(
                [START, sys.executable, "-c", SHOW],
                env=environment | {"TMPDIR": str(folder)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )
        assert self.process.stdout is not None
        self.host, self.key = self.process.stdout.readline().split()

    def end(self) -> int:
        self.process.communicate("\n", timeout=20)
        return self.process.returncode


def own_environment(**variables: str) -> dict[str, str]:
    """An environment in which the commands of this project are those of this Python."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    inherited = {name: value for name, value in child_environment().items() if name not in {"API_HOST", "API_KEY"}}
    return inherited | {"PATH": path} | variables


def test_start_sets_the_way_to_a_mirror_that_ends_with_the_command(tmp_path: Path) -> None:
    session = Session(tmp_path, own_environment())
    try:
        wait_until(lambda: answers(session.host), "an answer of the mirror")
        headers = {"Authorization": f"Bearer {session.key}"}
        listed = httpx.get(f"{session.host}/v3/devices", headers=headers, timeout=10, trust_env=False).json()["data"]
        assert len(listed) == 12
        assert [path.name for path in tmp_path.iterdir() if KEY.search(_text(path))] == []
    finally:
        assert session.end() == 0
    wait_until(lambda: not answers(session.host), "the mirror to stop", 20)


@pytest.mark.parametrize("failing", ["mirror-server that ends", "no mirror-server"])
def test_start_goes_on_without_a_mirror(failing: str, tmp_path: Path) -> None:
    commands = tmp_path / "commands"
    commands.mkdir()
    if failing == "mirror-server that ends":
        (commands / "mirror-server").write_text("#!/bin/sh\nexit 1\n")
        (commands / "mirror-server").chmod(0o755)
    session = Session(tmp_path, own_environment(PATH=f"{commands}:/usr/bin:/bin"))
    assert (session.host, session.key) == ("None", "None")
    assert session.end() == 0


class Image:
    """A clean environment and a copy of the repository, built as repo2docker builds an image."""

    def __init__(self, folder: Path) -> None:
        self.repository = folder / "home"
        self._copy_repository()
        subprocess.run([sys.executable, "-m", "venv", folder / "environment"], check=True)
        outside = ("PYTHON", "VIRTUAL_ENV", "MIRROR_", "API_", "JUPYTER", "COVERAGE")
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(outside)}
        # Nothing here looks at the bytecode of what is never imported.
        home = {"HOME": str(self.repository), "REPO_DIR": str(self.repository), "PIP_NO_COMPILE": "1"}
        self.environment = inherited | home | {"PATH": f"{folder / 'environment' / 'bin'}:/usr/bin:/bin"}
        self.log = self.run("pip", "install", "--quiet", "-r", "binder/requirements.txt")
        self.log += self.run("./binder/postBuild")

    def run(self, *command: str) -> str:
        """Run a command in the repository; gives what it prints."""
        run = subprocess.run(
            command,
            cwd=self.repository,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=400,
            check=False,
        )
        assert run.returncode == 0, f"{command}: {run.stdout[-6000:]}"
        return run.stdout

    def _copy_repository(self) -> None:
        listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
        names = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for name in filter(None, names.split("\0")):
            if (ROOT / name).is_file():
                (self.repository / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, self.repository / name)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    folder = tmp_path_factory.mktemp("image")
    yield Image(folder)
    shutil.rmtree(folder)


@pytest.mark.image
def test_the_image_has_what_the_constraints_say(image: Image) -> None:
    assert "Signing notebook: notebooks/01_first_steps.ipynb" in image.log
    pinned = dict(re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / ".ci" / "constraints.txt").read_text(), re.MULTILINE))
    frozen = dict(re.findall(r"^([\w.-]+)==(\S+)$", image.run("pip", "freeze", "--all"), re.MULTILINE))
    installed = {name.lower().replace("_", "-").replace(".", "-"): version for name, version in frozen.items()}
    for name in ("jupyterlab", "jupyter-server-proxy", "pandas", "flask", "ipywidgets", "uvicorn"):
        assert installed[name] == pinned[name]


@pytest.mark.image
def test_a_session_runs_the_first_notebook_on_the_mirror_of_start(image: Image) -> None:
    notebook = "notebooks/01_first_steps.ipynb"
    image.run("binder/start", "jupyter", "execute", "--inplace", notebook)
    executed = (image.repository / notebook).read_text()
    assert executed != (ROOT / notebook).read_text()
    assert "METHOD_NOT_ALLOWED (400)" in executed
    assert "No mirror is running" not in executed
    assert not KEY.search(executed)


@pytest.mark.image
@pytest.mark.browser
def test_a_session_has_the_tile_that_opens_the_page(image: Image, browser: Browser, tmp_path: Path) -> None:
    options = ["--no-browser", "--allow-root", "--ServerApp.base_url=/user/me/", "--ServerApp.port=0"]
    jupyter = JupyterProcess(tmp_path, [START, "jupyter", "lab", *options], image.environment)
    context = browser.new_context(viewport={"width": 1360, "height": 900})
    context.set_default_timeout(60_000)
    try:
        address, token = jupyter.find(LAB).groups()
        page = context.new_page()
        page.goto(f"{address}lab?reset&token={token}")
        tile = page.locator(".jp-LauncherCard", has_text="Device state mirror")
        expect(tile.locator("img")).to_be_visible(timeout=60_000)
        page.screenshot(path=tmp_path / "launcher.png")
        with page.expect_popup() as opened:
            tile.click()
        shown = opened.value
        expect(shown.get_by_text("1 to 12 of 12")).to_be_visible(timeout=20_000)
        expect(shown.get_by_text("Live:")).to_be_visible(timeout=20_000)
        assert shown.url == f"{address}mirror/"
        shown.screenshot(path=tmp_path / "page.png")
    finally:
        context.close()
        jupyter.close()
    assert not KEY.search(jupyter.output)


def _text(path: Path) -> str:
    return path.read_text() if path.is_file() else ""
