"""The command ``mirror-server help``."""

from __future__ import annotations

import click

from mirror_sdk._manual import show_topic
from mirror_server.cli import main
from mirror_server.hooks import of_all

TOPICS = {
    "operate": "mirror_server",
    "notifications": "mirror_server.notifications",
    "wsgi": "mirror_server.wsgi",
    "extensions": "mirror_server.hooks",
}
for _added in of_all("help_topics"):
    TOPICS.update(_added)


@main.command("help")
@click.argument("topic", required=False)
def help_(topic: str | None) -> None:
    """Explain a TOPIC of the manual; without one, list the topics.

    \b
      mirror-server help operate
    """  # noqa: D301 - click wants the character, not its escape
    show_topic(topic, TOPICS)
