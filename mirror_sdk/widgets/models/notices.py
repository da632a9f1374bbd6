"""Notices of failures.

There is at most one notice for each subject, and the newest notice is last.
"""

from __future__ import annotations

MAX_NOTICES = 5


class Notices:
    """The open notices by subject. A notice is removed when its subject works again, or when the user dismisses it."""

    def __init__(self) -> None:
        self._open: dict[str, str] = {}

    def __contains__(self, subject: object) -> bool:
        return subject in self._open

    @property
    def texts(self) -> list[str]:
        """The texts of the open notices, with the oldest first."""
        return list(self._open.values())

    def put(self, subject: str, action: str, error: Exception) -> bool:
        """Add a notice that an action failed, such as ``Reading /3/0/0``. It replaces an older notice of the subject.

        Returns:
            Whether the notice is new.
        """
        return self.add(subject, f"{action}: {str(error) or type(error).__name__}")

    def add(self, subject: str, text: str) -> bool:
        """Add a notice that is not about a failure. In all other respects, this method works like :meth:`put`."""
        if self._open.get(subject) == text:
            return False
        self._open.pop(subject, None)
        self._open[subject] = text
        while len(self._open) > MAX_NOTICES:
            self._open.pop(next(iter(self._open)))
        return True

    def clear(self, subject: str) -> None:
        """Remove the notice about a subject that works again."""
        self._open.pop(subject, None)

    def dismiss(self) -> None:
        """Remove all notices."""
        self._open.clear()
