"""A session of Binder in the image that repo2docker would build.

Docker is not available: the steps of repo2docker's own Dockerfile, after the copy of the repository, run in a folder,
in order and with its variables. ``test_binder.py`` tests the files of ``binder`` separately.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import string
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from process_server import ROOT

pytestmark = [pytest.mark.process, pytest.mark.image]

CONSTRAINTS = ROOT / ".ci" / "constraints.txt"
PYTHON = (ROOT / "binder" / "runtime.txt").read_text().strip().removeprefix("python-")
KEY = re.compile(r"ak_[0-9a-f]{16}_[\w-]{43}")


class Image:
    """A clean environment and a copy of the repository, built by the steps of repo2docker."""

    def __init__(self, folder: Path) -> None:
        self.repository = folder / "home"
        self._copy_repository()
        outside = ("PYTHON", "VIRTUAL_ENV", "MIRROR_", "API_", "JUPYTER", "COVERAGE")
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(outside)}
        # The test ignores the bytecode of modules that are never imported.
        self.environment = inherited | {"PATH": "/usr/bin:/bin", "PIP_NO_COMPILE": "1"}
        # Replaces the folders of an image: the home of the user, and the folder of all environments.
        replacements = {"HOME": str(self.repository), "APP_BASE": str(folder / "srv"), "LC_ALL": "C.UTF-8"}
        self.log = ""
        is_copied = False
        for instruction, rest in self._dockerfile():
            if instruction in {"ARG", "ENV"}:
                self._set(rest, replacements)
            elif instruction == "COPY" and rest.split()[-2] == "src/":
                self._lay_out_environment()
                is_copied = True
            elif instruction == "RUN" and is_copied:
                self.log += self.build("/bin/sh", "-c", rest)

    def build(self, *command: str) -> str:
        """Run a command as a step of the build and return its output."""
        return self._output(command, self.environment)

    def run(self, *command: str) -> str:
        """Run a command like a session of the image and return its output."""
        return self.build(*self.session(*command))

    def session(self, *command: str) -> list[str]:
        """The command line that runs a command through the image's entry point, which runs ``start``."""
        found = importlib.util.find_spec("repo2docker")
        assert found is not None
        assert found.origin is not None
        return ["python", "-u", str(Path(found.origin).parent / "buildpacks" / "repo2docker-entrypoint"), *command]

    def _dockerfile(self) -> list[tuple[str, str]]:
        """Return the instructions that repo2docker writes for the repository."""
        options = ["--no-build", "--debug", "--user-name=jovyan", "--user-id=1000"]
        command = [sys.executable, "-m", "repo2docker", *options, str(self.repository)]
        output = self._output(command, os.environ)
        assert f"Building conda environment for python={PYTHON}\n" in output
        lines = output.replace("\\\n", " ").splitlines()
        written = [line.partition(" ") for line in lines if re.match(r"(?:ARG|ENV|RUN|COPY) ", line)]
        return [(instruction, rest) for instruction, _, rest in written]

    def _set(self, pairs: str, replacements: dict[str, str]) -> None:
        for pair in shlex.split(pairs):
            name, _, value = pair.partition("=")
            self.environment[name] = replacements.get(name, string.Template(value).safe_substitute(self.environment))

    def _lay_out_environment(self) -> None:
        """Create the environment that an image begins with.

        It already has the required packages: uv installs them in a few seconds, pip in a minute and a half. pip still
        has to do the rest.
        """
        prefix = self.environment["NB_PYTHON_PREFIX"]
        make = ["venv", "--quiet", "--seed", "--no-python-downloads", "--python", PYTHON_HERE or sys.executable, prefix]
        packages = ["--constraint", str(CONSTRAINTS), "--requirement", "pyproject.toml", "--extra", "all"]
        fill = ["pip", "install", "--quiet", "--python", f"{prefix}/bin/python", *packages]
        for step in (make, fill):
            self.build(str(Path(sys.executable).with_name("uv")), *step)

    def _output(self, command: Sequence[str], environment: Mapping[str, str]) -> str:
        run = subprocess.run(
            command,
            cwd=self.repository,
            env=environment,
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


def find_python() -> str | None:
    """Return the Python version of Binder, if this machine has it."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    found = [shutil.which(f"python{PYTHON}"), *map(str, pyenv.glob(f"versions/{PYTHON}.*/bin/python{PYTHON}"))]
    return next((python for python in found if python and _runs(python)), None)


def _runs(python: str) -> bool:
    """Return whether it runs, since pyenv has names for versions that are not active."""
    return subprocess.run([python, "--version"], capture_output=True, check=False).returncode == 0


PYTHON_HERE = find_python()


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    folder = tmp_path_factory.mktemp("image")
    yield Image(folder)
    shutil.rmtree(folder)


@pytest.mark.skipif(PYTHON_HERE is None, reason=f"no Python {PYTHON} on this machine: the image has this Python")
def test_the_image_has_the_python_of_binder(image: Image) -> None:
    assert image.build("python", "--version").startswith(f"Python {PYTHON}.")


def test_the_image_has_the_constrained_versions(image: Image) -> None:
    assert "Signing notebook: notebooks/01_first_steps.ipynb" in image.log
    pinned = dict(re.findall(r"^([\w.-]+)==(\S+)$", CONSTRAINTS.read_text(), re.MULTILINE))
    frozen = dict(re.findall(r"^([\w.-]+)==(\S+)$", image.build("pip", "freeze", "--all"), re.MULTILINE))
    installed = {name.lower().replace("_", "-").replace(".", "-"): version for name, version in frozen.items()}
    for name in ("jupyterlab", "jupyter-server-proxy", "pandas", "flask", "ipywidgets", "uvicorn"):
        assert installed[name] == pinned[name]


def test_a_session_runs_the_first_notebook_on_the_mirror_of_start(image: Image) -> None:
    notebook = "notebooks/01_first_steps.ipynb"
    image.run("jupyter", "execute", "--inplace", notebook)
    executed = (image.repository / notebook).read_text()
    assert executed != (ROOT / notebook).read_text()
    assert "METHOD_NOT_ALLOWED (400)" in executed
    assert "No mirror is running" not in executed
    assert not KEY.search(executed)
