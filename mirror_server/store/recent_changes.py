"""Which devices this process changed lately, so that whoever holds what was made of one need not ask the database.

A change that another process made is a number of :mod:`mirror_server.store.revisions` that is missing here; from the
next one on it is counted anew, and what was held before is looked up.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

_MOST_DEVICES = 100_000


class RecentChanges:
    """The last changes without a gap, and of each device the last of them; used by any thread."""

    def __init__(self) -> None:
        self._since = self._until = 0
        self._last: dict[str, int] = {}
        self._lock = threading.Lock()

    def note(self, revision: int, device_ids: Iterable[str], count: int = 1) -> None:
        """Note a change of these devices that is on disk; ``revision`` is the last of its ``count`` numbers."""
        with self._lock:
            if revision != self._until + count or len(self._last) > _MOST_DEVICES:
                self._since = revision - count
                self._last.clear()
            self._until = revision
            self._last.update(dict.fromkeys(device_ids, revision))

    def is_unchanged(self, device_id: str, since: int, until: int) -> bool:
        """Whether a device is known not to have changed after the change ``since`` up to the change ``until``."""
        with self._lock:
            is_known = self._since <= since and until <= self._until
            return is_known and self._last.get(device_id, 0) <= since
