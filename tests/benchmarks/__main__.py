"""Measures the mirror against its peers, and prints what came out beside the goals.

Run it on Linux as ``python tests/benchmarks``, or as ``mirror-benchmarks`` where the package is installed with its
extra ``test``; ``--help`` tells the sizes. All sides of a ratio belong to one run and take turns, so that a ratio says
something on any machine, and a time is held against that of a bare request for the same reason. The server's cores are
not the client's where there are enough. What a side is, and what is not in a figure, stands in the module of each
benchmark. Another program that cannot be had is told of at the end, and the rest is measured.
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

import call_overhead
import click
import device_object
import fleet
import growth
import history
import hostile
import import_time
import loop_holds
import observation
import polls
import processes
import questions
import read_value
import real_devices
import soak
from children import ChildFailed, program
from machine import Cores, facts
from measuring import Figure
from peers import PeerMissing, Peers
from rich.console import Console
from rich.table import Table
from run_settings import Run, Scale

BENCHMARKS: dict[str, Callable[[Run], Iterator[Figure]]] = {
    module.NAME: module.measure
    for module in (
        device_object,
        observation,
        read_value,
        polls,
        fleet,
        growth,
        history,
        processes,
        import_time,
        call_overhead,
        loop_holds,
        hostile,
        real_devices,
        questions,
    )
}
_TITLES = ("benchmark", "what", "figure", "goal", "met", "sides")


def _cache() -> Path:
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "device-state-mirror" / "benchmarks"


def _sizes(_context: click.Context, _parameter: click.Parameter, text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not all(part.isdecimal() and int(part) for part in parts):
        raise click.BadParameter("write whole numbers above 0 with commas between them, like 1000,10000")
    return tuple(sorted(map(int, parts)))


_COUNT = click.IntRange(min=1)


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.argument("names", nargs=-1, type=click.Choice([*BENCHMARKS, soak.NAME]), metavar="[BENCHMARK]...")
@click.option("--rounds", default=5, type=_COUNT, help="How often each side is measured, in turn.")
@click.option("--seconds", default=3.0, type=click.FloatRange(min=0.05), help="How long one measurement of a rate is.")
@click.option("--connections", default=16, type=_COUNT, help="How many connections the load generator keeps busy.")
@click.option("--devices", default=1000, type=_COUNT, help="How many devices are read and observed.")
@click.option("--resources", default=20, type=_COUNT, help="How many resources a device has.")
@click.option("--in-flight", default=32, type=_COUNT, help="How many observations wait for the disk at once.")
@click.option("--batch", default=500, type=_COUNT, help="How many observations are one group.")
@click.option("--polls", default=10_000, type=_COUNT, help="How many polls are held open.")
@click.option("--events", default=300, type=_COUNT, help="How many events a single poll waits for in each round.")
@click.option("--calls", default=300, type=_COUNT, help="How many calls of an SDK make one measurement.")
@click.option("--growth", default="1000,10000,100000", callback=_sizes, help="The sizes of a growing fleet.")
@click.option("--log-entries", default=1_000_000, type=click.IntRange(min=10), help="The entries of a long log.")
@click.option("--rules", default=1000, type=click.IntRange(10, 1024), help="How many presubscription rules there are.")
@click.option("--registrations", default=10_000, type=click.IntRange(min=10), help="How many devices register.")
@click.option("--fleet", default=10_000, type=_COUNT, help="How many devices the table of a fleet has.")
@click.option("--loop-devices", default=5000, type=_COUNT, help="How many devices an event loop's client has.")
@click.option("--flood-mib", default=96, type=_COUNT, help="How much a hostile client sends on one connection.")
@click.option("--deaf", default=100, type=_COUNT, help="How many connections read none of their answers.")
@click.option("--coap-devices", default=2000, type=_COUNT, help="How many devices notify over CoAP.")
@click.option("--coap-registrations", default=10_000, type=_COUNT, help="How many devices register at once over CoAP.")
@click.option("--minutes", default=3.0, type=click.FloatRange(min=0.05), help="How long the soak is; only when named.")
@click.option("--soak-devices", default=300, type=_COUNT, help="How many simulated devices the soak has.")
@click.option("--peers/--no-peers", "with_peers", default=True, help="Whether to install and measure other programs.")
@click.option(
    "--cache",
    default=_cache,
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the other programs are installed, and where results are kept.",
)
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Where databases are made; a disk that matters. Without it the folder for temporary files.",
)
@click.option(
    "--json",
    "result",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file the result is written to. Without it one in the cache folder, named by the time.",
)
def main(
    names: tuple[str, ...],
    minutes: float,
    soak_devices: int,
    with_peers: bool,
    cache: Path,
    folder: Path | None,
    result: Path | None,
    **sizes: Any,
) -> None:
    """Measure the mirror against its peers: all benchmarks, or those that are named.

    The soak is run only when it is named: it uses a server for so many minutes, and shows what that one holds then.
    """
    # So that what was started is stopped then too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    cores = Cores.of_this_machine()
    os.sched_setaffinity(0, cores.client)
    peers = Peers(cache / "peers") if with_peers else None
    console = Console(width=None if os.isatty(1) else 160)
    with tempfile.TemporaryDirectory(prefix="mirror-benchmarks-", dir=folder) as made:
        where = Path(made)
        # Children load bytecode, as installed programs do, even where this process may not write any.
        if sys.dont_write_bytecode:
            del os.environ["PYTHONDONTWRITEBYTECODE"]
            os.environ["PYTHONPYCACHEPREFIX"] = str(where / "bytecode")
        machine = facts(where, cores)
        for name, fact in machine.items():
            console.print(f"{name}: {fact}", highlight=False)
        with program("load_program.py", folder=where, cores=cores.client) as generator:
            run = Run(scale=Scale(**sizes), cores=cores, folder=where, generator=generator, peers=peers)
            compared = tuple(name for name in names or BENCHMARKS if name in BENCHMARKS)
            figures, failed = _measure(compared, run, console)
            soaked = soak.soak(run, minutes, soak_devices) if soak.NAME in names else None
    content = {
        "machine": machine | {"load_average_at_end": os.getloadavg()},
        "peers": peers.versions if peers else None,
        "sizes": sizes,
        "figures": [figure.as_json() for figure in figures],
        "missing": run.missing,
        "failed": failed,
        "soak": soaked and soak.as_json(*soaked),
    }
    path = result or cache / f"result-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1))
    if figures:
        console.print(_table(figures))
    if soaked:
        console.print(soak.table(*soaked))
    for name, reason in run.missing.items():
        # The last line of what a program wrote is its error.
        console.print(f"not measured: {name}: {reason.strip().splitlines()[-1]}", highlight=False, markup=False)
    console.print(f"wrote {path}", highlight=False)
    if failed:
        raise click.ClickException("\n".join(f"{name} failed: {message}" for name, message in failed.items()))


def _measure(names: tuple[str, ...], run: Run, console: Console) -> tuple[list[Figure], dict[str, str]]:
    """All figures, each told as soon as it is there, and what went wrong with which benchmark."""
    figures: list[Figure] = []
    failed: dict[str, str] = {}
    for name in names:
        began = time.perf_counter()
        try:
            for figure in BENCHMARKS[name](run):
                figures.append(figure)
                console.print(f"{name}: {figure.what}: {_value(figure)}", highlight=False)
        except PeerMissing as error:
            run.missing[name] = str(error)
        except ChildFailed as error:
            failed[name] = str(error)
        console.print(f"{name} took {time.perf_counter() - began:.0f} s", highlight=False)
    return figures, failed


def _table(figures: list[Figure]) -> Table:
    table = Table(*_TITLES, highlight=False)
    for figure in figures:
        met = {None: "", True: "[green]yes[/]", False: "[red]no[/]"}[figure.met]
        sides = ", ".join(f"{name} {value:,.4g} {figure.side_unit}" for name, value in figure.sides.items())
        table.add_row(figure.benchmark, figure.what, _value(figure), str(figure.goal or ""), met, sides)
    return table


def _value(figure: Figure) -> str:
    return f"{figure.value:,.3g} {figure.unit}"


if __name__ == "__main__":
    main(prog_name="mirror-benchmarks")
