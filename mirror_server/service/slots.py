"""Slots for what takes long: how much of it there may be at once, altogether and for one application."""

from __future__ import annotations

import math
import threading
from collections import Counter

from mirror_server.core.errors import Refusal

_MOST_DOWNLOADS = 8


class Slots:
    """Slots that any thread may acquire and release.

    Args:
        most: How many there are.
        share: Which part of them one application may have, up to 1; one slot it may have in any case.
        what: What takes them, for a message: ``polls, streams and websockets are open``.
        reason: The error word where there is none.
        again_seconds: When it may be tried again then.
    """

    def __init__(self, most: int, share: float, *, what: str, reason: str, again_seconds: int) -> None:
        self._most = most
        self._most_of_one = max(1, math.ceil(most * share))
        self._what = what
        self._reason = reason
        self._again_seconds = again_seconds
        self._taken: Counter[str] = Counter()
        self._lock = threading.Lock()

    @classmethod
    def of_polls(cls, most: int, share: float) -> Slots:
        """Those of polls, event streams and websockets."""
        return cls(most, share, what="polls, streams and websockets are open", reason="TOO_MANY_POLLS", again_seconds=5)

    @classmethod
    def of_downloads(cls, share: float) -> Slots:
        """Those of what keeps a connection to the database for as long as it is sent."""
        what = "snapshots and histories are being sent"
        return cls(_MOST_DOWNLOADS, share, what=what, reason="TOO_MANY_SNAPSHOTS", again_seconds=2)

    @property
    def in_use(self) -> bool:
        """Whether any is taken."""
        return bool(self._taken)

    def acquire(self, app_id: str) -> Refusal | None:
        """Acquire a slot for an application; what is given says why none is free (429)."""
        with self._lock:
            own = self._taken.get(app_id, 0)
            if own >= self._most_of_one:
                return self._refusal(f"{own} {self._what} with this key, as many as one may have; end one first")
            if self._taken.total() >= self._most:
                return self._refusal(f"{self._most} {self._what} on this server, as many as there can be")
            self._taken[app_id] += 1
        return None

    def release(self, app_id: str) -> None:
        """Release a slot of the application."""
        with self._lock:
            self._taken[app_id] -= 1
            if not self._taken[app_id]:
                del self._taken[app_id]

    def _refusal(self, message: str) -> Refusal:
        cure = "or try again in a moment"
        return Refusal(429, f"{message}, {cure}", reason=self._reason, retry_after_seconds=self._again_seconds)
