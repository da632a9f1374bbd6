"""The command ``mirror help``."""

from __future__ import annotations

import click

from mirror_sdk._manual import show_topic
from mirror_sdk.cli.group import main

TOPICS = {
    "client": "mirror_sdk",
    "values": "mirror_sdk.values",
    "tables": "mirror_sdk.frames",
    "snapshots": "mirror_sdk.snapshot",
    "privacy": "mirror_sdk.privacy",
    "history": "mirror_sdk.history",
    "plans": "mirror_sdk.plan",
    "recordings": "mirror_sdk.recording",
    "cassettes": "mirror_sdk.cassette",
    "webhooks": "mirror_sdk.webhook",
    "widgets": "mirror_sdk.widgets",
    "dask": "mirror_sdk.dask",
    "testing": "mirror_sdk.testing",
    "shell": "mirror_sdk.cli",
}


@main.command("help")
@click.argument("topic", required=False)
def help_(topic: str | None) -> None:
    """Show a TOPIC of the manual. Without a topic, list the topics.

    \b
      mirror help plans
    """  # noqa: D301 - click wants the character, not its escape
    show_topic(topic, TOPICS)
