"""Which notification channel a key has: one at a time, of whatever type. Source: wire.md 4."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from mirror_server.core.errors import Refusal
from mirror_server.store.database import Database
from mirror_server.store.session import Session


class Channel(NamedTuple):
    """A type of channel: what it is called as a delivery mechanism and in a sentence, and which request ends it."""

    mechanism: str
    name: str
    ends_with: str


FindChannel = Callable[[Session, str], Channel | None]
"""Gives its type where an application has a channel of it."""


class Channels:
    """All types of channels there are.

    Args:
        database: Where they are.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._finds: list[FindChannel] = []

    def add(self, find: FindChannel) -> None:
        """Add a type."""
        self._finds.append(find)

    def of(self, app_id: str) -> Channel | None:
        """The channel of an application."""
        return self._database.look(lambda session: self._find(session, app_id, None))

    def other(self, session: Session, app_id: str, own: Channel) -> Refusal | None:
        """The 400 of an application that has a channel of another type than its own."""
        other = self._find(session, app_id, own)
        if other is None:
            return None
        cure = f"only one type of channel at a time; end it with {other.ends_with} first"
        return Refusal(400, f"this key has {other.name}, and {cure}", reason="OTHER_CHANNEL")

    def check(self, app_id: str, own: Channel) -> None:
        """Check that an application has no channel of another type.

        Raises:
            Refusal: It has one (400).
        """
        refusal = self._database.look(lambda session: self.other(session, app_id, own))
        if refusal is not None:
            raise refusal

    def _find(self, session: Session, app_id: str, own: Channel | None) -> Channel | None:
        found = (find(session, app_id) for find in self._finds)
        return next((channel for channel in found if channel not in (None, own)), None)
