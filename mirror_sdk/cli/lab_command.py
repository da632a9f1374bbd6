"""The command that starts a mirror and JupyterLab."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import click

from mirror_sdk import examples
from mirror_sdk.cli.group import main
from mirror_sdk.cli.log_commands import stop
from mirror_sdk.lab.laboratory import BESIDE, run_lab


@main.command()
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    default="mirror-notebooks",
    show_default=True,
    help="Where the notebooks are copied to. What is there already stays as it is.",
)
@click.option(
    "--devices",
    "device_count",
    type=click.IntRange(min=1),
    default=12,
    show_default=True,
    help="How many devices to have.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="The same seed gives the same devices and values.")
@click.option(
    "--database",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Keep the devices and all that is known of them in this file for the next time, and the access key in FILE.key"
    " beside it. Without it they are lost.",
)
@click.option(
    "--beside",
    type=click.Choice(sorted(BESIDE)),
    help="Open a widget beside the first notebook, running: the events (watcher) or all devices (fleet). Its notebook,"
    " beside_watcher.ipynb or beside_fleet.ipynb, is made anew.",
)
@click.option(
    "--coap",
    is_flag=True,
    help="Have four real devices too: programs that come by CoAP from this machine, and end with the mirror.",
)
@click.option("--port", type=click.IntRange(0, 65535), help="Port of JupyterLab; by default 8888 or the next free one.")
@click.option("--no-browser", is_flag=True, help="Do not open a browser; JupyterLab prints the address to open.")
def lab(
    folder: Path,
    device_count: int,
    seed: int,
    database: Path | None,
    beside: str | None,
    port: int | None,
    no_browser: bool,
    coap: bool,
) -> None:
    """Start a mirror with simulated devices, and JupyterLab on the notebooks.

    API_HOST and API_KEY are set in the notebooks. The last lines it prints lead to them and to the mirror's own page,
    which a tile in JupyterLab's launcher opens too. JupyterLab asks nothing about news and fetches none, and trusts
    the notebooks as long as they are as they came.

    The mirror lives as long as JupyterLab, and what it knows with it, unless --database names a file to keep it in. Its
    time is simulated: it begins on Monday 5 January 2026, 08:00 UTC, passes as usual, and a notebook can let hours of
    it pass in a moment.

    \b
      mirror lab --devices 50 --database fleet.db
      mirror lab --beside watcher
      mirror lab --coap
    """  # noqa: D301 - click wants the character, not its escape
    signal.signal(signal.SIGTERM, stop)
    options = ["--no-browser"] if no_browser else []
    if port is not None:
        options.append(f"--ServerApp.port={port}")
    try:
        status = run_lab(
            examples.copy(folder),
            devices=device_count,
            seed=seed,
            database=database,
            beside=beside,
            coap=coap,
            options=options,
            say=click.echo,
        )
    except KeyboardInterrupt:
        status = 0
    sys.exit(status)
