"""Waiting for what other threads and processes do."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

PATIENCE_SECONDS = 60
"""How long is waited for what a slow machine does at some time; what never comes fails no sooner."""

_PAUSE = threading.Event()


def wait_until(condition: Callable[[], Any], what: str = "the condition", seconds: float = PATIENCE_SECONDS) -> Any:
    """Return the first true value of ``condition``, which is called again and again until then."""
    end_at = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end_at, f"not within {seconds} s: {what}"
        _PAUSE.wait(0.005)
    return value
