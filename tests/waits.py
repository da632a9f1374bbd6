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
    begun_at = time.monotonic()
    while not (value := condition()):
        waited = time.monotonic() - begun_at
        assert waited < seconds, f"not within {seconds} s: {what}"
        _PAUSE.wait(min(0.005 + waited / 20, 0.1))
    return value
