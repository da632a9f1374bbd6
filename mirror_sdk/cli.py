"""The ``mirror`` command."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from types import FrameType
from typing import NoReturn

import click

from mirror_sdk import examples
from mirror_sdk.lab import LabError, run_lab


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="device-state-mirror")
def main() -> None:
    r"""Work with a device state mirror.

    \b
    Begin here: a mirror with simulated devices, and JupyterLab on the first notebook:
      mirror lab
    """


@main.command()
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    default="mirror-notebooks",
    show_default=True,
    help="Where the notebooks are copied to. What is there already stays as it is.",
)
@click.option("--devices", type=click.IntRange(min=1), default=12, show_default=True, help="How many devices to have.")
@click.option("--seed", type=int, default=0, show_default=True, help="The same seed gives the same devices and values.")
@click.option("--port", type=click.IntRange(0, 65535), help="Port of JupyterLab; by default 8888 or the next free one.")
@click.option("--no-browser", is_flag=True, help="Do not open a browser; JupyterLab prints the address to open.")
def lab(folder: Path, devices: int, seed: int, port: int | None, no_browser: bool) -> None:
    """Start a mirror with simulated devices, and JupyterLab on the notebooks.

    API_HOST and API_KEY are set in the notebooks. The mirror lives as long as JupyterLab: its database is temporary.
    Its time is simulated: it begins on Monday 5 January 2026, 08:00 UTC, passes as usual, and a notebook can let
    hours of it pass in a moment.
    """
    signal.signal(signal.SIGTERM, _stop)
    options = ["--no-browser"] if no_browser else []
    if port is not None:
        options.append(f"--ServerApp.port={port}")
    try:
        status = run_lab(examples.copy(folder), devices=devices, seed=seed, options=options, say=click.echo)
    except LabError as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        status = 0
    sys.exit(status)


def _stop(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
