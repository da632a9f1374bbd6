"""A small application that subscribes to resources and prints what they report.

Start it with ``python -m mirror_sdk.example_app``.

Environment variables configure it, like the example application of the specification. An empty variable counts as
missing:

==========================  ========================================================================================
variable                    meaning
==========================  ========================================================================================
API_KEY                     access key
API_HOST                    address of the service; the default is a local ``mirror-server demo`` or ``run``
LONG_POLLING_ENABLED        ``true`` uses long polling; ``false``, which is the default, uses a webhook
APP_HOST                    public address of this application for a webhook, such as ``https://app.example.com``
APP_LISTEN_HOST             host to listen on for the webhook's calls; the default is ``127.0.0.1``
APP_LISTEN_PORT             port to listen on; the default is the port in ``APP_HOST``
DEVICE_ID                   ids of devices, separated by commas; the default is ``*`` for all devices
RESOURCE                    resource paths, separated by commas; the default is ``/3303/*``
==========================  ========================================================================================

The service calls ``APP_HOST`` with ``/callback`` appended. A proxy at that address may forward the calls to this
application. When the application stops, it removes its webhook, its rules, and the subscriptions that its rules
created. Other rules of the same access key stay.
"""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import NamedTuple, NoReturn
from urllib.parse import urlsplit

import click
from pydantic import ValidationError

from mirror_sdk._client import MirrorClient
from mirror_sdk._protocol.operation_base import first_fault
from mirror_sdk.config import HOST_VARIABLE, KEY_VARIABLE, read_base_url
from mirror_sdk.errors import BadRequest, ConfigError, MirrorError
from mirror_sdk.events import Event, EventKind
from mirror_sdk.webhook import WebhookReceiver
from mirror_sdk.wire.directory import Device
from mirror_sdk.wire.subscriptions import PRESUBSCRIPTION_RULES, PresubscriptionRule

__all__ = ["WebhookAddress", "listening", "presubscriptions", "read_webhook_address", "run"]

_WORDS = {"true": True, "false": False}
_LOOPBACK = "127.0.0.1"
_EXAMPLE = "https://app.example.com or http://127.0.0.1:8090"
_HIGHEST_PORT = 65535


class WebhookAddress(NamedTuple):
    """The URL that the service calls, and the host and port on which this application listens."""

    url: str
    listen_host: str
    listen_port: int


def run(environ: Mapping[str, str]) -> None:
    """Subscribe to the resources, and print every observation until the program is interrupted.

    Raises:
        ConfigError: A variable is missing or not valid.
        MirrorError: The service rejects a request.
    """
    with listening(environ) as events:
        for event in events:
            if event.kind is EventKind.OBSERVATION:
                click.echo(_line(event))


@contextmanager
def listening(environ: Mapping[str, str]) -> Iterator[Iterator[Event]]:
    """Return an iterator of events. Within the ``with`` block, the application is subscribed to the resources.

    Raises:
        ConfigError: A variable is missing or not valid.
        MirrorError: The service rejects a request.
    """
    polls = _read_boolean(environ, "LONG_POLLING_ENABLED")
    rules = _read_rules(environ)
    address = None if polls else read_webhook_address(environ)
    host, key = environ.get(HOST_VARIABLE), environ.get(KEY_VARIABLE)
    with MirrorClient.from_env(base_url=host, api_key=key) as client, ExitStack() as stack:
        if address is not None:
            stack.enter_context(_webhook(client, address))
        # Without a timeout, so that values are also printed after a long pause.
        events = client.events(timeout=math.inf)
        # After the iterator has its position, so that it includes the first values.
        stack.enter_context(_subscribed(client, rules))
        click.echo(f"listening by {'long polling' if polls else 'webhook'}")
        yield events


def presubscriptions(device_ids: str, paths: str) -> list[dict[str, object]]:
    """Return the rules for these resources of these devices. Both arguments are lists separated by commas."""
    listed = [path.strip() for path in paths.split(",") if path.strip()]
    named = [device_id.strip() for device_id in device_ids.split(",") if device_id.strip()]
    return [{"endpoint_name": device_id, "resource_path": listed} for device_id in named or ["*"]]


def read_webhook_address(environ: Mapping[str, str]) -> WebhookAddress:
    """Return the URL of the webhook, and the host and port on which this application listens.

    Raises:
        ConfigError: A variable is missing or not valid. The message contains its name.
    """
    text = environ.get("APP_HOST", "").strip()
    if not text:
        raise ConfigError(f"APP_HOST is missing: the public address of this application, like {_EXAMPLE}")
    address = read_base_url(text, "APP_HOST", _EXAMPLE)  # omits the default port of the scheme
    port = environ.get("APP_LISTEN_PORT", "").strip() or urlsplit(text if "://" in text else f"//{text}").port
    if port is None:
        raise ConfigError(
            f"APP_HOST={address!r} has no port to listen on: set APP_LISTEN_PORT to the port on this machine to which"
            " the calls are forwarded"
        )
    if not str(port).isdecimal() or not 0 < int(port) <= _HIGHEST_PORT:
        raise ConfigError(f"APP_LISTEN_PORT={port!r} is not a port; write a number from 1 to {_HIGHEST_PORT}")
    return WebhookAddress(f"{address}/callback", environ.get("APP_LISTEN_HOST", "").strip() or _LOOPBACK, int(port))


@contextmanager
def _webhook(client: MirrorClient, address: WebhookAddress) -> Iterator[None]:
    with WebhookReceiver(address.listen_host, address.listen_port, public_url=address.url) as receiver:
        _register(client, receiver)
        try:
            yield
        finally:
            client.notifications.use_long_polling()


def _register(client: MirrorClient, receiver: WebhookReceiver) -> None:
    """Register the webhook. If the key has a poll channel, delete the channel first."""
    try:
        client.notifications.use_webhook(receiver)
    except BadRequest as error:
        if error.reason != "OTHER_CHANNEL":
            raise
        client.notifications.delete_poll_channel()
        client.notifications.use_webhook(receiver)
        click.echo("ended the poll channel that this key had")
    except ValueError as error:
        raise ConfigError(f"APP_HOST cannot be the address of a webhook: {error}") from error


@contextmanager
def _subscribed(client: MirrorClient, rules: Sequence[PresubscriptionRule]) -> Iterator[None]:
    """Add these rules to those of the key. At the end, remove them and the subscriptions that they created."""
    # The list includes rules that an earlier run did not remove because it was killed.
    client.subscriptions.rules.add(rules, apply_now=True)
    try:
        yield
    finally:
        client.subscriptions.rules.remove(rules)
        others = client.subscriptions.rules.list()
        for device in client.devices.list(state="registered"):
            of_device, of_others = (_matching(device, some) for some in (rules, others))
            for path in client.subscriptions.list(device.id) if of_device else ():
                if _match(of_device, path) and not _match(of_others, path):
                    client.unsubscribe(device.id, path)


def _matching(device: Device, rules: Sequence[PresubscriptionRule]) -> list[PresubscriptionRule]:
    names = {"device_id": device.id, "endpoint_name": device.endpoint_name, "endpoint_type": device.endpoint_type or ""}
    return [rule for rule in rules if rule.matches_device(**names)]


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
            f"DEVICE_ID={device_ids!r} and RESOURCE={paths!r} are not a valid rule: {first_fault(error)}"
        ) from error


def _read_boolean(environ: Mapping[str, str], name: str) -> bool:
    word = environ.get(name, "").strip().lower() or "false"
    if word not in _WORDS:
        raise ConfigError(f"{name}={word!r} must be true or false")
    return _WORDS[word]


# Keep the lines of the table, which click would otherwise join and wrap at the width of the terminal.
_HELP = __doc__.replace("\n\n===", "\n\n\b\n===").replace("``", "")


def _stop(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


@click.command(help=_HELP)
def main() -> None:
    """Run the application until Ctrl-C or SIGTERM."""
    signal.signal(signal.SIGTERM, _stop)
    try:
        run(os.environ)
    except KeyboardInterrupt:
        click.echo("stopped")
    except MirrorError as error:
        raise click.ClickException(str(error)) from error


if __name__ == "__main__":
    main()
