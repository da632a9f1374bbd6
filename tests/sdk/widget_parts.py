"""The parts that a widget is made of, and the events that it shows."""

import threading
from datetime import UTC, datetime

import ipywidgets
from usual import TEMPERATURE

from mirror_sdk import Event, EventKind
from mirror_sdk.values import decode
from mirror_sdk.widgets.grid import Grid

START = datetime(2026, 1, 5, 8, tzinfo=UTC)


def observation(number, device="d1", path=TEMPERATURE, at=START, text=None):
    value = decode((text or str(number)).encode(), "text/plain", path)
    about = {"received_at": at, "changed_at": at, "seq": number}
    return Event(kind=EventKind.OBSERVATION, **about, device_id=device, path=path, value=value)


def all_parts(widget):
    return [widget, *(part for child in getattr(widget, "children", ()) for part in all_parts(child))]


def all_html(widget):
    parts = all_parts(widget)
    html = "".join(part.value for part in parts if isinstance(part, ipywidgets.HTML))
    return html + "".join(part.static_html() for part in parts if isinstance(part, Grid))


def threads_since(before):
    """The names of the threads that have begun since."""
    return {one.name for one in set(threading.enumerate()) - before}
