"""The command ``mirror-server demo``. It imports the modules of the server only when it is called."""

from __future__ import annotations

import logging
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mirror_sdk._formatting import visible
from mirror_server.cli import main
from mirror_server.cli.run import port_option, serve_until_stopped
from mirror_server.clock import wall_time
from mirror_server.config import options_of
from mirror_server.extensions.options import stop_with_stdin
from mirror_server.extensions.simulator import demo_key
from mirror_server.extensions.simulator.demo_key import DemoKey
from mirror_server.hooks import call_installed, read_settings, setting_classes
from mirror_server.notifications.webhook_limits import LOOPBACK
from mirror_server.service import keys as access_keys
from mirror_server.service.keys import Scope
from mirror_server.store.database import Database, location_of

if TYPE_CHECKING:
    from mirror_server.server import Services

_NOT_STORED = "The key of a demo on PostgreSQL is not stored: the next start replaces it, unless you set --key."


def _check_key(_context: click.Context, _parameter: click.Parameter, key: str | None) -> str | None:
    if key is not None:
        try:
            access_keys.parse_key(key)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None
    return key


@main.command()
@port_option
@click.option(
    "--devices", type=click.IntRange(min=0), default=12, show_default=True, help="Number of simulated devices."
)
@click.option(
    "--database",
    "database_url",
    metavar="URL",
    help="Store the state in this database, sqlite:///FILE, and the key in FILE.key. By default both are lost at the"
    " end.",
)
@options_of("demo", *setting_classes())
@click.option(
    "--key",
    callback=_check_key,
    envvar="MIRROR_DEMO_KEY",
    show_envvar=True,
    help="Use this access key instead of a new or stored one. The command does not print it.",
)
@click.option(
    "--stop-with-stdin",
    "follows_stdin",
    is_flag=True,
    help="Stop when the standard input ends, for example because the parent process ended.",
)
def demo(
    port: int,
    devices: int,
    database_url: str | None,
    key: str | None,
    *,
    follows_stdin: bool,
    **settings: Any,
) -> None:
    """Run with simulated devices, a temporary database and a new key, to try things out.

    It keeps a history of seven days if the extra 'history' is installed.

    It prints two lines that set the address and the key for programs, and a link for a browser:

    \b
      export API_HOST=...
      export API_KEY=...
      # In a browser: ...

    With --database sqlite:///FILE the key is stored in FILE.key, which only you can read. Programs and recordings can
    use it after the next start. To get a new key, remove that file.
    """  # noqa: D301 - click wants the character, not its escape
    # This imports the server before the handler is set. A signal handler that raises must not interrupt the import.
    import mirror_server.web.serve  # noqa: F401, PLC0415

    # Until the server handles signals itself, SIGTERM must also remove the temporary folder.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    logging.getLogger("mirror_server").setLevel(logging.WARNING)
    if settings["pace"] and not settings["manual_clock"]:
        raise click.UsageError("--pace is for a manual clock; add --clock manual")
    if follows_stdin:
        stop_with_stdin()
    with _demo_database(database_url) as url:
        made = read_settings(
            **settings,
            database_url=url,
            simulate=devices,
            callback_networks=LOOPBACK,
            **dict(chain.from_iterable(each.items() for each in call_installed("demo_settings"))),
        )
        serve_until_stopped(made, "127.0.0.1", port, announce=partial(_announce_demo, key, database_url))


@contextmanager
def _demo_database(url: str | None) -> Iterator[str]:
    if url is not None:
        yield url
        return
    with tempfile.TemporaryDirectory(prefix="mirror-demo-") as folder:
        yield f"sqlite:///{Path(folder) / 'mirror.db'}"


def _announce_demo(chosen_key: str | None, database_url: str | None, url: str, services: Services) -> None:
    for line in services.extensions.hook.device_address():
        click.echo(f"# {line}")
    if chosen_key is not None:
        access_keys.store_key(services.database, chosen_key, demo_key.NAME, tuple(Scope), wall_time())
        click.echo(f"export API_HOST={url}")
        return
    key, note, problem = _demo_key(services.database, database_url)
    click.echo(f"export API_HOST={url}")
    click.echo(f"export API_KEY={key}")
    left_out = [f"The extension {name} is not loaded: {why}" for name, why in services.extensions.left_out.items()]
    for line in (*services.announcements(url, key), *left_out):
        click.echo(f"# {line}")
    if note:
        click.echo(f"# {visible(note)}")
    if problem:
        click.echo(f"Warning: {visible(problem)}", err=True)


def _demo_key(database: Database, url: str | None) -> DemoKey:
    location = None if url is None else location_of(url)
    if location is not None and location.is_file:
        try:
            return demo_key.stored_key(database, location.file(), wall_time())
        except demo_key.KeyFileError as error:
            raise click.ClickException(visible(str(error))) from error
    key = demo_key.reissued(database, wall_time())
    return DemoKey(key, _NOT_STORED if url else "")
