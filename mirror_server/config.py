"""The settings of the server, which are command-line options and environment variables that start with ``MIRROR_``.

A setting is declared once by :func:`setting`, as a field of :class:`Settings` or of an extension's settings class.
"""

from __future__ import annotations

import ipaddress
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import Field, dataclass, field, fields
from typing import Any, NamedTuple, TypeVar

import click

from mirror_server.store.backend import DEFAULT_URL

F = TypeVar("F", bound=Callable[..., Any])
S = TypeVar("S")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

SECONDS = click.FloatRange(min=0, min_open=True)

SERVE = ("run", "wsgi")
"""The commands that serve: ``mirror-server run``, and ``wsgi`` for other WSGI servers, which only use variables."""

_OPTION = "option"


class ListenAddress(NamedTuple):
    """An address to listen on: a host name or an IP address without brackets, and a port.

    Port 0 selects a free port.
    """

    host: str
    port: int

    def __str__(self) -> str:
        """Return host and port in the form used in URLs, with an IPv6 address in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class _Option(NamedTuple):
    commands: Iterable[str]
    name: str | None
    settings: dict[str, Any]


def setting(
    default: Any, help_: str, /, *, option: str | None = None, commands: Iterable[str] = SERVE, **settings: Any
) -> Any:
    """Declare a setting as a field of a dataclass.

    Args:
        default: The default value.
        help_: The help text of the option.
        option: The name of the option, if it differs from the name of the field.
        commands: The commands that have the option.
        settings: Further arguments of ``click.option``. Pass ``default`` if the default is written differently on the
            command line.
    """
    return field(default=default, metadata={_OPTION: _Option(commands, option, {"help": help_, **settings})})


def options_of(command: str, *kinds: type) -> Callable[[F], F]:
    """Return a decorator that adds the options of these dataclasses to a command.

    The command receives the values as arguments with the names of the fields.
    """
    declared = [each for kind in kinds for each in fields(kind) if command in each.metadata[_OPTION].commands]

    def decorate(function: F) -> F:
        for each in reversed(declared):
            function = _option(each)(function)
        return function

    return decorate


def option_name(declared: Field[Any]) -> str:
    """Return the name of the option for a setting, such as ``--keep-log-seconds``."""
    return _names(declared).partition("/")[0]


def _names(declared: Field[Any]) -> str:
    """Return the option declaration for click. The negation of a flag follows after a slash."""
    option: _Option = declared.metadata[_OPTION]
    return option.name or f"--{declared.name.replace('_', '-')}"


def _option(declared: Field[Any]) -> Callable[[F], F]:
    settings = {"default": declared.default, **declared.metadata[_OPTION].settings}
    # The help does not display a default for a setting without a value.
    has_default = settings["default"] not in (None, ())
    variable = f"MIRROR_{option_name(declared).removeprefix('--').replace('-', '_').upper()}"
    return click.option(
        _names(declared), declared.name, envvar=variable, show_envvar=True, show_default=has_default, **settings
    )


def read_network(text: str) -> Network:
    """Parse a network of IP addresses. Used as the type of an option.

    Raises:
        BadParameter: The string is not a network.
    """
    try:
        return ipaddress.ip_network(text)
    except ValueError as error:
        raise click.BadParameter(f"{error}; write a network like 10.0.0.0/8") from None


_TIME = re.compile(r"(0|[1-9][0-9]{0,4}(?=[smhd]))([smhd]?)")
_UNITS_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def read_time(text: str) -> int:
    """Parse a duration such as ``24h``, ``30m``, ``7d`` or ``0`` and return it in seconds.

    Raises:
        BadParameter: The string is not a duration.
    """
    found = _TIME.fullmatch(text)
    if found is None:
        raise click.BadParameter(f"{text!r} is not a duration; write it like 24h, 30m, 7d or 0")
    return int(found[1]) * _UNITS_SECONDS[found[2]]


def read_seconds(text: str) -> float:
    """Parse a duration, written as a number of seconds or as for :func:`read_time`. It must be at least one second.

    Raises:
        BadParameter: The string is not a duration, or the duration is too short or infinite.
    """
    try:
        seconds = float(text)
    except ValueError:
        seconds = read_time(text)
    if not 1 <= seconds < math.inf:
        raise click.BadParameter(f"{text} must be a finite time of at least a second, such as 86400 or 24h")
    return seconds


def _is_manual(_context: click.Context, _parameter: click.Parameter, word: str) -> bool:
    return word == "manual"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of the server. The help text of each option describes its field.

    Attributes:
        extensions: The settings of extensions; see :meth:`of`.
    """

    database_url: str = setting(
        DEFAULT_URL,
        "The database: sqlite:///FILE or postgresql://USER@HOST/NAME. Use PostgreSQL to run several server processes.",
        option="--database",
        metavar="URL",
    )
    manual_clock: bool = setting(
        False,
        "'system' uses the clock of the machine. With 'manual', for tests, time stands still until the simulator"
        " advances it, in Python with mirror_sdk.Simulator(client).advance(60).",
        option="--clock",
        type=click.Choice(["system", "manual"]),
        default="system",
        callback=_is_manual,
        commands=(*SERVE, "demo"),
    )
    answer_timeout_seconds: float = setting(
        120,
        "Seconds to wait for the response of a device. Then the server tries again, or the request fails. Raise it for"
        " slow networks.",
        type=SECONDS,
    )
    max_body_bytes: int = setting(
        1024 * 1024,
        "Maximum size of a request body in bytes. The server rejects a larger one with 413.",
        type=click.IntRange(min=1000),
    )
    keep_log_seconds: float = setting(
        24 * 3600,
        "How long the server stores notifications: seconds, or a time such as 12h or 7d. Raise it if clients may be"
        " disconnected for longer.",
        type=read_seconds,
        metavar="TIME",
    )
    keep_log_bytes: int = setting(
        50_000_000,
        "Maximum size in bytes of the notifications stored for one application. The server deletes the oldest first.",
        type=click.IntRange(min=10_000),
    )
    callback_networks: tuple[Network, ...] = setting(
        (),
        "A network to which the server sends webhooks, in addition to public addresses: such as 10.0.0.0/8, or"
        " 127.0.0.0/8 for this machine. Can be repeated.",
        option="--allow-callbacks-to",
        type=read_network,
        multiple=True,
        metavar="NETWORK",
    )
    failed_keys_per_minute: int = setting(
        20,
        "How many wrong keys one address may send per minute. The server rejects further wrong keys with 429. A valid"
        " key always works.",
        type=click.IntRange(min=1),
    )
    max_parked_polls: int = setting(
        20_000,
        "Maximum number of open long polls, event streams and websockets of all applications together. Beyond"
        " this, the server responds with 429.",
        type=click.IntRange(min=1),
    )
    max_blocking_polls: int = setting(
        8,
        "Maximum number of open long polls and event streams. Each blocks a thread of the WSGI server.",
        type=click.IntRange(min=1),
        commands=("wsgi",),
    )
    poll_share: float = setting(
        0.5,
        "The fraction of the open polls and concurrent snapshots that one application may use, from 0 to 1. Lower"
        " it if many applications share the server.",
        type=click.FloatRange(min=0, max=1),
    )
    max_unread_bytes: int = setting(
        32_000_000,
        "Maximum size in bytes of the responses that one application has not read yet. Above this size, the"
        " server rejects requests of the application with 429.",
        type=click.IntRange(min=1_000_000),
    )
    request_timeout_seconds: float = setting(
        30,
        "Seconds in which the request line and headers have to arrive, and then the body. The server rejects a slower"
        " request with 408.",
        type=SECONDS,
    )
    write_timeout_seconds: float = setting(
        30,
        "Seconds in which a client has to read the next 64 KiB of a response. Otherwise the server closes its"
        " connection.",
        type=SECONDS,
    )
    without: tuple[str, ...] = setting(
        (),
        "Leave out this extension, with its routes, options and storage. Can be repeated. 'mirror-server help"
        " extensions' lists all extensions.",
        multiple=True,
        metavar="NAME",
    )
    extensions: tuple[object, ...] = field(default=(), metadata={_OPTION: _Option((), None, {})})

    def of(self, kind: type[S]) -> S:
        """Return the settings of an extension by their class, or the default settings if none were set."""
        return next((one for one in self.extensions if isinstance(one, kind)), None) or kind()


database_option = _option(next(each for each in fields(Settings) if each.name == "database_url"))
