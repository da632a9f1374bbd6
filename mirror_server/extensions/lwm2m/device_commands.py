"""The commands that manage the pre-shared keys of real devices. They also work while a server is running."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import closing, contextmanager

import click

from mirror_sdk._formatting import visible
from mirror_server.cli import main
from mirror_server.clock import wall_time
from mirror_server.config import database_option
from mirror_server.core.timestamps import to_datetime
from mirror_server.extensions.lwm2m import device_keys
from mirror_server.extensions.lwm2m.device_keys import DeviceKey, InvalidDeviceKey, Renaming
from mirror_server.extensions.lwm2m.settings import COAPS_PORT, exposed_files
from mirror_server.hooks import open_database


@main.group()
def devices() -> None:
    """Add, list, revoke and rename the pre-shared keys of real devices, which connect over DTLS ('run --coaps')."""


@devices.command("add")
@click.argument("endpoint_name")
@click.option(
    "--identity",
    metavar="ID",
    help="Identity of the device in the handshake, if it is not its endpoint name.",
)
@database_option
def add_device(endpoint_name: str, identity: str | None, database_url: str) -> None:
    """Add a key for the device that registers as ENDPOINT_NAME, and print it with instructions.

    The key is printed only once. The server can keep running.
    """
    # This is checked before the database is opened, because an open database temporarily has more files next to it.
    _reject_exposed(database_url)
    with _click_errors(), closing(open_database(database_url)) as database:
        key = device_keys.add(database, endpoint_name, identity, wall_time())
    click.echo("\n".join(_instructions(key)))


@devices.command("list")
@database_option
def list_devices(database_url: str) -> None:
    """List the endpoint name, identity and creation time of each device with a key. The keys are not shown."""
    with closing(open_database(database_url, must_exist=True)) as database, database.read() as session:
        for key in device_keys.list_all(session):
            created_at = f"{to_datetime(key.created_at):%Y-%m-%dT%H:%MZ}"
            click.echo(f"{visible(key.endpoint_name)}\t{visible(key.identity)}\t{created_at}")


@devices.command("revoke")
@click.argument("endpoint_name")
@database_option
def revoke_device(endpoint_name: str, database_url: str) -> None:
    """Delete the key of the device ENDPOINT_NAME, which can then no longer connect.

    An open session ends within a second. The data of the device stays: 'mirror-server erase' deletes it.
    """
    with _click_errors(), closing(open_database(database_url, must_exist=True)) as database:
        device_keys.revoke(database, endpoint_name)
    click.echo(f"revoked {visible(endpoint_name)}")


@devices.command("rename")
@click.argument("endpoint_name", metavar="OLD")
@click.argument("new_name", metavar="NEW")
@database_option
def rename_device(endpoint_name: str, new_name: str, database_url: str) -> None:
    """Let the device that registered as OLD register only as NEW. Its identity and key stay.

    The device keeps its id in the mirror and gets the name NEW, unless another device already has that name.
    Presubscription rules belong to the applications and do not change: a rule for OLD does not apply to NEW.
    """
    with _click_errors(), closing(open_database(database_url, must_exist=True)) as database:
        renaming = device_keys.rename(database, endpoint_name, new_name)
    click.echo(f"renamed {visible(endpoint_name)} to {visible(new_name)}")
    if renaming is Renaming.UNKNOWN_DEVICE:
        click.echo(f"Only the key was renamed: the mirror has no device with the name {visible(endpoint_name)}.")
    elif renaming is Renaming.NAME_IN_USE:
        click.echo(f"Only the key was renamed: the mirror already has a device with the name {visible(new_name)}.")


@contextmanager
def _click_errors() -> Iterator[None]:
    try:
        yield
    except InvalidDeviceKey as error:
        raise click.ClickException(visible(str(error))) from None


def _reject_exposed(database_url: str) -> None:
    """Reject a database that other users can access, because they could read the key."""
    exposed = exposed_files(database_url)
    if exposed:
        files = shlex.join(map(str, exposed))
        raise click.ClickException(
            f"other users can access the database, which stores device keys unencrypted; run this"
            f" first: chmod 600 {files}"
        )


def _instructions(key: DeviceKey) -> Iterator[str]:
    secret = key.secret.hex()
    identity = "" if key.identity == key.endpoint_name else f" --identity {shlex.quote(key.identity)}"
    yield f"Endpoint name  {key.endpoint_name}"
    yield f"Identity       {key.identity}"
    yield f"Key            {secret}"
    yield ""
    yield "The key is in hexadecimal and is not shown again. The device needs these three values, the mode"
    yield f"'pre-shared key', and the server address coaps://HOST:{COAPS_PORT}. To try it without a device:"
    yield ""
    yield f"  export MIRROR_DEVICE_PSK={secret}"
    yield (f"  mirror-device --server coaps://127.0.0.1:{COAPS_PORT} --name {shlex.quote(key.endpoint_name)}{identity}")
