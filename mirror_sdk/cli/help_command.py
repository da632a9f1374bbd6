"""The command ``mirror help``."""

from __future__ import annotations

import click

from mirror_sdk._manual import FOLDER, show_topic, topics_in
from mirror_sdk.cli.group import main

TOPICS = topics_in(FOLDER)

GROUPS = {
    "Start here": ["client", "shell", "widgets", "glossary", "troubleshooting"],
    "Read and write": ["values", "timeouts", "sleeping-devices", "plans"],
    "Tables and events": ["tables", "snapshots", "events", "history", "sql", "time", "conditions", "recordings"],
    "Share your work": ["privacy", "cassettes"],
    "Special tasks": ["webhooks", "dask", "testing"],
}


@main.command("help")
@click.argument("topic", required=False)
def help_(topic: str | None) -> None:
    """Show a TOPIC of the manual. Without a topic, list the topics.

    \b
      mirror help plans
    """  # noqa: D301 - click wants the character, not its escape
    show_topic(topic, TOPICS, GROUPS)
