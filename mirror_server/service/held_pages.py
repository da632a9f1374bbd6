"""Memory for what was encoded of the mirror, in a bound."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable

_MOST_BYTES = 64 * 1024 * 1024


class HeldPages:
    """What was encoded lately, so that devices that have not changed since need not be read and encoded again.

    Args:
        most_bytes: How much is held; what was not used for the longest time goes first.
    """

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._pages: OrderedDict[Hashable, bytes] = OrderedDict()
        self._held_bytes = 0
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> bytes | None:
        """What is held under the key."""
        with self._lock:
            if key in self._pages:
                self._pages.move_to_end(key)
            return self._pages.get(key)

    def put(self, key: Hashable, encoded: bytes) -> None:
        """Hold it."""
        with self._lock:
            self._held_bytes += len(encoded) - len(self._pages.pop(key, b""))
            self._pages[key] = encoded
            while self._held_bytes > self._most_bytes:
                self._held_bytes -= len(self._pages.popitem(last=False)[1])
