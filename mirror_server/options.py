"""The settings of a server as options of a command, and as environment variables named ``MIRROR_`` and the option."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

from mirror_server.config import COAP_PORT, COAPS_PORT, UNIX, ListenAddress, Network, Proxy, Settings

F = TypeVar("F", bound=Callable[..., Any])

_DEFAULTS = Settings()
_SECONDS = click.FloatRange(min=0, min_open=True)


def _option(name: str, field: str, **more: Any) -> Callable[[F], F]:
    """An option whose default is that of the setting."""
    variable = f"MIRROR_{name.removeprefix('--').replace('-', '_').upper()}"
    default = {} if "default" in more else {"default": getattr(_DEFAULTS, field)}
    # An absent value is no default to show.
    shown = {**default, **more}.get("default") not in (None, ())
    return click.option(name, field, envvar=variable, show_envvar=True, show_default=shown, **default, **more)


def _read_network(text: str) -> Network:
    try:
        return ipaddress.ip_network(text)
    except ValueError as error:
        raise click.BadParameter(f"{error}; write a network like 10.0.0.0/8") from None


def _read_proxy(text: str) -> Proxy:
    return UNIX if text == UNIX else _read_network(text)


# An address of IPv6 stands in brackets, or without a port.
_LISTEN_ADDRESS = re.compile(
    r"(?:\[(?P<v6>[0-9A-Fa-f:.]+(?:%[\w.-]+)?)\]|(?P<name>[A-Za-z0-9_.-]+))(?::(?P<port>[0-9]{1,5}))?", re.ASCII
)


def _read_listen_address(text: str, default_port: int) -> ListenAddress:
    """Reads ``127.0.0.1:5683``, ``[::1]:5683``, ``localhost``, ``[::]``.

    Raises:
        BadParameter: It is none of these, or has no such port.
    """
    found = _LISTEN_ADDRESS.fullmatch(text)
    if found is None:
        raise click.BadParameter(
            f"{text!r} is no address to listen on; write it like 127.0.0.1:{default_port} or [::1]"
        )
    port = int(found["port"]) if found["port"] else default_port
    if port > 65535:
        raise click.BadParameter(f"{port} is no port; write one up to 65535, or 0 for a free one")
    return ListenAddress(found["v6"] or found["name"], port)


def _read_coap_address(text: str) -> ListenAddress:
    return _read_listen_address(text, COAP_PORT)


def _read_coaps_address(text: str) -> ListenAddress:
    return _read_listen_address(text, COAPS_PORT)


_TIME = re.compile(r"(0|[1-9][0-9]{0,4}(?=[smhd]))([smhd]?)")
_UNITS_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}

_LEAST_KEPT_SECONDS = 60


def read_time(text: str) -> int:
    """Reads ``24h``, ``30m``, ``7d`` or ``0``; gives seconds.

    Raises:
        BadParameter: It is none of these.
    """
    found = _TIME.fullmatch(text)
    if found is None:
        raise click.BadParameter(f"{text!r} is no time; write it like 24h, 30m, 7d or 0")
    return int(found[1]) * _UNITS_SECONDS[found[2]]


def _read_kept_time(_context: click.Context, _parameter: click.Parameter, text: str) -> int:
    seconds = read_time(text)
    if seconds < _LEAST_KEPT_SECONDS:
        raise click.BadParameter(f"{text} is too short; write a minute or more, 30d or 12h")
    return seconds


def _read_history_time(_context: click.Context, _parameter: click.Parameter, text: str | None) -> int | None:
    if text is None:
        return None
    seconds = read_time(text)
    if seconds < _LEAST_KEPT_SECONDS:
        raise click.BadParameter(f"{text} is too short; write a minute or more, 30d or 12h, or leave it out for none")
    return seconds


def _is_manual(_context: click.Context, _parameter: click.Parameter, word: str) -> bool:
    return word == "manual"


database_option = _option(
    "--database",
    "database_url",
    metavar="URL",
    help="Where the state is kept: sqlite:///FILE, which is made where there is none, or postgresql://USER@HOST/NAME.",
)
seed_option = _option(
    "--seed",
    "seed",
    type=int,
    help="What the simulated devices are made from; the same seed gives the same devices and values.",
)
clock_option = _option(
    "--clock",
    "manual_clock",
    type=click.Choice(["system", "manual"]),
    default="system",
    callback=_is_manual,
    help="With 'manual' time stands still until it is advanced through the bench: in Python"
    " mirror_sdk.Bench(client).advance(60).",
)
coap_option = _option(
    "--coap",
    "coap",
    type=_read_coap_address,
    metavar="HOST:PORT",
    help="Have real devices come by CoAP there, by LwM2M 1.0 or 1.1: 127.0.0.1:5683, [::1]:5683. Without a port 5683,"
    " and 0 takes a free one.",
)
archive_option = _option(
    "--history-archive",
    "history_archive",
    metavar="FOLDER",
    help="Where days of the history that are over go, into Parquet files: a folder, or a URL that fsspec opens.",
)

_ALL = (
    database_option,
    _option(
        "--simulate",
        "simulate",
        type=click.IntRange(min=0),
        metavar="N",
        help="Have N simulated devices, and the bench to play them with. Without it there are none.",
    ),
    seed_option,
    clock_option,
    _option(
        "--answer-timeout-seconds",
        "answer_timeout_seconds",
        type=_SECONDS,
        help="How long an attempt waits for a device's answer before the next one, or before the command fails.",
    ),
    _option(
        "--keep-log-seconds",
        "keep_log_seconds",
        type=click.FloatRange(min=1),
        help="How long notifications are kept.",
    ),
    _option(
        "--keep-log-bytes",
        "keep_log_bytes",
        type=click.IntRange(min=10_000),
        help="How much of notifications is kept for one application; the oldest go first.",
    ),
    _option(
        "--keep-device-events",
        "keep_device_events_seconds",
        metavar="TIME",
        default="30d",
        callback=_read_kept_time,
        help="Keep the list of registrations, their updates and ends for so long: 30d, 12h.",
    ),
    _option(
        "--max-device-events",
        "max_device_events",
        type=click.IntRange(min=1000),
        help="How many entries that list has at most; the oldest go first, once an hour.",
    ),
    _option(
        "--keep-history",
        "keep_history_seconds",
        metavar="TIME",
        callback=_read_history_time,
        help="Keep what happened, every value that devices told and every end of a write, for so long: 30d, 12h."
        " Without it nothing of that is kept.",
    ),
    archive_option,
    _option(
        "--max-body-bytes",
        "max_body_bytes",
        type=click.IntRange(min=1000),
        help="The largest request body; a larger one is refused with 413.",
    ),
    _option(
        "--failed-keys-per-minute",
        "failed_keys_per_minute",
        type=click.IntRange(min=1),
        help="How often one address may come with a wrong key before it is told 429; the right key is always let in.",
    ),
    _option(
        "--trust-proxy",
        "trusted_proxies",
        type=_read_proxy,
        multiple=True,
        metavar="NETWORK",
        help="A proxy whose X-Forwarded-For is believed: its address or network, or 'unix' for one that comes by a"
        " socket file; may be given several times. Without it the header is ignored.",
    ),
    _option(
        "--max-parked-polls",
        "max_parked_polls",
        type=click.IntRange(min=1),
        help="How many long polls, event streams and websockets may be open at once; one more is refused with 429.",
    ),
    _option(
        "--poll-share",
        "poll_share",
        type=click.FloatRange(min=0, max=1),
        help="Which part of these, and of the snapshots that are sent at once, one application may have.",
    ),
    _option(
        "--max-unread-bytes",
        "max_unread_bytes",
        type=click.IntRange(min=1_000_000),
        help="How much of its answers an application may leave unread before its next request is told 429.",
    ),
    _option(
        "--max-connections",
        "max_connections",
        type=click.IntRange(min=1),
        help="How many connections may be open; one more is told 503 and ends.",
    ),
    _option(
        "--max-head-bytes",
        "max_head_bytes",
        type=click.IntRange(min=1000),
        help="How large request line and headers may be; more is refused with 414 or 431.",
    ),
    _option(
        "--max-headers",
        "max_headers",
        type=click.IntRange(min=10),
        help="How many headers a request may have; more are refused with 431.",
    ),
    _option(
        "--idle-timeout-seconds",
        "idle_timeout_seconds",
        type=_SECONDS,
        help="How long a connection stays open on which no request begins.",
    ),
    _option(
        "--request-timeout-seconds",
        "request_timeout_seconds",
        type=_SECONDS,
        help="How long request line and headers may take to arrive, and then the body; what takes longer is told 408.",
    ),
    _option(
        "--write-timeout-seconds",
        "write_timeout_seconds",
        type=_SECONDS,
        help="How long a client may take to read the next part of an answer before its connection ends.",
    ),
    _option(
        "--websocket-ping-seconds",
        "websocket_ping_seconds",
        type=_SECONDS,
        help="How long a websocket may be idle before its client is pinged; less than proxies on the way allow.",
    ),
    _option(
        "--websocket-pong-seconds",
        "websocket_pong_seconds",
        type=_SECONDS,
        help="How long a client may take to answer a ping before its websocket is closed.",
    ),
    _option(
        "--allow-callbacks-to",
        "callback_networks",
        type=_read_network,
        multiple=True,
        metavar="NETWORK",
        help="A network webhooks may lead to besides public addresses, such as 10.0.0.0/8, or 127.0.0.0/8 for this"
        " machine itself; may be given several times.",
    ),
    coap_option,
    _option(
        "--coaps",
        "coaps",
        type=_read_coaps_address,
        metavar="HOST:PORT",
        help="Have real devices come by CoAP over DTLS there, each with the pre-shared key that 'devices add' made.",
    ),
    _option(
        "--coap-insecure",
        "coap_insecure",
        is_flag=True,
        help="Let --coap listen beyond this machine, though anybody there can then pass for any device and read along.",
    ),
    _option(
        "--coap-awake-seconds",
        "coap_awake_seconds",
        type=_SECONDS,
        help="How long after its last message a device in queue mode can be reached; then requests wait for it.",
    ),
    _option(
        "--max-coap-devices",
        "max_coap_devices",
        type=click.IntRange(min=1),
        help="How many real devices may be registered at once; one more is told 5.03.",
    ),
    _option(
        "--max-coap-links",
        "max_coap_links",
        type=click.IntRange(min=1),
        help="How many links a real device may register; more are refused with 4.13.",
    ),
    _option(
        "--max-coap-payload-bytes",
        "max_coap_payload_bytes",
        type=click.IntRange(min=1024),
        help="The largest payload a real device may send, all blocks together; a larger one is refused with 4.13.",
    ),
    _option(
        "--coap-registrations-per-minute",
        "coap_registrations_per_minute",
        type=click.IntRange(min=1),
        help="How often one address and port may register real devices; more is refused with 4.29.",
    ),
)


tls_cert_option = _option(
    "--tls-cert",
    "tls_cert",
    metavar="FILE",
    help="Speak TLS, HTTPS and secure websockets, with this certificate in PEM, those of authorities in between behind"
    " it. SIGHUP loads it again.",
)
tls_key_option = _option("--tls-key", "tls_key", metavar="FILE", help="The certificate's key in PEM, not encrypted.")
blocking_polls_option = _option(
    "--max-blocking-polls",
    "max_blocking_polls",
    type=click.IntRange(min=1),
    help="How many long polls and event streams may be open at once, each on a thread of its own.",
)


def settings_options(command: F) -> F:
    """Give a command an option for each setting; their values arrive under the names of the fields of Settings."""
    for option in reversed(_ALL):
        command = option(command)
    return command
