"""The command ``run``, and the code that all serving commands share.

The server is imported when a command is called.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from mirror_sdk._formatting import visible
from mirror_server.cli import main
from mirror_server.config import ListenAddress, Settings, options_of
from mirror_server.core.errors import CannotServe
from mirror_server.hooks import Extensions, read_settings, setting_classes
from mirror_server.store.backend import redacted

if TYPE_CHECKING:
    from mirror_server.server import Services

port_option = click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8080,
    show_default=True,
    envvar="MIRROR_PORT",
    show_envvar=True,
    help="TCP port to listen on. 0 selects a free port.",
)


@main.command()
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    envvar="MIRROR_HOST",
    show_envvar=True,
    help="Address to listen on. Set 0.0.0.0 to accept connections from other machines, and then use TLS or a proxy.",
)
@port_option
@options_of("run", *setting_classes())
def run(host: str, port: int, **settings: Any) -> None:
    """Run the server until it is stopped with Ctrl-C or SIGTERM.

    Programs need an access key: create one with 'mirror-server keys create NAME'. Each option can also be set with the
    environment variable shown next to it.

    \b
      mirror-server run --database sqlite:///mirror.db
      mirror-server run --port 8443 --tls-cert cert.pem --tls-key key.pem
    """  # noqa: D301 - click wants the character, not its escape
    serve_until_stopped(read_settings(**settings), host, port, announce=_announce)


def _announce(url: str, services: Services) -> None:
    click.echo(f"Serving {redacted(services.settings.database_url)} on {url}")
    for line in (*services.extensions.hook.device_address(), *services.announcements(url, None)):
        click.echo(line)


def serve_until_stopped(settings: Settings, host: str, port: int, announce: Callable[[str, Services], None]) -> None:
    """Serve until the process receives SIGINT or SIGTERM.

    Args:
        settings: The settings of the server.
        host: The address to listen on.
        port: The port to listen on. 0 selects a free port.
        announce: A function that is called with the URL and the services when the server listens.

    Raises:
        ClickException: The server cannot start with these settings.
    """
    # Nearly all objects of the start remain. `serve` enables the garbage collector after the start.
    gc.disable()
    # Imported here, because no other command needs Flask and uvicorn.
    from mirror_server.server import Services  # noqa: PLC0415
    from mirror_server.web.serve import listen, serve  # noqa: PLC0415

    try:
        # An extension may configure logging. Otherwise basicConfig takes effect.
        Extensions(settings.without).hook.configure_logging(settings=settings)
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
        with listen(host, port) as listener:
            address = ListenAddress(host, listener.getsockname()[1])
            services = Services(settings)
            serve(services, listener, lambda scheme: announce(f"{scheme}://{address}", services))
    except CannotServe as error:
        raise click.ClickException(visible(str(error))) from error
    finally:
        gc.enable()
