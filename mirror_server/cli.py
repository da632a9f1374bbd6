"""The ``mirror-server`` command."""

from __future__ import annotations

import ipaddress
import json
import logging
import signal
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import click

from mirror_server import keys as access_keys
from mirror_server.callout import Network
from mirror_server.config import Settings
from mirror_server.core.instants import Instant, from_datetime, to_datetime
from mirror_server.keys import DEFAULT_SCOPES, Scope
from mirror_server.serve import ListenError, listen, serve
from mirror_server.services import Services
from mirror_server.store import keys as stored_keys
from mirror_server.store import maintenance
from mirror_server.store.database import DEFAULT_URL, Database, DatabaseError, path_of

P = TypeVar("P")
R = TypeVar("R")

_CLOCKS = click.Choice(["system", "manual"])

host_option = click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    envvar="MIRROR_HOST",
    show_envvar=True,
    help="Address to listen on.",
)
port_option = click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8080,
    show_default=True,
    envvar="MIRROR_PORT",
    show_envvar=True,
    help="Port to listen on; 0 takes a free one.",
)
database_option = click.option(
    "--database",
    "database_url",
    metavar="URL",
    default=DEFAULT_URL,
    show_default=True,
    envvar="MIRROR_DATABASE",
    show_envvar=True,
    help="Where the state is kept: sqlite:///FILE. The file is made where there is none.",
)
seed_option = click.option(
    "--seed",
    type=int,
    default=0,
    show_default=True,
    envvar="MIRROR_SEED",
    show_envvar=True,
    help="What the simulated devices are made from; the same seed gives the same devices and values.",
)
clock_option = click.option(
    "--clock",
    type=_CLOCKS,
    default="system",
    show_default=True,
    envvar="MIRROR_CLOCK",
    show_envvar=True,
    help="With 'manual' time stands still until it is advanced through the bench.",
)


def _read_network(text: str) -> Network:
    try:
        return ipaddress.ip_network(text)
    except ValueError as error:
        raise click.BadParameter(f"{error}; write a network like 10.0.0.0/8") from None


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="device-state-mirror")
def main() -> None:
    """A device state mirror: the last reported and the last desired value of every resource of every device.

    \b
    Try it, with simulated devices and a fresh key:
      mirror-server demo
    \b
    Run it, with a database of your own:
      mirror-server keys create my-app --database sqlite:///mirror.db
      mirror-server run --database sqlite:///mirror.db
    """  # noqa: D301 - click wants the character, not its escape
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("alembic").setLevel(logging.WARNING)


@main.command()
@host_option
@port_option
@database_option
@click.option(
    "--simulate",
    type=click.IntRange(min=0),
    metavar="N",
    envvar="MIRROR_SIMULATE",
    show_envvar=True,
    help="Have N simulated devices, and the bench to play them with. Without it there are none.",
)
@seed_option
@clock_option
@click.option(
    "--answer-timeout-seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=120,
    show_default=True,
    envvar="MIRROR_ANSWER_TIMEOUT_SECONDS",
    show_envvar=True,
    help="How long an attempt waits for a device's answer before the next one, or before the command fails.",
)
@click.option(
    "--allow-callbacks-to",
    "callback_networks",
    type=_read_network,
    multiple=True,
    metavar="NETWORK",
    envvar="MIRROR_ALLOW_CALLBACKS_TO",
    show_envvar=True,
    help="A private network webhooks may lead to, such as 10.0.0.0/8; may be given several times. Public addresses"
    " always may be called, this machine's own while the server listens on one of them.",
)
def run(
    host: str,
    port: int,
    database_url: str,
    simulate: int | None,
    seed: int,
    clock: str,
    answer_timeout_seconds: float,
    callback_networks: Sequence[Network],
) -> None:
    """Run the server until it is stopped with Ctrl-C or SIGTERM.

    Programs need an access key: make one with 'mirror-server keys create NAME'.
    """
    settings = Settings(
        database_url=database_url,
        simulate=simulate,
        seed=seed,
        manual_clock=clock == "manual",
        answer_timeout_seconds=answer_timeout_seconds,
        callback_loopback=_is_loopback(host),
        callback_networks=tuple(callback_networks),
    )
    _serve(settings, host, port, announce=lambda url, _: click.echo(f"Serving {database_url} on {url}"))


@main.command()
@port_option
@click.option(
    "--devices", type=click.IntRange(min=0), default=12, show_default=True, help="How many simulated devices to have."
)
@seed_option
@clock_option
def demo(port: int, devices: int, seed: int, clock: str) -> None:
    """Run with simulated devices, a temporary database and a fresh key, for trying things out.

    Prints the two lines that tell programs where to go:

    \b
      export API_HOST=...
      export API_KEY=...
    """  # noqa: D301 - click wants the character, not its escape
    # Until the server looks after its signals itself, SIGTERM is to remove the folder too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    logging.getLogger("mirror_server").setLevel(logging.WARNING)
    with tempfile.TemporaryDirectory(prefix="mirror-demo-") as folder:
        settings = Settings(
            database_url=f"sqlite:///{Path(folder) / 'mirror.db'}",
            simulate=devices,
            seed=seed,
            manual_clock=clock == "manual",
            callback_loopback=True,
        )
        _serve(settings, "127.0.0.1", port, announce=_announce_demo)


@main.group()
def keys() -> None:
    """Make, list and revoke access keys. One key is one application."""


@keys.command("create")
@click.argument("name")
@click.option(
    "--scope",
    "scopes",
    type=click.Choice([scope.value for scope in Scope]),
    multiple=True,
    help="What the key may be used for; may be given several times. Without it: read, write and subscribe.",
)
@database_option
def create_key(name: str, scopes: Sequence[str], database_url: str) -> None:
    """Make an access key called NAME and print it.

    The key is shown this once: only a hash of it is stored.
    """
    with closing(_open(database_url)) as database:
        click.echo(access_keys.create(database, name, [Scope(word) for word in scopes] or DEFAULT_SCOPES, _now()))


@keys.command("list")
@database_option
def list_keys(database_url: str) -> None:
    """List all keys: id, name, scopes, when they were made and revoked. The keys themselves are not stored."""
    with closing(_open(database_url)) as database, database.read() as session:
        for key in stored_keys.list_all(session):
            revoked = f"revoked {to_datetime(key.revoked_at):%Y-%m-%dT%H:%MZ}" if key.revoked_at else "in use"
            created = f"{to_datetime(key.created_at):%Y-%m-%dT%H:%MZ}"
            click.echo("\t".join([key.key_id, key.name, key.scopes.replace(" ", ","), created, revoked]))


@keys.command("revoke")
@click.argument("key_id")
@database_option
def revoke_key(key_id: str, database_url: str) -> None:
    """Make the key with the id KEY_ID useless, at once and for good. 'keys list' shows the ids."""
    with closing(_open(database_url)) as database:
        if not database.write(lambda session: stored_keys.revoke(session, key_id, _now())):
            raise click.ClickException(f"no key with the id {key_id!r} is in use; 'mirror-server keys list' shows them")
    click.echo(f"revoked {key_id}")


@main.command()
@click.argument("device_id")
@click.confirmation_option(prompt="This deletes all that is stored of the device, for good. Go on?")
@database_option
def erase(device_id: str, database_url: str) -> None:
    """Erase all that is stored of a device, for the privacy of its user, and print a receipt.

    The notification logs are included: their readers are told of the gap. A running server need not be stopped.
    """
    with closing(_open(database_url)) as database:
        rows = database.write(lambda session: maintenance.erase_device(session, device_id))
        database.checkpoint()
    if not any(rows.values()):
        raise click.ClickException(f"nothing is stored of a device with the id {device_id!r}")
    receipt = {"device_id": device_id, "erased_at": datetime.now(UTC).isoformat(timespec="seconds"), "rows": rows}
    click.echo(json.dumps(receipt))


@main.command()
@database_option
def check(database_url: str) -> None:
    """Check the database: a line for each thing that is wrong, and exit status 1 if there is one."""
    with closing(_open(database_url)) as database, database.read() as session:
        found = list(maintenance.violations(session))
    for line in found:
        click.echo(line)
    if found:
        raise click.ClickException(f"{len(found)} things are wrong; restore a backup, and keep this file for a report")
    click.echo("all is well")


@main.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@database_option
def backup(file: Path, database_url: str) -> None:
    """Copy the database into the new FILE. A running server need not be stopped."""
    with closing(_open(database_url)) as database:
        _told(database.backup, file)
    click.echo(f"wrote {file}")


@main.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@database_option
def restore(file: Path, database_url: str) -> None:
    """Make the database anew from the backup FILE. There must be none at the URL, so nothing is overwritten."""
    target = _told(path_of, database_url)
    with closing(_open(f"sqlite:///{file}")) as database:
        _told(database.backup, target)
    click.echo(f"restored {database_url}")


def _told(act: Callable[[P], R], argument: P) -> R:
    """What ``act`` gives; a database that cannot be used is told in one line."""
    try:
        return act(argument)
    except DatabaseError as error:
        raise click.ClickException(str(error)) from error


def _serve(settings: Settings, host: str, port: int, announce: Callable[[str, Services], None]) -> None:
    try:
        listener = listen(host, port)
        services = Services(settings)
    except (ListenError, DatabaseError) as error:
        raise click.ClickException(str(error)) from error
    authority = f"[{host}]" if ":" in host else host
    announce(f"http://{authority}:{listener.getsockname()[1]}", services)
    serve(services, listener)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _announce_demo(url: str, services: Services) -> None:
    key = access_keys.create(services.database, "demo", tuple(Scope), _now())
    click.echo(f"export API_HOST={url}")
    click.echo(f"export API_KEY={key}")


def _open(database_url: str) -> Database:
    return _told(Database, database_url)


def _now() -> Instant:
    return from_datetime(datetime.now(UTC))
