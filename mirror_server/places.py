"""Places for what is held open: so many altogether, and of these a share for one application."""

from __future__ import annotations

import math
import threading
from collections import Counter

from mirror_server.core.errors import Refusal

_AGAIN_SECONDS = 5


class Places:
    """Places for polls and streams, which any thread may take and give back.

    Args:
        most: How many there are.
        share: Which part of them one application may have, up to 1; one place it may have in any case.
    """

    def __init__(self, most: int, share: float) -> None:
        self._most = most
        self._most_of_one = max(1, math.ceil(most * share))
        self._taken: Counter[str] = Counter()
        self._lock = threading.Lock()

    @property
    def are_taken(self) -> bool:
        """Whether any is taken."""
        return bool(self._taken)

    def take(self, app_id: str) -> Refusal | None:
        """Take a place for an application; what is given says why there is none (429)."""
        with self._lock:
            own = self._taken.get(app_id, 0)
            if own >= self._most_of_one:
                has = f"this key has {own} polls and streams open, as many as one key may"
                return _refusal(f"{has}; end one, or let several readers share one")
            if self._taken.total() >= self._most:
                return _refusal("too many polls and streams are open on this server; try again later, or use a webhook")
            self._taken[app_id] += 1
        return None

    def give_back(self, app_id: str) -> None:
        """Give back a place of the application."""
        with self._lock:
            self._taken[app_id] -= 1
            if not self._taken[app_id]:
                del self._taken[app_id]


def _refusal(message: str) -> Refusal:
    return Refusal(429, message, reason="TOO_MANY_POLLS", retry_after_seconds=_AGAIN_SECONDS)
