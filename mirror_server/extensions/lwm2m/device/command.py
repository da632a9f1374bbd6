"""The ``mirror-device`` command, which imitates LwM2M devices."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from mirror_server.clock import SystemClock
from mirror_server.extensions.lwm2m.device.kinds import NO_KINDS, kinds_by_name
from mirror_server.extensions.options import stop_with_stdin

if TYPE_CHECKING:
    from mirror_server.extensions.lwm2m.device.fleet import DeviceOptions

_FORMATS = {"text": 0, "opaque": 42, "senml-json": 110, "senml-cbor": 112, "tlv": 11542}
_KINDS = list(kinds_by_name())
_MIXED = "mixed"
_OTHER_FILES = 64
"""The maximum number of open files in addition to the sockets of the devices."""
_PSK_VARIABLE = "MIRROR_DEVICE_PSK"


def _read_key(_context: click.Context, _parameter: click.Parameter, digits: str | None) -> bytes | None:
    if digits is None:
        return None
    try:
        key = bytes.fromhex(digits)
    except ValueError:
        key = b""
    if not key:
        raise click.BadParameter("a key must have hexadecimal digits, two for each byte, like 00ff1a2b")
    return key


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--server",
    required=True,
    metavar="URL",
    help="The LwM2M server: coap://HOST[:5683], or coaps://HOST[:5684] with DTLS and --psk.",
)
@click.option("--name", required=True, help="Name of the device, which must be unique on the server.")
@click.option(
    "--kind",
    type=click.Choice([*_KINDS, _MIXED]) if _KINDS else str,
    default="weather-station",
    show_default=True,
    help="Kind of device, which determines what it measures. 'mixed' with --count uses all kinds in turn.",
)
@click.option(
    "--count",
    type=click.IntRange(1, 10_000),
    default=1,
    show_default=True,
    help="Number of devices: NAME-01, NAME-02 and so on, each with its own socket.",
)
@click.option(
    "--queue",
    "queue_mode",
    is_flag=True,
    help="Use queue mode: stay awake for 93 seconds after the last message, then sleep, and make contact every 15"
    " minutes. The first contact may be earlier.",
)
@click.option(
    "--psk",
    metavar="KEY",
    envvar=_PSK_VARIABLE,
    show_envvar=True,
    callback=_read_key,
    help="The pre-shared key in hexadecimal digits, for coaps. Use the variable to keep it out of process lists.",
)
@click.option("--identity", help="Identity that the device sends with its key. By default the name of the device.")
@click.option(
    "--lifetime",
    "lifetime_seconds",
    type=click.IntRange(2, 2**31 - 1),
    default=86400,
    show_default=True,
    metavar="SECONDS",
    help="Lifetime of the registration in seconds. The device updates it after half of this time.",
)
@click.option(
    "--version",
    type=click.Choice(["1.0", "1.1"]),
    default="1.0",
    show_default=True,
    help="Version of LwM2M that the device speaks.",
)
@click.option(
    "--format",
    "formats",
    multiple=True,
    type=click.Choice(list(_FORMATS)),
    help="Support only this content format. Can be repeated. By default the device supports all formats of its LwM2M"
    " version.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="The same seed and name give the same values.")
@click.option(
    "--stop-with-stdin",
    "follows_stdin",
    is_flag=True,
    help="Stop when the standard input ends, for example because the parent process ended.",
)
def main(*, name: str, kind: str, count: int, follows_stdin: bool, **common: Any) -> None:
    """Imitate a LwM2M device until Ctrl-C. It registers, measures, and can be read, written and observed.

    \b
    A weather station for a mirror on this machine:
      mirror-server run --coap 127.0.0.1:5683
      mirror-device --server coap://127.0.0.1:5683 --name my-sensor
    \b
    With DTLS, and the key that 'mirror-server devices add my-sensor' printed:
      export MIRROR_DEVICE_PSK=...
      mirror-device --server coaps://mirror.example:5684 --name my-sensor
    """  # noqa: D301 - click wants the character, not its escape
    options = _options(name, count, **common)
    _allow_sockets(count)
    if not _KINDS:
        raise click.ClickException(NO_KINDS)
    names = [name] if count == 1 else [f"{name}-{number:02}" for number in range(1, count + 1)]
    kinds = _KINDS if kind == _MIXED else [kind]
    if follows_stdin:
        stop_with_stdin()
    else:
        # Instructions are printed only on terminals, because a parent program would mix them with its own output.
        label = name if count == 1 else f"{names[0]} to {names[-1]}"
        click.echo(f"{label}: registering with {options.server}", err=True)
    asyncio.run(_serve(options, [(each, kinds[index % len(kinds)]) for index, each in enumerate(names)]))


def _options(
    name: str, count: int, *, psk: bytes | None, identity: str | None, server: str, formats: Sequence[str], **more: Any
) -> DeviceOptions:
    """Check the options, and return the options that all devices have in common.

    Raises:
        click.ClickException: A package is not installed, or two options cannot be combined.
    """
    if find_spec("aiocoap") is None:
        raise click.ClickException("aiocoap is missing; install it with: pip install 'device-state-mirror[lwm2m]'")
    from mirror_server.extensions.lwm2m.device.coap_socket import PreSharedKey, ServerAddress  # noqa: PLC0415 - an extra
    from mirror_server.extensions.lwm2m.device.fleet import DeviceOptions  # noqa: PLC0415

    try:
        address = ServerAddress.parse(server)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--server") from None
    _check(name, psk, count=count, is_secure=address.is_secure)
    wrong = sorted(set(formats) & {"senml-json", "senml-cbor"}) if more["version"] == "1.0" else []
    if wrong:
        raise click.UsageError(f"{wrong[0]} needs LwM2M 1.1: add --version 1.1")
    try:
        key = PreSharedKey((identity or name).encode(), psk) if address.is_secure and psk is not None else None
    except ValueError as error:
        raise click.UsageError(f"--psk, --identity: {error}") from None
    numbers = frozenset(_FORMATS[each] for each in formats) or None
    return DeviceOptions(server=str(address), key=key, formats=numbers, **more)


def _check(name: str, psk: bytes | None, *, count: int, is_secure: bool) -> None:
    if not name or any(not character.isprintable() for character in name):
        raise click.BadParameter("a name must have printable characters only, at least one", param_hint="--name")
    if is_secure and psk is None:
        raise click.UsageError(
            f"coaps:// needs the key of the device: --psk, or the variable {_PSK_VARIABLE};"
            " create one with 'mirror-server devices add NAME'"
        )
    if is_secure and count > 1:
        raise click.UsageError("--count is for coap:// only: with DTLS each device needs its own key")
    is_key_named = click.get_current_context().get_parameter_source("psk") is ParameterSource.COMMANDLINE
    if is_key_named and not is_secure:
        raise click.UsageError(
            "--psk is for coaps:// only, because coap:// is not encrypted; use coaps://, or remove --psk"
        )


def _allow_sockets(count: int) -> None:
    """Raise the limit of open files so that each device can have a socket."""
    if sys.platform == "win32":
        return
    import resource  # noqa: PLC0415 - not on every system

    needed = count + _OTHER_FILES
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if now == resource.RLIM_INFINITY or now >= needed:
        return
    if most != resource.RLIM_INFINITY and most < needed:
        raise click.UsageError(
            f"--count {count} needs {needed} open files, and 'ulimit -Hn' allows {most}: use fewer"
            " devices, or several processes"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, most))


async def _serve(options: DeviceOptions, devices: Sequence[tuple[str, str]]) -> None:
    from mirror_server.extensions.lwm2m.device.fleet import DeviceFleet  # noqa: PLC0415 - an extra

    stop = asyncio.Event()
    # If a loop does not support signal handlers, Ctrl-C cancels this task.
    with suppress(NotImplementedError):
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
    clock = SystemClock()
    fleet = DeviceFleet(options, devices, clock, log=click.echo)
    starting, stopped = asyncio.create_task(fleet.start()), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait([starting, stopped], return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            starting.result()
            await stopped
    except (*fleet.FAILURES, ImportError) as error:
        raise click.ClickException(str(error)) from error
    finally:
        for task in (starting, stopped):
            task.cancel()
        await asyncio.gather(starting, stopped, return_exceptions=True)
        await fleet.stop()
        clock.close()
