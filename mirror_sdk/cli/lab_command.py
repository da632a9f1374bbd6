"""The command that starts a mirror and JupyterLab."""

from __future__ import annotations

import signal
import sys
from contextlib import ExitStack, closing
from pathlib import Path

import click

from mirror_sdk import examples
from mirror_sdk.cli.event_commands import stop
from mirror_sdk.cli.group import main
from mirror_sdk.lab.demo import DemoServer, check_installed
from mirror_sdk.lab.jupyterlab import WIDGETS, jupyterlab
from mirror_sdk.lab.real_devices import LabDevices


@main.command()
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    default="mirror-notebooks",
    show_default=True,
    help="Copy the notebooks into this folder. Existing files are not changed.",
)
@click.option(
    "--devices", "device_count", type=click.IntRange(min=1), default=12, show_default=True, help="Number of devices."
)
@click.option("--seed", type=int, default=0, show_default=True, help="The same seed gives the same devices and values.")
@click.option(
    "--database",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Store the devices and their data in this file for the next start, and the access key in FILE.key next to it."
    " Without this option they are lost.",
)
@click.option(
    "--widget",
    type=click.Choice(sorted(WIDGETS)),
    help="Open a running widget next to the first notebook: the events (watcher) or all devices (fleet). Its notebook,"
    " widget_watcher.ipynb or widget_fleet.ipynb, is overwritten.",
)
@click.option(
    "--coap",
    is_flag=True,
    help="Also start four programs that act as real devices over CoAP on this machine. They end with the mirror.",
)
@click.option("--port", type=click.IntRange(0, 65535), help="Port of JupyterLab. By default 8888 or the next free one.")
@click.option("--no-browser", is_flag=True, help="Do not open a browser. JupyterLab prints the address to open.")
def lab(
    folder: Path,
    device_count: int,
    seed: int,
    database: Path | None,
    widget: str | None,
    port: int | None,
    no_browser: bool,
    coap: bool,
) -> None:
    """Start a mirror with simulated devices, and JupyterLab with the notebooks.

    The notebooks get API_HOST and API_KEY. The last lines of the output are the addresses of the notebooks and of the
    page of the mirror. A tile in the launcher of JupyterLab opens the page, too. JupyterLab does not fetch news from
    the internet. It trusts the notebooks until you change them.

    The mirror stops when JupyterLab stops. Without --database, its data are lost at that time. The time of the mirror
    is simulated. It starts on Monday, January 5, 2026, at 08:00 UTC and passes at normal speed. A notebook can advance
    it by hours at once.

    \b
      mirror lab --devices 50 --database fleet.db
      mirror lab --widget watcher
      mirror lab --coap
    """  # noqa: D301 - click wants the character, not its escape
    # JupyterLab has a separate session. By default, SIGTERM would end only this process and leave JupyterLab running.
    signal.signal(signal.SIGTERM, stop)
    first, *_ = examples.copy(folder)
    options = [*(["--no-browser"] if no_browser else []), *([] if port is None else [f"--ServerApp.port={port}"])]
    check_installed("jupyterlab", "jupyter_server_proxy", extra="notebook")
    try:
        with ExitStack() as running:
            server = DemoServer(devices=device_count, seed=seed, database=database, coap=coap)
            running.enter_context(closing(server))
            click.echo(f"Mirror with {server.count_devices()} simulated devices: {server.base_url}")
            if coap:
                client = running.enter_context(server.client())
                real = running.enter_context(closing(LabDevices(server.coap_url, client)))
                click.echo(f"Real devices, by {server.coap_url}: {', '.join(real.names)}")
            click.echo(f"Database: {'temporary' if database is None else database.resolve()}")
            click.echo(f"Notebooks: {first.parent.resolve()}")
            process = running.enter_context(jupyterlab(first, widget, options, server.environment))
            status = process.wait()
    except KeyboardInterrupt:
        status = 0
    sys.exit(status)
