"""A small application: it subscribes resources and tells what they report. ``python -m mirror_sdk.example_app``.

It is configured by the environment, as the specification's example application is:

==========================  ========================================================================================
variable                    meaning
==========================  ========================================================================================
API_KEY                     access key
API_HOST                    address of the service
LONG_POLLING_ENABLED        ``true`` reads by long polling; ``false``, the default, has a webhook
APP_HOST                    address under which the service reaches this application; needed for a webhook
DEVICE_ID                   ids of devices, separated by commas; ``*``, the default, for all
RESOURCE                    resource paths, separated by commas; ``/3303/*`` by default
==========================  ========================================================================================

Source: specification 5.2 and 6.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import NoReturn
from urllib.parse import urlsplit

import click

from mirror_sdk._client import MirrorClient
from mirror_sdk.errors import ConfigError, MirrorError
from mirror_sdk.events import Event, EventKind
from mirror_sdk.webhook import WebhookReceiver

_WORDS = {"true": True, "false": False}
_WHILE_NOTHING_COMES_SECONDS = 3600.0


def run(environ: Mapping[str, str]) -> None:
    """Subscribe, and tell every observation, until it is interrupted.

    Raises:
        ConfigError: A variable is missing or cannot be used.
        MirrorError: The service refuses.
    """
    polls = _read_boolean(environ, "LONG_POLLING_ENABLED")
    rules = presubscriptions(environ.get("DEVICE_ID", "*"), environ.get("RESOURCE", "/3303/*"))
    with MirrorClient.from_env() as client, ExitStack() as channel:
        if not polls:
            channel.enter_context(_webhook(client, environ))
        events = client.events(timeout=_WHILE_NOTHING_COMES_SECONDS)
        client.put_presubscriptions(rules, apply_now=True)
        click.echo(f"listening by {'long polling' if polls else 'webhook'}")
        for event in events:
            if event.kind is EventKind.OBSERVATION:
                click.echo(_line(event))


def presubscriptions(device_ids: str, paths: str) -> list[dict[str, object]]:
    """The rules that subscribe these resources of these devices; each is a list separated by commas."""
    listed = [path.strip() for path in paths.split(",") if path.strip()]
    named = [device_id.strip() for device_id in device_ids.split(",") if device_id.strip()]
    return [{"endpoint_name": device_id, "resource_path": listed} for device_id in named or ["*"]]


@contextmanager
def _webhook(client: MirrorClient, environ: Mapping[str, str]) -> Iterator[None]:
    address = environ.get("APP_HOST")
    if not address:
        raise ConfigError("APP_HOST is missing: the address under which the service reaches this application")
    port = urlsplit(address).port
    if port is None:
        raise ConfigError(f"APP_HOST {address!r} has no port to listen on; write it like http://127.0.0.1:8090")
    with WebhookReceiver(port=port, public_url=f"{address.rstrip('/')}/callback") as receiver:
        client.use_webhook(receiver)
        try:
            yield
        finally:
            client.use_long_polling()


def _line(event: Event) -> str:
    return f"{event.changed_at or event.received_at:%Y-%m-%d %H:%M:%S} {event.device_id} {event.path} {event.value}"


def _read_boolean(environ: Mapping[str, str], name: str) -> bool:
    word = environ.get(name, "false").strip().lower()
    if word not in _WORDS:
        raise ConfigError(f"{name}={word!r} is neither true nor false")
    return _WORDS[word]


def _stop(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


@click.command(help=__doc__.partition("It is")[0])
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
