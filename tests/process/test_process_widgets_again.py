"""A cell that creates a client and a widget and runs repeatedly leaves nothing open."""

from __future__ import annotations

import threading

import psutil
import pytest
from process_server import PATIENCE_SECONDS, wait_until

from mirror_sdk import MirrorClient
from mirror_sdk.widgets import EventWatcher

pytestmark = pytest.mark.process

RUNS = 5


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("mirror-")]


def connections(port: int) -> int:
    return sum(bool(one.raddr) and one.raddr.port == port for one in psutil.Process().net_connections())


def test_cell_that_runs_again_leaves_no_threads_and_no_connections(shared_server, application):
    widgets, before = [], connections(shared_server.port)
    for _ in range(RUNS):
        client = MirrorClient(shared_server.url, application.key)
        # IPython stores the result of each run like this.
        widgets.append(EventWatcher(client))
        wait_until(lambda: "mirror-watch" in threads(), "the watch of the widget")
        # A connection with a request in flight is not closed.
        widgets[-1]._live.wait_until_idle(PATIENCE_SECONDS)
    wait_until(lambda: sorted(threads()) == ["mirror-watch", "mirror-widget"], "threads of one widget alone")
    wait_until(lambda: connections(shared_server.port) <= before + 2, "connections of one widget alone")
    for widget in widgets:
        widget.client.close()
    wait_until(lambda: not threads(), "no thread of a widget")
    wait_until(lambda: connections(shared_server.port) <= before, "no connection of a widget")
