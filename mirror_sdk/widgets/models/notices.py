"""Notices of what went wrong: at most one for each subject, the newest last."""

from __future__ import annotations

NOTICES_KEPT = 5


class Notices:
    """Open notices by subject. A notice goes when its subject works again, or when it is dismissed."""

    def __init__(self) -> None:
        self._open: dict[str, str] = {}

    def __contains__(self, subject: object) -> bool:
        return subject in self._open

    @property
    def texts(self) -> list[str]:
        """The open notices, oldest first."""
        return list(self._open.values())

    def put(self, subject: str, action: str, error: Exception) -> bool:
        """Add the failure of an action, such as ``Reading /3/0/0``; an older notice of the subject goes.

        Returns:
            Whether this is new.
        """
        return self.add(subject, f"{action}: {str(error) or type(error).__name__}")

    def add(self, subject: str, text: str) -> bool:
        """Add a notice that is not a failure; otherwise like :meth:`put`."""
        if self._open.get(subject) == text:
            return False
        self._open.pop(subject, None)
        self._open[subject] = text
        while len(self._open) > NOTICES_KEPT:
            self._open.pop(next(iter(self._open)))
        return True

    def clear(self, subject: str) -> None:
        """Remove the notice of a subject that works."""
        self._open.pop(subject, None)

    def dismiss(self) -> None:
        """Remove all notices."""
        self._open.clear()
