"""Helpers for the components of widgets and for events."""

import threading
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from resource_paths import TEMPERATURE
from waits import PATIENCE_SECONDS

from mirror_sdk import Event, EventKind, MirrorClient
from mirror_sdk.values import decode
from mirror_sdk.widgets.feed import feed_of

START = datetime(2026, 1, 5, 8, tzinfo=UTC)


def observation(
    number: int, device: str = "d1", path: str = TEMPERATURE, at: datetime = START, text: str | None = None
) -> Event:
    value = decode((text or str(number)).encode(), "text/plain", path)
    event = Event(kind=EventKind.OBSERVATION, received_at=at, seq=number, device_id=device, path=path, value=value)
    return replace(event, changed_at=at)


def do(widget: Any, intent: str, *arguments: Any) -> None:
    """Send an intent, like a component does for its user."""
    widget._handle_custom_msg({"intent": intent, "args": list(arguments)}, [])


def wait_for_events(client: MirrorClient) -> None:
    """Wait until the widgets of a client receive the events that happen from now on."""
    assert feed_of(client).await_start(PATIENCE_SECONDS)
    assert feed_of(client).problem is None


def threads_since(before: set[threading.Thread]) -> set[str]:
    """Return the names of the threads that have started since."""
    return {one.name for one in set(threading.enumerate()) - before}
