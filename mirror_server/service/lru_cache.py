"""A cache with a bound in bytes; what was not used for the longest time goes first."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Sized
from typing import Generic, TypeVar

T = TypeVar("T", bound=Sized)

_MOST_BYTES = 64 * 1024 * 1024


class LruCache(Generic[T]):
    """What was encoded of devices lately: those that have not changed since need not be read and encoded again.

    Args:
        most_bytes: How much is held.
    """

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._held: OrderedDict[Hashable, T] = OrderedDict()
        self._held_bytes = 0
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> T | None:
        """What is held under the key."""
        with self._lock:
            found = self._held.get(key)
            if found is not None:
                self._held.move_to_end(key)
            return found

    def put(self, key: Hashable, encoded: T) -> None:
        """Hold it."""
        with self._lock:
            replaced = self._held.pop(key, None)
            self._held_bytes += len(encoded) - (0 if replaced is None else len(replaced))
            self._held[key] = encoded
            while self._held_bytes > self._most_bytes:
                self._held_bytes -= len(self._held.popitem(last=False)[1])
