"""The measured servers, each on its own copy of the database that was filled."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import httpx
from children import HERE, Program, Server, free_port, program, server
from filling import Filled
from run_settings import Run

GROUPS_IN_FLIGHT = 4


def mirror(run: Run, filled: Filled, cores: frozenset[int], *options: str) -> AbstractContextManager[Server]:
    """Run ``mirror-server run`` on a copy of the database, without an access log, like all sides."""
    return mirror_on(run, copy(run, filled, f"mirror-{free_port()}"), cores, *options)


def mirror_on(run: Run, database_url: str, cores: frozenset[int], *options: str) -> AbstractContextManager[Server]:
    """Run ``mirror-server run`` on an existing database."""
    port = free_port()
    command = [sys.executable, "-m", "mirror_server", "run", "--port", str(port), "--database", database_url, *options]
    command += [] if "--access-log" in options else ["--no-access-log"]
    return server("mirror", command, port, folder=run.folder, cores=cores, ready="/readyz")


def hello(run: Run, cores: frozenset[int]) -> AbstractContextManager[Server]:
    """Run a Flask app that says hello, on the web server of the mirror."""
    port = free_port()
    command = [sys.executable, HERE / "hello_server.py", str(port)]
    return server("hello", command, port, folder=run.folder, cores=cores)


def under_wsgi(run: Run, filled: Filled, cores: frozenset[int], name: str) -> AbstractContextManager[Server]:
    """Run the mirror's app under waitress or gunicorn, with a thread for each connection."""
    port = free_port()
    bind, app = {
        "waitress": (["--listen", f"127.0.0.1:{port}"], ["--call", "mirror_server.extensions.wsgi.app:create"]),
        "gunicorn": (["--bind", f"127.0.0.1:{port}", "--workers", "1"], ["mirror_server.extensions.wsgi.app:create()"]),
    }[name]
    command = [sys.executable, "-m", name, "--threads", str(run.scale.connections), *bind, *app]
    variables = {"MIRROR_DATABASE": copy(run, filled, f"{name}-{port}")}
    return server(name, command, port, folder=run.folder, cores=cores, ready="/readyz", variables=variables)


def with_device_side(run: Run, filled: Filled, cores: frozenset[int]) -> AbstractContextManager[tuple[Server, Program]]:
    """Run a mirror and the program that plays its devices in one process."""
    return devices_in(run, copy(run, filled, f"device-side-{free_port()}"), cores)


@contextmanager
def devices_in(run: Run, database_url: str, cores: frozenset[int], *options: str) -> Iterator[tuple[Server, Program]]:
    """Run both on an existing database; see ``device_side.py`` for the options."""
    with program("device_side.py", database_url, *options, folder=run.folder, cores=cores) as devices:
        yield Server("mirror with devices", devices.receive()["port"], devices.pid), devices


def saturate(
    run: Run, filled: Filled, devices: Program, *, batch: int = 1, in_flight: int = 0, device_ids: Sequence[str] = ()
) -> dict[str, Any]:
    """Submit observations for one measurement, as fast as they are stored; return their rate and durations."""
    result: dict[str, Any] = devices.call(
        do="saturate",
        device_ids=device_ids or filled.device_ids,
        path=filled.paths[0],
        seconds=run.scale.seconds,
        in_flight=in_flight or (GROUPS_IN_FLIGHT if batch > 1 else run.scale.in_flight),
        batch=batch,
    )
    return result


def observation_rate(run: Run, filled: Filled, devices: Program, **how: Any) -> float:
    """Return the observations per second that are on disk."""
    rate: float = saturate(run, filled, devices, **how)["rate"]
    return rate


def client_of(server: Server, key: str) -> httpx.Client:
    """Return an HTTP client with a key."""
    return httpx.Client(base_url=server.url, headers={"Authorization": f"Bearer {key}"}, timeout=60)


def add_devices(server: Server, key: str, number: int, path: str, value: str, kind: str = "") -> list[str]:
    """Add simulated devices with a value that is readable, observable and writable."""
    resources = [{"path": path, "value": value, "writable": True, "observable": True}]
    added = []
    with client_of(server, key) as http:
        for one in range(number):
            body = {"endpoint_name": f"simulated-{one}", "endpoint_type": kind, "resources": resources}
            added.append(http.post("/sim/v1/devices", json=body).raise_for_status().json()["id"])
    return added


def copy(run: Run, filled: Filled, name: str) -> str:
    """Copy the database, and return the URL of the copy."""
    path = run.folder / f"{name}.db"
    shutil.copy(filled.path, path)
    return f"sqlite:///{path}"


def database_path(run: Run, url: str) -> Path:
    """Return the file of a copy."""
    return run.folder / url.rpartition("/")[2]
