"""What went wrong, for people to see: at most one notice for each subject, the newest last."""

from __future__ import annotations

NOTICES_KEPT = 5


class Notices:
    """Open notices by their subject; one goes when its subject works again or when it is dismissed."""

    def __init__(self) -> None:
        self._open: dict[str, str] = {}

    def __contains__(self, subject: object) -> bool:
        return subject in self._open

    @property
    def texts(self) -> list[str]:
        """What is open, oldest first."""
        return list(self._open.values())

    def put(self, subject: str, what: str, error: Exception) -> bool:
        """Tell that something failed, in words such as ``Reading /3/0/0``; an older notice of the subject goes.

        Returns:
            Whether this is news.
        """
        return self.tell(subject, f"{what}: {str(error) or type(error).__name__}")

    def tell(self, subject: str, text: str) -> bool:
        """Tell something else than a failure, as :meth:`put` does."""
        if self._open.get(subject) == text:
            return False
        self._open.pop(subject, None)
        self._open[subject] = text
        while len(self._open) > NOTICES_KEPT:
            self._open.pop(next(iter(self._open)))
        return True

    def clear(self, subject: str) -> None:
        """The subject works."""
        self._open.pop(subject, None)

    def dismiss(self) -> None:
        """They were read."""
        self._open.clear()
