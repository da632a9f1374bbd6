"""A small application: it subscribes resources and tells what they report. ``python -m mirror_sdk.example_app``.

It is configured by the environment, as the specification's example application is. A variable that is empty counts as
missing:

==========================  ========================================================================================
variable                    meaning
==========================  ========================================================================================
API_KEY                     access key
API_HOST                    address of the service; that of a local ``mirror-server demo`` or ``run`` by default
LONG_POLLING_ENABLED        ``true`` reads by long polling; ``false``, the default, has a webhook
APP_HOST                    public address of this application, as ``https://app.example.com``; needed for a webhook
APP_LISTEN_HOST             host to listen on for the webhook's calls; ``127.0.0.1`` by default
APP_LISTEN_PORT             port to listen on; that of ``APP_HOST`` by default, where it has one
DEVICE_ID                   ids of devices, separated by commas; ``*``, the default, for all
RESOURCE                    resource paths, separated by commas; ``/3303/*`` by default
==========================  ========================================================================================

The service calls ``APP_HOST`` with ``/callback`` behind it. A proxy may stand there, and pass the calls on to where
this application listens. When it stops it removes its webhook, its rules, and the subscriptions that these made; other
rules of the same key stay. Source: specification 5.2 and 6.
"""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import NamedTuple, NoReturn
from urllib.parse import SplitResult, urlsplit

import click
from pydantic import ValidationError

from mirror_sdk._client import MirrorClient
from mirror_sdk._protocol.operation import first_fault
from mirror_sdk.config import HOST_VARIABLE, KEY_VARIABLE
from mirror_sdk.errors import BadRequest, ConfigError, MirrorError
from mirror_sdk.events import Event, EventKind
from mirror_sdk.webhook import WebhookReceiver
from mirror_sdk.wire.directory import Device
from mirror_sdk.wire.subscriptions import PRESUBSCRIPTION_RULES, PresubscriptionRule

__all__ = ["Place", "listening", "presubscriptions", "read_place", "run"]

_WORDS = {"true": True, "false": False}
_LOOPBACK = "127.0.0.1"
_EXAMPLE = "https://app.example.com or http://127.0.0.1:8090"
_HIGHEST_PORT = 65535


class Place(NamedTuple):
    """Where the service calls this application, and where it listens."""

    url: str
    listen_host: str
    listen_port: int


def run(environ: Mapping[str, str]) -> None:
    """Subscribe, and tell every observation, until it is interrupted.

    Raises:
        ConfigError: A variable is missing or cannot be used.
        MirrorError: The service refuses.
    """
    with listening(environ) as events:
        for event in events:
            if event.kind is EventKind.OBSERVATION:
                click.echo(_line(event))


@contextmanager
def listening(environ: Mapping[str, str]) -> Iterator[Iterator[Event]]:
    """The events of an application for which the resources are subscribed while this lasts.

    Raises:
        ConfigError: A variable is missing or cannot be used.
        MirrorError: The service refuses.
    """
    polls = _read_boolean(environ, "LONG_POLLING_ENABLED")
    rules = _read_rules(environ)
    place = None if polls else read_place(environ)
    host, key = environ.get(HOST_VARIABLE), environ.get(KEY_VARIABLE)
    with MirrorClient.from_env(base_url=host, api_key=key) as client, ExitStack() as stack:
        if place is not None:
            stack.enter_context(_webhook(client, place))
        # However long nothing comes: a value after a quiet week is told too.
        events = client.events(timeout=math.inf)
        stack.enter_context(_subscribed(client, rules))
        click.echo(f"listening by {'long polling' if polls else 'webhook'}")
        yield events


def presubscriptions(device_ids: str, paths: str) -> list[dict[str, object]]:
    """The rules that subscribe these resources of these devices; each is a list separated by commas."""
    listed = [path.strip() for path in paths.split(",") if path.strip()]
    named = [device_id.strip() for device_id in device_ids.split(",") if device_id.strip()]
    return [{"endpoint_name": device_id, "resource_path": listed} for device_id in named or ["*"]]


def read_place(environ: Mapping[str, str]) -> Place:
    """Where the service calls, and where this application listens.

    Raises:
        ConfigError: A variable is missing or cannot be used; the message names it.
    """
    address = environ.get("APP_HOST", "").strip().rstrip("/")
    if not address:
        raise ConfigError(f"APP_HOST is missing: the public address of this application, like {_EXAMPLE}")
    parts = _read_address(address)
    port = environ.get("APP_LISTEN_PORT", "").strip() or parts.port
    if port is None:
        raise ConfigError(
            f"APP_HOST={address!r} names no port to listen on: set APP_LISTEN_PORT to the port on this machine to which"
            " the calls are passed on"
        )
    if not str(port).isdecimal() or not 0 < int(port) <= _HIGHEST_PORT:
        raise ConfigError(f"APP_LISTEN_PORT={port!r} is no port; write a number from 1 to {_HIGHEST_PORT}")
    return Place(f"{address}/callback", environ.get("APP_LISTEN_HOST", "").strip() or _LOOPBACK, int(port))


def _read_address(address: str) -> SplitResult:
    if "://" not in address:
        raise ConfigError(f"APP_HOST={address!r} has no scheme; write http:// or https:// before it, like {_EXAMPLE}")
    try:
        parts = urlsplit(address)
        is_address = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError as error:
        raise ConfigError(f"APP_HOST={address!r} is no address ({error}); write it like {_EXAMPLE}") from error
    if not is_address or parts.username is not None or parts.query or parts.fragment:
        raise ConfigError(
            f"APP_HOST={address!r} is no http address alone, without user name, query or fragment; write it like"
            f" {_EXAMPLE}"
        )
    return parts


@contextmanager
def _webhook(client: MirrorClient, place: Place) -> Iterator[None]:
    with WebhookReceiver(place.listen_host, place.listen_port, public_url=place.url) as receiver:
        _register(client, receiver)
        try:
            yield
        finally:
            client.notifications.use_long_polling()


def _register(client: MirrorClient, receiver: WebhookReceiver) -> None:
    """Register the webhook; a poll channel that the key still has gives way to it."""
    try:
        client.notifications.use_webhook(receiver)
    except BadRequest as refusal:
        if refusal.reason != "OTHER_CHANNEL":
            raise
        client.notifications.delete_poll_channel()
        client.notifications.use_webhook(receiver)
        click.echo("ended the poll channel that this key had")
    except ValueError as error:
        raise ConfigError(f"APP_HOST makes no address of a webhook: {error}") from error


@contextmanager
def _subscribed(client: MirrorClient, rules: Sequence[PresubscriptionRule]) -> Iterator[None]:
    """Have these rules beside the other ones of the key, and remove them at the end with what they subscribed."""
    # One that a run left behind that was killed is one of these.
    client.subscriptions.rules.add(rules, apply_now=True)
    try:
        yield
    finally:
        client.subscriptions.rules.remove(rules)
        others = client.subscriptions.rules.list()
        for device in client.devices.list(state="registered"):
            of_device, of_others = (_about(device, some) for some in (rules, others))
            for path in client.subscriptions.list(device.id) if of_device else ():
                if _match(of_device, path) and not _match(of_others, path):
                    client.unsubscribe(device.id, path)


def _about(device: Device, rules: Sequence[PresubscriptionRule]) -> list[PresubscriptionRule]:
    return [
        rule
        for rule in rules
        if rule.matches_device(
            device_id=device.id, endpoint_name=device.endpoint_name, endpoint_type=device.endpoint_type or ""
        )
    ]


def _match(rules: Sequence[PresubscriptionRule], path: str) -> bool:
    return any(rule.matches_path(path) for rule in rules)


def _line(event: Event) -> str:
    return f"{event.changed_at or event.received_at:%Y-%m-%d %H:%M:%S} {event.device_id} {event.path} {event.value}"


def _read_rules(environ: Mapping[str, str]) -> list[PresubscriptionRule]:
    device_ids, paths = environ.get("DEVICE_ID") or "*", environ.get("RESOURCE") or "/3303/*"
    try:
        return PRESUBSCRIPTION_RULES.validate_python(presubscriptions(device_ids, paths))
    except ValidationError as error:
        raise ConfigError(
            f"DEVICE_ID={device_ids!r} and RESOURCE={paths!r} make no rule: {first_fault(error)}"
        ) from error


def _read_boolean(environ: Mapping[str, str], name: str) -> bool:
    word = environ.get(name, "").strip().lower() or "false"
    if word not in _WORDS:
        raise ConfigError(f"{name}={word!r} is neither true nor false")
    return _WORDS[word]


# As it is, rather than filled up to the width of the terminal.
_HELP = __doc__.replace("\n\n===", "\n\n\b\n===").replace("``", "")


def _stop(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


@click.command(help=_HELP)
def main() -> None:
    """Run until Ctrl-C or SIGTERM."""
    signal.signal(signal.SIGTERM, _stop)
    try:
        run(os.environ)
    except KeyboardInterrupt:
        click.echo("stopped")
    except MirrorError as error:
        raise click.ClickException(str(error)) from error


if __name__ == "__main__":
    main()
