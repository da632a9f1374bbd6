"""Functions that wait for other threads and processes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

PATIENCE_SECONDS = 60
"""The time limit for events that a slow machine delays. A missing event fails only after this time."""

_PAUSE = threading.Event()


def wait_until(condition: Callable[[], Any], what: str = "the condition", seconds: float = PATIENCE_SECONDS) -> Any:
    """Call ``condition`` repeatedly until it returns a true value, and return that value."""
    started_at = time.monotonic()
    while not (value := condition()):
        waited = time.monotonic() - started_at
        assert waited < seconds, f"not within {seconds} s: {what}"
        _PAUSE.wait(min(0.005 + waited / 20, 0.1))
    return value
