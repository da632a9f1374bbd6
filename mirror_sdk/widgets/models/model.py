"""The base of all models, which provides notices, a version, and client calls.

A model does not import ipywidgets. It receives user input and events, and provides plain data: strings, numbers, times,
and rows as dictionaries. A view displays that data and calls the methods of the model.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from mirror_sdk._client import MirrorClient
from mirror_sdk.events import Event, EventKind, utc_now
from mirror_sdk.widgets.models.notices import Notices

T = TypeVar("T")

DIRECTORY_EVENTS = {EventKind.REGISTRATION, EventKind.DEREGISTRATION, EventKind.EXPIRED, EventKind.GAP}
"""The events after which the directory may have changed."""

Row = Mapping[str, Any]
"""A row of a grid; see :meth:`mirror_sdk.widgets.published.PublishedRows.show`."""


class Run(Protocol):
    """A function that makes a call in this thread or another one, and later delivers the result or the error."""

    def __call__(
        self, call: Callable[[], T], then: Callable[[T], object], failed: Callable[[Exception], object], /
    ) -> None:
        """Make the call, then pass the result to ``then`` or the error to ``failed``."""


def run_now(call: Callable[[], T], then: Callable[[T], object], failed: Callable[[Exception], object]) -> None:
    """Make the call in this thread, and return after its outcome was delivered."""
    try:
        outcome = call()
    except Exception as error:
        failed(error)
    else:
        then(outcome)


class Model:
    """The model of one widget.

    Args:
        client: The client of the mirror.
        run: The function that makes the client calls.
        clock: A function that returns the time in seconds. It is used to schedule repeated work.

    Attributes:
        notices: The failures that are currently displayed.
        version: A number that increases with every change of the display.
    """

    def __init__(
        self, client: MirrorClient, run: Run = run_now, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.client = client
        self.run = run
        self.clock = clock
        self.notices = Notices()
        self.version = 0

    def changed(self) -> None:
        """Request an update of the view."""
        self.version += 1

    def report(self, subject: str, action: str, error: Exception) -> None:
        """Display a failure; see :meth:`Notices.put`."""
        if self.notices.put(subject, action, error):
            self.changed()

    def receive(self, events: Sequence[Event]) -> None:
        """Process events in the order of their arrival."""

    def note_overrun(self, count: int) -> None:
        """Process a loss of events before the next ones. The lost events may concern any device."""
        del count
        self.receive([Event(kind=EventKind.GAP, received_at=utc_now())])

    def tick(self) -> None:
        """Do work that is due. This is called several times a second."""

    def close(self) -> None:
        """End the work in progress after the widget was closed."""

    def dismiss(self) -> None:
        """Remove all notices after the user has read them."""
        self.notices.dismiss()
        self.changed()
