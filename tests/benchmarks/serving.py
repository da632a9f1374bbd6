"""The servers that are measured, each on a database file of its own: a copy of the one that was filled."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from children import HERE, Program, Server, free_port, program, server
from filling import Filled
from run_settings import Run


def mirror(run: Run, filled: Filled, cores: frozenset[int], *options: str) -> AbstractContextManager[Server]:
    """``mirror-server run``, without a line for each request as all sides are."""
    port = free_port()
    database = copy(run, filled, f"mirror-{port}")
    command = [sys.executable, "-m", "mirror_server", "run", "--port", str(port), "--database", database, *options]
    command += [] if "--access-log" in options else ["--no-access-log"]
    return server("mirror", command, port, folder=run.folder, cores=cores, ready="/readyz")


def hello(run: Run, cores: frozenset[int]) -> AbstractContextManager[Server]:
    """A Flask app that says hello, on the web server of the mirror."""
    port = free_port()
    command = [sys.executable, HERE / "hello_server.py", str(port)]
    return server("hello", command, port, folder=run.folder, cores=cores)


def under_wsgi(run: Run, filled: Filled, cores: frozenset[int], name: str) -> AbstractContextManager[Server]:
    """The mirror's app under waitress or gunicorn, with a thread for each connection."""
    port = free_port()
    bind, app = {
        "waitress": (["--listen", f"127.0.0.1:{port}"], ["--call", "mirror_server.wsgi:create"]),
        "gunicorn": (["--bind", f"127.0.0.1:{port}", "--workers", "1"], ["mirror_server.wsgi:create()"]),
    }[name]
    command = [sys.executable, "-m", name, "--threads", str(run.scale.connections), *bind, *app]
    variables = {"MIRROR_DATABASE": copy(run, filled, f"{name}-{port}")}
    return server(name, command, port, folder=run.folder, cores=cores, ready="/readyz", variables=variables)


@contextmanager
def with_device_side(run: Run, filled: Filled, cores: frozenset[int]) -> Iterator[tuple[Server, Program]]:
    """A mirror and the program that plays its devices, which runs in the same process."""
    database = copy(run, filled, f"device-side-{free_port()}")
    with devices_in(run, database, cores) as running:
        yield running


@contextmanager
def devices_in(run: Run, database_url: str, cores: frozenset[int], *options: str) -> Iterator[tuple[Server, Program]]:
    """The same on a database that is there; see ``device_side.py`` for the options."""
    with program("device_side.py", database_url, *options, folder=run.folder, cores=cores) as devices:
        yield Server("mirror with devices", devices.hear()["port"], devices.pid), devices


def copy(run: Run, filled: Filled, name: str) -> str:
    """The URL of a copy of the database."""
    path = run.folder / f"{name}.db"
    shutil.copy(filled.path, path)
    return f"sqlite:///{path}"


def database_path(run: Run, url: str) -> Path:
    """The file of a copy."""
    return run.folder / url.rpartition("/")[2]
