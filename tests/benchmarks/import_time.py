"""Start-up time: the client's import, the help of both commands, and a server that is ready.

The figure is CPU time, against the import of the libraries that are indispensable. Python loads bytecode, as after an
installation; without bytecode, everything is compiled and takes 1.8 times as long. The client's import is measured up
to the first client, because httpx is imported only then.

Time of the client (``-X importtime``): httpx, pydantic and their imports 70 %, the SDK's own modules 30 %, a third of
which is its 40 models. The two libraries delay half of their imports (httpcore, h11, the building of models) until the
first client and the first model. So their bare import is half of the client's time, and no module that only the SDK
loads takes more than a few milliseconds.

A server took 353 ms of CPU on a known file instead of 441, which is 1.95 instead of 2.40 times the import of its
libraries (9 rounds, alternating on two loaded cores). Each of these steps saved 3 to 8 %: no garbage collection during
the start, and no full collection at its end, which freed 1 % of the objects; routes that are not compiled for building
URLs; httpcore and the simulator, which are imported when they are used; and validators that are built when they are
used.

Other changes that helped: no ``RootModel`` and no default that is a model, because each builds a validator, which
searches all installed packages for plugins of pydantic; and lazy imports of rarely used parts. Without gain: own types
instead of those of ``pydantic.types``, which ``pydantic.Field`` imports anyway.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from children import ChildFailed, environment, free_port, server
from machine import on_cores
from measuring import Figure, alternate, at_most, ratio
from run_settings import Run

NAME = "import_time"
_MIRROR_HELP = "from mirror_sdk.cli import main; main(['--help'])"
_SERVER_HELP = "from mirror_server.cli import main; main(['--help'])"
_FIRST_CLIENT = "from mirror_sdk import MirrorClient; MirrorClient('http://localhost', 'a-key').close()"
_OF_CLIENTS = "import httpx, pydantic"
_OF_COMMANDS = "import click, rich"
_OF_SERVERS = "import flask, uvicorn, pydantic"


def measure(run: Run) -> Iterator[Figure]:
    sides: dict[str, Callable[[], float]] = {
        program: partial(cpu_ms, program) for program in (_OF_COMMANDS, _MIRROR_HELP, _SERVER_HELP, _OF_SERVERS)
    }
    sides |= {program: partial(own_cpu_ms, program) for program in (_OF_CLIENTS, _FIRST_CLIENT)}
    sides["new file"] = partial(ready_cpu_ms, run)
    sides["known file"] = partial(ready_cpu_ms, run, run.folder / "known.db")
    with on_cores(run.cores.client):
        samples = alternate(sides, run.scale.rounds)
    what = f"CPU of the import and the first client / {_OF_CLIENTS}"
    yield ratio(NAME, what, samples, _FIRST_CLIENT, _OF_CLIENTS, "ms", at_most(2.5))
    for command, program in (("mirror", _MIRROR_HELP), ("mirror-server", _SERVER_HELP)):
        what = f"CPU of {command} --help / {_OF_COMMANDS}"
        yield ratio(NAME, what, samples, program, _OF_COMMANDS, "ms", at_most(1.2))
    for file in ("new file", "known file"):
        what = f"CPU until a server on a {file} is ready / {_OF_SERVERS}"
        yield ratio(NAME, what, samples, file, _OF_SERVERS, "ms", at_most(2.5))


def cpu_ms(program: str) -> float:
    """Return the CPU time of a program on all cores, including the start and the end of the interpreter."""
    with subprocess.Popen([sys.executable, "-c", program], env=environment(), stdout=subprocess.DEVNULL) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise ChildFailed(f"{program} ended with {process.returncode}")
    return 1000 * (used.ru_utime + used.ru_stime)


def own_cpu_ms(program: str) -> float:
    """Return the CPU time of a program without the start and the end of the interpreter."""
    timed = f"import time\nbegan = time.process_time()\n{program}\nprint(1000 * (time.process_time() - began))"
    done = subprocess.run([sys.executable, "-c", timed], env=environment(), capture_output=True, text=True, check=True)
    return float(done.stdout)


def ready_cpu_ms(run: Run, database: Path | None = None) -> float:
    """Measure the CPU time of a server until its first response, on a new database or on this one."""
    port = free_port()
    path = database or run.folder / f"new-{port}.db"
    command = [sys.executable, "-m", "mirror_server", "run", "--port", str(port), "--database", f"sqlite:///{path}"]
    with server("ready", command, port, folder=run.folder, cores=run.cores.one, ready="/healthz") as started:
        user, system = Path(f"/proc/{started.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return 1000 * (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
