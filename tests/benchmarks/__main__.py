"""Measures the mirror against comparable software and prints the results next to the goals.

Run it on Linux as ``python tests/benchmarks``, or as ``mirror-benchmarks`` if the package is installed with its extra
``test``; ``--help`` lists the sizes. All sides of a ratio alternate within one run, so that the ratio is meaningful on
any machine. For the same reason, a time is divided by that of a bare request. Server and client run on separate cores
if there are enough. The module of each benchmark describes its sides and what its figures exclude. A program that is
not available is reported at the end, and the rest is measured.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import device_object
import fleet
import full_log
import growth
import history
import import_time
import loop_holds
import malicious
import observation
import polls
import processes
import read_value
import real_devices
import widgets
from children import ChildFailed, Missing, program
from machine import Cores, facts
from measuring import Figure
from rich.console import Console
from rich.table import Table
from run_settings import Run, Scale, with_sizes

BENCHMARKS: dict[str, Callable[[Run], Iterator[Figure]]] = {
    module.NAME: module.measure
    for module in (
        device_object,
        observation,
        read_value,
        polls,
        fleet,
        growth,
        full_log,
        history,
        processes,
        import_time,
        loop_holds,
        malicious,
        real_devices,
        widgets,
    )
}


def _cache() -> Path:
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "device-state-mirror" / "benchmarks"


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.argument("names", nargs=-1, type=click.Choice(list(BENCHMARKS)), metavar="[BENCHMARK]...")
@with_sizes
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder for the databases. Choose one on the disk that you want to measure. By default the folder for"
    " temporary files.",
)
@click.option(
    "--json",
    "result",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File for the results as JSON. By default a new file in the cache folder of the user, named by the time.",
)
def main(names: tuple[str, ...], folder: Path | None, result: Path | None, **sizes: Any) -> None:
    """Measure a mirror on this machine and compare the results with the goals.

    Without a BENCHMARK, the command runs all of them. It prints a table and stores the results as JSON. Run it on an
    idle machine. Smaller sizes make it faster and its figures less reliable.

    \b
      mirror-benchmarks
      mirror-benchmarks device_object polls --rounds 3 --polls 1000

    \b
    device_object  requests per second for the object of a device
    observation    reported values per second, and the longest wait
    read_value     time to read a value from a device
    polls          open long polls: memory, and time to wake them
    fleet          the table of a fleet: time and memory
    growth         costs that must not grow with the fleet, log or rules
    full_log       a full notification log at a high rate, with slow readers
    history        costs of storing and reading a history
    processes      capacity of several server processes on PostgreSQL
    import_time    time to import the client and to start the commands
    loop_holds     how long calls block an event loop
    malicious      effect of malicious clients on others
    real_devices   devices that connect over CoAP
    widgets        widgets in a browser, with many events and devices
    """
    # A signal ends the command normally, so that child processes are stopped too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    cores = Cores.of_this_machine()
    os.sched_setaffinity(0, cores.client)
    console = Console(width=None if os.isatty(1) else 160)
    with tempfile.TemporaryDirectory(prefix="mirror-benchmarks-", dir=folder) as made:
        where = Path(made)
        # Children load bytecode, as installed programs do, even if this process must not write any.
        if sys.dont_write_bytecode:
            del os.environ["PYTHONDONTWRITEBYTECODE"]
            os.environ["PYTHONPYCACHEPREFIX"] = str(where / "bytecode")
        machine = facts(where, cores)
        for name, fact in machine.items():
            console.print(f"{name}: {fact}", highlight=False)
        with program("load_program.py", folder=where, cores=cores.client) as generator:
            run = Run(scale=Scale(**sizes), cores=cores, folder=where, generator=generator)
            figures, failed = _measure(names or tuple(BENCHMARKS), run, console)
    content = {
        "machine": machine | {"load_average_at_end": os.getloadavg()},
        "sizes": sizes,
        "figures": [figure.as_json() for figure in figures],
        "missing": run.missing,
        "failed": failed,
    }
    path = result or _cache() / f"result-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1))
    console.print(_table(figures))
    for name, reason in run.missing.items():
        # The last line that a program wrote is its error.
        console.print(f"not measured: {name}: {reason.strip().splitlines()[-1]}", highlight=False, markup=False)
    console.print(f"wrote {path}", highlight=False)
    if failed:
        raise click.ClickException("\n".join(f"{name} failed: {message}" for name, message in failed.items()))


def _measure(names: tuple[str, ...], run: Run, console: Console) -> tuple[list[Figure], dict[str, str]]:
    """Return all figures, each printed when it is measured, and the error of each benchmark that failed."""
    figures: list[Figure] = []
    failed: dict[str, str] = {}
    for name in names:
        began = time.perf_counter()
        try:
            for figure in BENCHMARKS[name](run):
                figures.append(figure)
                console.print(f"{name}: {figure.what}: {_value(figure)}", highlight=False)
        except Missing as error:
            run.missing[name] = str(error)
        except ChildFailed as error:
            failed[name] = str(error)
        console.print(f"{name} took {time.perf_counter() - began:.0f} s", highlight=False)
    return figures, failed


def _table(figures: list[Figure]) -> Table:
    table = Table("benchmark", "what", "figure", "goal", "met", "sides", highlight=False)
    for figure in figures:
        met = {None: "", True: "[green]yes[/]", False: "[red]no[/]"}[figure.met]
        sides = ", ".join(f"{name} {value:,.4g} {figure.side_unit}" for name, value in figure.sides.items())
        table.add_row(figure.benchmark, figure.what, _value(figure), str(figure.goal or ""), met, sides)
    return table


def _value(figure: Figure) -> str:
    return f"{figure.value:,.3g} {figure.unit}"


if __name__ == "__main__":
    main(prog_name="mirror-benchmarks")
